"""Aggregates: a recipe each. Adding one is its recipe, one row here and one case file.

>>> from dpsql.tree import INTEGER
>>> str(result_type("avg", (INTEGER,)))
'DOUBLE'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsql.aggregates.average import AVERAGE
from dpsql.aggregates.constant import CONSTANT
from dpsql.aggregates.count import COUNT
from dpsql.aggregates.recipe import Recipe
from dpsql.aggregates.sum import SUM
from dpsql.tree import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Kind, SqlType, decimal

Types = tuple[SqlType, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """`type` gives the result's type (None: wrong arguments); no recipe: public data only."""

    type: Callable[[Types], SqlType | None]
    recipe: Recipe | None = None


def result_type(name: str, types: Types) -> SqlType | None:
    """The type of an aggregate over arguments of these types, None if it does not take them."""
    row = _ROWS.get(name)
    return None if row is None else row.type(types)


def window_type(name: str, types: Types) -> SqlType | None:
    """The type of a window function over arguments of these types, None if there is none."""
    rule = _WINDOWS.get(name)
    return result_type(name, types) if rule is None else rule(types)


def recipe(name: str) -> Recipe | None:
    """How an aggregate of private rows is released, None where there is no rule."""
    row = _ROWS.get(name)
    return None if row is None else row.recipe


def _sum(types: Types) -> SqlType | None:
    if len(types) != 1 or not types[0].is_numeric:
        return None
    (kind,) = types
    return decimal(38, kind.scale) if kind.kind is Kind.DECIMAL else kind


def _double(types: Types) -> SqlType | None:
    return DOUBLE if types and all(t.is_numeric or t.kind is Kind.NULL for t in types) else None


def _same(types: Types) -> SqlType | None:
    return types[0] if types else None


def _is(kind: SqlType) -> Callable[[Types], SqlType | None]:
    return lambda _types: kind


def _quantile(types: Types) -> SqlType | None:
    return DOUBLE if types and types[0].is_numeric else _same(types)


_ROWS: dict[str, _Row] = {
    "count": _Row(_is(INTEGER), COUNT),
    "sum": _Row(_sum, SUM),
    "avg": _Row(_double, AVERAGE),
    "min": _Row(_same, CONSTANT),
    "max": _Row(_same, CONSTANT),
    "median": _Row(_quantile),
    "any_value": _Row(_same, CONSTANT),
    "bool_and": _Row(_is(BOOLEAN)),
    "bool_or": _Row(_is(BOOLEAN)),
    "string_agg": _Row(_is(VARCHAR)),
    "mode": _Row(_same),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"), _Row(_double)
    ),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp"), _Row(_double)),
}

_WINDOWS: dict[str, Callable[[Types], SqlType | None]] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), _is(INTEGER)),
    **dict.fromkeys(("percent_rank", "cume_dist"), _is(DOUBLE)),
    **dict.fromkeys(("lag", "lead", "first_value", "last_value"), _same),
}
