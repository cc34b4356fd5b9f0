"""What one unit adds to all groups together on DuckDB: L0 groups of it, totals scaled to a norm.

Shape: `clipped` (the clipped totals of each unit and group, which are read several times, so that
all see the same rows), `above` (the units beyond a limit, made once: what is in doubt of a norm is
computed in floating point, and twice might be two answers), `beyond` (their totals, and how many
groups of the unit have no greater hash) and `kept` (those of L0 groups). Units within their limits
are neither hashed nor ranked nor scaled. Sums need not look them up either: they are those of all
totals less those that are lost.

Proof (PRIVACY.md R27, R73). Whether a unit is in `above` follows from its own totals, with all of
which it is. One that is not has at most L0 groups and a norm within the bound: to keep L0 of them
and to scale what is kept would change nothing, nor does it of units that are there in vain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.compiler.plan.measurement_kinds import ScaledTotal
from dpsql.dialects.duckdb.norm_sql import maybe_beyond, norm_of_total, scaled_total, steps_of_total
from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UnitLimits:
    """The most groups of a unit (None: as many as it has), and which of its totals have a norm.

    A total is of the unit `u` in the group of `keys`; `values` are the columns that it has there
    beside them. `hashed` is the keyed hash of a unit and a group. Where totals were stored, the
    column `crowd` of them is no less than the number of groups of the unit.
    """

    keys: Sequence[str]
    values: Sequence[str]
    hashed: str
    l0: int | None
    scaled: Mapping[str, ScaledTotal]
    crowd: str | None = None

    def stages(self, source: str) -> dict[str, str]:
        """The stages over these totals, by name."""
        over = [] if self.l0 is None else [f"COUNT(*) > {self.l0}"]
        over += [maybe_beyond(part, name) for name, part in self.scaled.items()]
        place = "" if self.l0 is None else f", {self._place} AS place"
        if self.crowd is not None and self.signed is not None:
            many = f"SELECT clipped.*{place} FROM clipped WHERE {self.crowd} > {self.l0}"
            return {"clipped AS NOT MATERIALIZED": source, "beyond AS": many}
        named = {
            "clipped AS MATERIALIZED": source,
            "above AS MATERIALIZED": f"SELECT u FROM clipped GROUP BY u HAVING {' OR '.join(over)}",
            "beyond AS": f"SELECT clipped.*{place} FROM clipped SEMI JOIN above USING (u)",
        }
        return {**named, "kept AS MATERIALIZED": self._limited} if self.scaled else named

    @property
    def _limited(self) -> str:
        """What is kept of units beyond a limit."""
        chosen = "" if self.l0 is None else f" WHERE place <= {self.l0}"
        return f"SELECT {self._listed()} FROM beyond{chosen}"

    @property
    def _place(self) -> str:
        """How many groups of the unit have no greater hash.

        Of equal hashes all are counted: where L0 groups are kept, they are those strictly below the
        hash of rank L0 + 1. Which they are depends on the rows of the unit and the key alone.
        """
        return f"COUNT(*) OVER (PARTITION BY u ORDER BY {self.hashed})"

    @property
    def rows(self) -> str:
        """The totals of each unit and group as far as they count."""
        within = {name: steps_of_total(part, name) for name, part in self.scaled.items()}
        return (
            f"SELECT {self._listed(within)} FROM clipped ANTI JOIN above USING (u)"
            f" UNION ALL {self._bounded()}"
        )

    @property
    def signed(self) -> str | None:
        """Rows of which the sums are those of `rows`, the units of a group being the sum of `one`.

        None where totals are scaled.
        """
        if self.scaled or self.l0 is None:
            return None
        lost = [*self.keys, *(f"-{name}" for name in self.values), "-1"]
        return (
            f"SELECT {', '.join([*self.keys, *self.values])}, 1 AS one FROM clipped"
            f" UNION ALL SELECT {', '.join(lost)} FROM beyond WHERE place > {self.l0}"
        )

    def _bounded(self) -> str:
        """What is kept, scaled by the norm over all groups that are."""
        if not self.scaled:
            return self._limited
        norms = [f"{norm_of_total(p, name)} AS n_{name}" for name, p in self.scaled.items()]
        of_units = f"SELECT u, {', '.join(norms)} FROM kept GROUP BY u"
        scaled = {name: scaled_total(p, name, f"n_{name}") for name, p in self.scaled.items()}
        return f"SELECT {self._listed(scaled)} FROM kept JOIN ({of_units}) AS norms USING (u)"

    def _listed(self, instead: Mapping[str, str] | None = None) -> str:
        """All columns of a total, some of them in another form."""
        forms = instead or {}
        items = [f"{forms[c]} AS {c}" if c in forms else c for c in (*self.keys, *self.values)]
        return ", ".join(["u", *items])
