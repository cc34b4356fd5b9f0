"""An aggregate as somebody would add one: SEM(x), the standard error of a mean, from moments.

Proof (PRIVACY.md R33). Count, centred sum and centred squares are the clipped sums of a variance;
the formula reads released numbers.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.formulas import at_least_one
from dpsql.compiler.aggregates.moments import VAR_POP
from dpsql.compiler.aggregates.recipe import BoundedCall, Recipe
from dpsql.model.tree import Expression, Ref, scalar


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return scalar("sqrt", VAR_POP.combine(asked, parts) / at_least_one(parts[0]))


SEM = Recipe(VAR_POP.parts, _combine, VAR_POP.typical, moments=True)
