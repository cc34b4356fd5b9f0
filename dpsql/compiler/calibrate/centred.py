"""Sums about the middle of their bounds, where a query counts their rows too.

Σx = Σ(x - c) + c·n. With c the middle of [L, U] and M half its width, the centred sum has
sensitivity M and the plain one M + |c|, so that two measurements do the work of three (SUM and
AVG), or the same two with less noise (SUM and COUNT).

Under Gaussian noise it is never worse. Let the plain sum have the share h. Given to the count and
the centred sum in proportion |c| to M, it leaves both at least |c|·h/(M + |c|) and M·h/(M + |c|),
and the variance c²/share + M²/share is at most (M + |c|)²/h, that of the plain sum.

It needs a proof that no unit has more rows than counted: then a unit's clipped total is the sum of
its clipped rows in both forms.

Proof (PRIVACY.md R39). Σx and Σ(x - c) + c·n are equal row by row, and both parts are clipped sums.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.calibrate.moment_vectors import Family
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Field
from dpsql.model.tree import DOUBLE, INTEGER, Cast, Expression, Kind, scalar
from dpsql.model.walk import substitute


def about_centres(measurements: Measurements, identities: Identities) -> Measurements:
    """Write sums of counted rows as centred sums plus a multiple of the count; measures stay the
    same.

    The sums may be at any place, and other measures may read their measurements.
    """
    table = {column.part: column for column in measurements.columns}
    formulas: dict[int, Expression] = {}
    families = dict(measurements.families)
    for place, (plain, family) in measurements.sums.items():
        if family.centred.centre == 0 or family.count not in table or plain == family.count:
            continue
        families[place] = family
        if plain in table:
            field = identities.field("part", part_type(plain.lattice))
            centred = PartColumn(family.centred, field, family.offset)
            centred = table.setdefault(family.centred, centred)
            count, whole = table[family.count], table.pop(plain)
            formulas[whole.field.id] = _whole_sum(family, count.field, centred.field)
    return replace(
        measurements,
        paid=tuple((column,) for column in table.values()),
        values=tuple(substitute(value, formulas) for value in measurements.values),
        families=families,
    )


def _whole_sum(family: Family, count: Field, centred: Field) -> Expression:
    """Return Σ(x - c) + c·n in the type of the sum."""
    n, z = count.ref, centred.ref
    steps = family.centred.centre
    match z.type.kind:
        case Kind.INTEGER:
            shift = scalar("mul", steps, n, kind=INTEGER)
            return scalar("add", z, shift, kind=INTEGER)
        case _:
            total = z.to(DOUBLE) + float(steps * family.centred.lattice.step) * n.to(DOUBLE)
            return total if z.type == DOUBLE else Cast(total, z.type)
