"""Input of aggregate recipes: calls with the facts of their arguments."""

from __future__ import annotations

from dpsql.compiler import aggregates
from dpsql.compiler.aggregates.recipe import BoundedCall, MeasurementOptions, Recipe
from dpsql.compiler.calibrate.contributions import Contributions
from dpsql.compiler.plan.measurement_kinds import Measurement
from dpsql.compiler.plan.private_plan import BoundedBlock, PrivateBlock
from dpsql.compiler.track.table_scans import require_direct
from dpsql.model.algebra import Item
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import AggregateCall, Expression, Ref
from dpsql.model.walk import map_children, refs

WIDE = frozenset(
    """sum avg var_pop var_samp variance stddev stddev_pop stddev_samp median quantile_cont
    quantile_disc""".split()
)
"""Aggregates that allow privately found bounds of their argument."""


def recipe_of(call: AggregateCall) -> Recipe:
    """Return the recipe of an aggregate of private rows. Raises `Refused` if there is none."""
    recipe = aggregates.recipe_by_name(call.function)
    if recipe is None or (call.order_by and recipe.choices is None):
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, call.span, name=call.function)
    return recipe


def bounded_call(
    bounded: BoundedBlock,
    place: int,
    contributions: Contributions,
    options: MeasurementOptions,
) -> BoundedCall:
    """Return the input of a recipe: the call of a measure, and the facts of its arguments."""
    block = bounded.block
    call, arguments = block.measures[place].call, bounded.arguments[place]
    summed = call.function in WIDE and not call.distinct
    wide = summed and contributions.polled and _only_wide(bounded, place)
    argument, rows = call.args[0], contributions.rows_per_group.value
    of_keys = _over_keys(argument, block.keys) if block.keys else None
    return BoundedCall(
        call,
        bounded.wide[place] if wide else arguments,
        rows,
        is_unit=isinstance(argument, Ref) and argument.id in block.unit_ids,
        rows_proved=rows is not None and rows == block.max_rows_per_group,
        one_value=of_keys is not None or refs(argument) <= block.determined,
        of_keys=of_keys,
        options=options,
        polled=contributions.polled,
        wide=wide,
    )


def _only_wide(bounded: BoundedBlock, place: int) -> bool:
    """Test whether an argument has no other bounds than far too large ones.

    It is False if the analyst gives bounds.
    """
    facts = bounded.wide[place] if bounded.wide else ()
    numeric = bool(facts) and facts[0].type.is_numeric and facts[0].interval.is_bounded
    return numeric and bounded.block.measures[place].call.clip is None


def parts_of(block: PrivateBlock, recipe: Recipe, call: BoundedCall) -> tuple[Measurement, ...]:
    """Return the measurements of an aggregate. Raises `Refused` for those that this block cannot
    have.
    """
    parts = recipe.parts(call)
    if block.several:
        require_direct(call.call, parts, chosen=recipe.choices is not None)
    return parts


def _over_keys(expression: Expression, keys: tuple[Item, ...]) -> Expression | None:
    """Return the expression over the columns of the keys; None where it reads other columns."""
    columns = {key.expression: key.field.ref for key in keys}

    def over(node: Expression) -> Expression:
        return columns.get(node) or map_children(node, over)

    written = over(expression)
    return written if refs(written) <= {key.field.id for key in keys} else None
