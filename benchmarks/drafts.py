"""Policies of owners who declare the unit, the links and the bounds of values, and no limits.

What such a policy says of the limits is one line, `NO_LIMITS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NO_LIMITS = ""
"""What a policy says of how much one unit may have in a private table, where nobody declares it."""

LIMITS = ("max_groups_per_unit", "max_rows_per_group", "max_rows_per_unit")
UNDECIDED = '"DECIDE"'


@dataclass(frozen=True, slots=True)
class Price:
    """What each question may spend."""

    accountant: str
    epsilon: float
    delta: float

    @property
    def budget(self) -> str:
        """The budget's lines: there is always enough."""
        delta = 0.0 if self.accountant == "pure" else self.delta
        return f"""epsilon = 1e6
delta = {0.9 if delta else 0.0}
accountant = "{self.accountant}"
query_epsilon = {self.epsilon}
max_query_epsilon = {self.epsilon}
query_delta = {delta}
"""

    def __str__(self) -> str:
        delta = "" if self.accountant == "pure" else f", {self.delta:g}"
        return f"{self.accountant} ({self.epsilon:g}{delta})"


@dataclass(frozen=True, slots=True)
class Owner:
    """What an owner decides: the unit, what is public, and what is known of columns."""

    unit: tuple[str, str]
    public: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    """By table and column, with a dot between: what stands in its braces."""


def decided(draft: str, owner: Owner, price: Price, limits: str | None = None) -> str:
    """What `dpsql init` drafted, with every DECIDE decided; whatever it wrote besides stays.

    Without `limits` nothing is declared: what it wrote of them stays too.
    """
    head, budget = draft.split("[budgets.default]\n")
    rest = budget[budget.index("\n[") :]
    lines, table = list[str](), ""
    unit = iter(owner.unit)
    for line in head.splitlines():
        named = re.match(r"\[tables\.(\w+)\]", line)
        table = named[1] if named else table
        name = line.split(" = ")[0]
        if UNDECIDED in line and name in ("table", "key"):
            lines.append(f'{name} = "{next(unit)}"')
        elif UNDECIDED in line and name == "access":
            lines.append(f'access = "{"public" if table in owner.public else "private"}"')
        elif UNDECIDED in line or (name in LIMITS and limits is not None):
            pass  # those limits stand beside the link
        else:
            lines.append(_column(line, name, owner.columns.get(f"{table}.{name}", "")))
            lines += [limits] if name == "link" and limits is not None else []
    return "\n".join([*lines, "[budgets.default]", price.budget]) + rest


def _column(line: str, name: str, known: str) -> str:
    if not known:
        return line
    inner = line[line.index("{") + 1 : line.index("}")].strip()
    return f"{name} = {{ {', '.join(filter(None, [inner, known]))} }}"
