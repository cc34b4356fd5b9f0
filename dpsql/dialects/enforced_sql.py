"""The rows of a block without the units that break an unproved claim.

Proof (PRIVACY.md R96). Units are counted over the measured rows, on which both readings agree
(PRIVACY.md R89). A row stays if its unit, or its unit in its group, does not exceed the claim. NULL
is a key like others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression

_EVERY = "every_row"


@dataclass(frozen=True, slots=True)
class EnforcedRows:
    """`rows` as a query, with their unit `u`, `keys` and the columns that hold `inputs`.

    Each row counts `weight` times. `materialized` are the words for stages that are read twice.
    """

    rows: str
    claims: Sequence[Enforcement]
    keys: Sequence[str]
    inputs: Mapping[Expression, str]
    weight: str | None
    materialized: str

    @property
    def stages(self) -> list[str]:
        """SQL of the stages. The last, `rows`, leaves out all rows of units that break a claim."""
        if not self.claims:
            return [f"rows AS ({self.rows})"]
        left_out = [f"broken_{n} AS ({sql})" for n, sql in enumerate(map(self._of, self.claims))]
        conditions = " AND ".join(self._conditions())
        return [
            f"{_EVERY} {self.materialized} ({self.rows})",
            *left_out,
            f"rows AS (SELECT * FROM {_EVERY} WHERE {conditions})",
        ]

    def _whose(self, claim: Enforcement) -> list[str]:
        return ["u", *(self.keys if claim.in_group else ())]

    def _of(self, claim: Enforcement) -> str:
        """Return the query of units, or units and groups, that break a claim."""
        whose = ", ".join(self._whose(claim))
        source, count = _EVERY, "COUNT(*)" if self.weight is None else f"SUM({self.weight})"
        if claim.values:
            values = ", ".join(self.inputs[value] for value in claim.values)
            source, count = f"(SELECT DISTINCT {whose}, {values} FROM {_EVERY}) AS d", "COUNT(*)"
        return f"SELECT {whose} FROM {source} GROUP BY {whose} HAVING {count} > {claim.most}"

    def _conditions(self) -> Iterator[str]:
        for n, claim in enumerate(self.claims):
            name, (unit, *keys) = f"broken_{n}", self._whose(claim)
            same = [f"{name}.{unit} = {_EVERY}.{unit}"]
            same += [f"{name}.{key} IS NOT DISTINCT FROM {_EVERY}.{key}" for key in keys]
            yield f"NOT EXISTS (SELECT 1 FROM {name} WHERE {' AND '.join(same)})"
