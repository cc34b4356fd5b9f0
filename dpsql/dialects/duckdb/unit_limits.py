"""What one unit adds to all groups together on DuckDB: L0 groups of it, totals scaled to a norm.

Shape: `clipped` (the clipped totals of each unit and group, which are read several times, so that
all see the same rows), `above` (the units beyond a limit, made once: what is in doubt of a norm is
computed in floating point, and twice might be two answers), `beyond` (their totals, and the place
of each in its unit's turn) and `kept` (those of L0 groups). Units within their limits are neither
hashed nor ranked nor scaled, and those beyond a norm alone are not ranked. Sums need not look them
up either: they are those of all totals less those that are lost. Where there are few groups, a norm
is not even added up of units that have no total as large as it would take (see `large_total`).

The groups of a unit stand in a circle, in an order that is the same for every question, and the
query's key says with which the L0 begin that are kept. So their order can be stored, and each
question keeps others.

Proof (PRIVACY.md R27, R73, R91). Whether a unit is in `above` follows from its own totals, with all
of which it is, and from how many groups there are. One that is not has at most L0 groups and a norm
within the bound: to keep L0 of them and to scale what is kept would change nothing, nor does it of
units that are there in vain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.compiler.plan.measurement_kinds import ScaledTotal
from dpsql.dialects.duckdb.norm_sql import (
    large_total,
    maybe_beyond,
    norm_of_total,
    scaled_total,
    steps_of_total,
)
from dpsql.dialects.places import place_in_unit
from dpsql.model.dataclass import dataclass


def turned(place: str, groups: str) -> str:
    """How many of so many groups of a unit come before a place, from where its turn begins."""
    return f"({place} + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT) % {groups}"


@dataclass(frozen=True, slots=True)
class UnitLimits:
    """The most groups of a unit (None: as many as it has), and which of its totals have a norm.

    A total is of the unit `u` in the group of `keys`; `values` are the columns that it has there
    beside them. Where totals were stored, the column `crowd` of them is no less than the number of
    groups of the unit; where it is that number, `place` is the column of a group's place. There are
    `few` groups where their keys are listed. Totals that are `ready` are there as they are read.
    """

    keys: Sequence[str]
    values: Sequence[str]
    l0: int | None
    scaled: Mapping[str, ScaledTotal]
    crowd: str | None = None
    place: str | None = None
    few: bool = False
    ready: bool = False

    def stages(self, source: str) -> dict[str, str]:
        """The stages over these totals, by name."""
        place = "" if self.l0 is None else f", {self._place} AS place"
        if self._stored:
            return {"clipped AS NOT MATERIALIZED": source}
        if self.crowd is not None and self.l0 is not None and not self.scaled:
            groups = "SELECT *, COUNT(*) OVER (PARTITION BY u) AS groups FROM clipped"
            many = f"SELECT *{place} FROM ({groups} WHERE {self.crowd} > {self.l0})"
            return {"clipped AS NOT MATERIALIZED": source, "beyond AS": many}
        named = {
            f"clipped AS {'NOT ' if self.ready else ''}MATERIALIZED": source,
            "above AS MATERIALIZED": self._above,
            "beyond AS": f"SELECT clipped.*{place} FROM clipped JOIN above USING (u){self._ranked}",
        }
        return {**named, "kept AS MATERIALIZED": self._limited} if self.scaled else named

    @property
    def _above(self) -> str:
        """The units beyond a limit, and maybe others."""
        if self.few and self.l0 is None:
            large = " OR ".join(large_total(p, name, "there") for name, p in self.scaled.items())
            groups = f"SELECT {', '.join(self.keys)} FROM clipped GROUP BY ALL"
            counted = f"(SELECT COUNT(*)::DOUBLE AS there FROM ({groups}))"
            return f"SELECT DISTINCT u FROM clipped, {counted} WHERE {large}"
        over = [] if self.l0 is None else [f"COUNT(*) > {self.l0}"]
        over += [maybe_beyond(part, name) for name, part in self.scaled.items()]
        counted = "SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u"
        return f"{counted} HAVING {' OR '.join(over)}"

    @property
    def _limited(self) -> str:
        """What is kept of units beyond a limit."""
        listed = self._listed()
        if self.l0 is None:
            return f"SELECT {listed} FROM beyond"
        turned = f"SELECT {listed} FROM beyond WHERE place < {self.l0}"
        every = f"SELECT {listed} FROM clipped JOIN above USING (u) WHERE groups <= {self.l0}"
        return f"{every} UNION ALL {turned}" if self.scaled else turned

    @property
    def _ranked(self) -> str:
        """Units that are beyond a norm alone keep all of their groups, and need no places."""
        return f" WHERE groups > {self.l0}" if self.scaled and self.l0 is not None else ""

    @property
    def _place(self) -> str:
        """How many groups of the unit come before, from where its turn begins."""
        return turned(place_in_unit("u", self.keys), "groups")

    @property
    def _stored(self) -> bool:
        """Whether places need not be computed."""
        return self.place is not None and self.l0 is not None and not self.scaled

    @property
    def rows(self) -> str:
        """The totals of each unit and group as far as they count."""
        if self._stored:
            assert self.place is not None
            assert self.crowd is not None
            every, l0 = f"SELECT {self._listed()} FROM clipped WHERE {self.crowd}", self.l0
            chosen = f"{turned(self.place, self.crowd)} < {l0}"
            return f"{every} <= {l0} UNION ALL {every} > {l0} AND {chosen}"
        within = {name: steps_of_total(part, name) for name, part in self.scaled.items()}
        return (
            f"SELECT {self._listed(within)} FROM clipped ANTI JOIN above USING (u)"
            f" UNION ALL {self._bounded()}"
        )

    @property
    def signed(self) -> str | None:
        """Rows of which the sums are those of `rows`, the units of a group being the sum of `one`.

        None where totals are scaled of which not all are kept, or places stored.
        """
        if self.l0 is None:
            return self._less_scaled
        if self.scaled or self._stored:
            return None
        lost = [*self.keys, *(f"-{name}" for name in self.values), "-1"]
        return (
            f"SELECT {', '.join([*self.keys, *self.values])}, 1 AS one FROM clipped"
            f" UNION ALL SELECT {', '.join(lost)} FROM beyond WHERE place >= {self.l0}"
        )

    @property
    def _less_scaled(self) -> str:
        """All totals, and what those of units beyond a bound are less when they are scaled."""
        steps = {name: steps_of_total(part, name) for name, part in self.scaled.items()}
        named = [f"{steps[name]} AS {name}" if name in steps else name for name in self.values]
        less = [
            f"({scaled_total(self.scaled[name], name, f'n_{name}')} - {steps[name]})::BIGINT"
            if name in steps
            else "0"
            for name in self.values
        ]
        return (
            f"SELECT {', '.join([*self.keys, *named, '1 AS one'])} FROM clipped"
            f" UNION ALL SELECT {', '.join([*self.keys, *less, '0'])} FROM {self._with_norms}"
        )

    def _bounded(self) -> str:
        """What is kept, scaled by the norm over all groups that are."""
        if not self.scaled:
            return self._limited
        scaled = {name: scaled_total(p, name, f"n_{name}") for name, p in self.scaled.items()}
        return f"SELECT {self._listed(scaled)} FROM {self._with_norms}"

    @property
    def _with_norms(self) -> str:
        norms = [f"{norm_of_total(p, name)} AS n_{name}" for name, p in self.scaled.items()]
        of_units = f"SELECT u, {', '.join(norms)} FROM kept GROUP BY u"
        return f"kept JOIN ({of_units}) AS norms USING (u)"

    def _listed(self, instead: Mapping[str, str] | None = None) -> str:
        """All columns of a total, some of them in another form."""
        forms = instead or {}
        items = [f"{forms[c]} AS {c}" if c in forms else c for c in (*self.keys, *self.values)]
        return ", ".join(["u", *items])
