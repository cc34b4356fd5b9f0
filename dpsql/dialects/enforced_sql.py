"""The rows of a block without the units that break a claim which nothing proves.

Proof (PRIVACY.md R96). Units are counted over the rows that are measured, which both readings of
them agree on (PRIVACY.md R89); a row stays if nothing was counted of its unit, or of its unit in
its group, beyond the claim. NULL is a key like others.
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

    Each counts as many as its `weight` says; stages that are read twice are `materialized`.
    """

    rows: str
    claims: Sequence[Enforcement]
    keys: Sequence[str]
    inputs: Mapping[Expression, str]
    weight: str | None
    materialized: str

    @property
    def stages(self) -> list[str]:
        """The stages up to `rows`."""
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
        """The units, or units and groups, that break a claim."""
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
