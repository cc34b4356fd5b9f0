"""Policies of owners who declare the unit, the links and the bounds of values, and no limits.

What such a policy says of the limits is one line, `NO_LIMITS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.policy.init import Decisions, draft
from dpsql.policy.unit_paths import unit_called

NO_LIMITS = ""
"""What a policy says of how much one unit may have in a private table, where nobody declares it."""


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


def decided(schema: Schema, path: str, owner: Owner, price: Price, limits: str = NO_LIMITS) -> str:
    """What `dpsql init` drafts for a DuckDB file with these decisions; `limits` stand beside links.

    Whatever else it writes stays, but for the bounds that the owner knows.
    """
    unit = unit_called(schema, ".".join(owner.unit))
    drafted = draft(schema, Database("duckdb", path), Decisions(unit, owner.public))
    head, budget = drafted.split("[budgets.default]\n")
    rest = budget[budget.index("\n[") :]
    lines, table = list[str](), ""
    for line in head.splitlines():
        named = re.match(r"\[tables\.(\w+)\]", line)
        table = named[1] if named else table
        name = line.split(" = ")[0]
        lines.append(_column(line, name, owner.columns.get(f"{table}.{name}", "")))
        lines += [limits] if name == "link" and limits else []
    return "\n".join([*lines, "[budgets.default]", price.budget]) + rest


def _column(line: str, name: str, known: str) -> str:
    if not known:
        return line
    inner = line[line.index("{") + 1 : line.index("}")].replace("private_bounds = true", "")
    parts = [part.strip() for part in (*inner.split(","), known)]
    return f"{name} = {{ {', '.join(filter(None, parts))} }}"
