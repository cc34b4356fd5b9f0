"""Limits of one unit over all groups on DuckDB: at most L0 groups, and totals scaled to a norm.

Shape: `clipped` has the clipped totals of each unit and group; all its readers see the same rows.
`above` has the units beyond a limit. It is computed once, because a norm in floating point might
give two answers. `beyond` has their totals, with the place of each in its unit's turn, and `kept`
those of L0 groups. Units within their limits are neither hashed, ranked nor scaled, and those that
only exceed a norm are not ranked. Sums need not look them up either: they are sums of all totals
minus those of the lost ones. With few groups, norms are not even computed for units without a large
total (see `large_total`).

The groups of a unit form a circle, in an order that is the same for every question. The query's key
decides where the kept L0 groups begin. So the order can be stored, and each question keeps other
groups.

Proof (PRIVACY.md R27, R73, R91). Membership of a unit in `above` follows from its own totals, which
are all in it, and from the number of groups. A unit outside has at most L0 groups and a norm within
the bound. Sampling and scaling would not change it. They do not change units that are in it
needlessly either.
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
    """Return SQL for the number of a unit's groups between the start of its turn and a place."""
    return f"({place} + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT) % {groups}"


@dataclass(frozen=True, slots=True)
class UnitLimits:
    """Limits of a unit: the most groups (None: all), and the totals that have a norm.

    A total belongs to unit `u` in the group of `keys`; `values` are its other columns. For stored
    totals, the column `crowd` is at least the number of the unit's groups; if it is exact, `place`
    is the column of a group's place. `few` means few groups, with listed keys. `ready` totals exist
    already.
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
        """Return the stages over these totals, by name."""
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
        """Query of the units beyond a limit, and possibly others."""
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
        """Query of the kept totals of units beyond a limit."""
        listed = self._listed()
        if self.l0 is None:
            return f"SELECT {listed} FROM beyond"
        turned = f"SELECT {listed} FROM beyond WHERE place < {self.l0}"
        every = f"SELECT {listed} FROM clipped JOIN above USING (u) WHERE groups <= {self.l0}"
        return f"{every} UNION ALL {turned}" if self.scaled else turned

    @property
    def _ranked(self) -> str:
        """Condition for units beyond L0; others keep all their groups and need no places."""
        return f" WHERE groups > {self.l0}" if self.scaled and self.l0 is not None else ""

    @property
    def _place(self) -> str:
        """Number of a unit's groups between the start of its turn and this one."""
        return turned(place_in_unit("u", self.keys), "groups")

    @property
    def _stored(self) -> bool:
        """True if places are stored."""
        return self.place is not None and self.l0 is not None and not self.scaled

    @property
    def rows(self) -> str:
        """Query of the totals per unit and group that count."""
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
        """Query of rows with the sums of `rows`; the number of a group's units is the sum of
        `one`.

        None if scaled totals are also sampled, or if places are stored.
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
        """Query of all totals, and of the negative differences that scaling makes."""
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
        """Return the query of kept totals, scaled by the norm over all kept groups."""
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
        """Return all columns of a total, some of them in another form."""
        forms = instead or {}
        items = [f"{forms[c]} AS {c}" if c in forms else c for c in (*self.keys, *self.values)]
        return ", ".join(["u", *items])
