"""Aggregates. Each has a recipe; to add one, write its recipe, one row here and one case file.

>>> str(result_type("avg", (tree.INTEGER,)))
'DOUBLE'
>>> double((tree.INTEGER,)) == tree.DOUBLE, double((tree.VARCHAR,))
(True, None)
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpsql.compiler.aggregates import moments
from dpsql.compiler.aggregates.arg_max import ARG_MAX, ARG_MAX_NULL, ARG_MIN, ARG_MIN_NULL
from dpsql.compiler.aggregates.constant import CONSTANT
from dpsql.compiler.aggregates.count import BOOL_AND, BOOL_OR, COUNT
from dpsql.compiler.aggregates.histogram import HISTOGRAM
from dpsql.compiler.aggregates.quantiles import MAX, MIN, MODE, QUANTILE
from dpsql.compiler.aggregates.recipe import Recipe
from dpsql.compiler.aggregates.sample import SAMPLE, SAMPLED, takes_samples
from dpsql.compiler.aggregates.stable_mean import STABLE_MEAN
from dpsql.compiler.aggregates.sum import SUM
from dpsql.model import tree
from dpsql.model.dataclass import dataclass

Types = tuple[tree.SqlType, ...]

MOST_ROWS = 2**31
"""Upper limit of positions in a window."""


def total(types: Types) -> tree.SqlType | None:
    """Return the type of a sum: DECIMAL keeps its scale, integers are as wide as needed."""
    if len(types) != 1 or not types[0].is_numeric:
        return None
    (kind,) = types
    return tree.decimal(38, kind.scale) if kind.kind is tree.Kind.DECIMAL else kind


def double(types: Types) -> tree.SqlType | None:
    """Return DOUBLE if all arguments are numbers or NULL, else None."""
    return (
        tree.DOUBLE
        if types and all(t.is_numeric or t.kind is tree.Kind.NULL for t in types)
        else None
    )


def pairs(types: Types) -> tree.SqlType | None:
    """Return INTEGER, the type of a number of pairs, if all arguments are numbers."""
    return None if double(types) is None else tree.INTEGER


def same(types: Types) -> tree.SqlType | None:
    """Return the type of the first argument."""
    return types[0] if types else None


def fixed(kind: tree.SqlType) -> Callable[[Types], tree.SqlType | None]:
    """Return a rule: the type `kind` for any arguments."""
    return lambda _types: kind


def of(argument: tree.Kind, kind: tree.SqlType) -> Callable[[Types], tree.SqlType | None]:
    """Return a rule: the type `kind` if the first argument is of the kind `argument`."""
    return lambda types: kind if types and types[0].kind in (argument, tree.Kind.NULL) else None


def quantile(types: Types) -> tree.SqlType | None:
    """Return the type of a value between two values: DECIMAL keeps its scale, a date becomes a
    timestamp.
    """
    match types[0].kind if types else None:
        case tree.Kind.INTEGER | tree.Kind.DOUBLE:
            return tree.DOUBLE
        case tree.Kind.DECIMAL | tree.Kind.TIMESTAMP | tree.Kind.TIMESTAMPTZ:
            return types[0]
        case tree.Kind.DATE:
            return tree.TIMESTAMP
        case _:
            return None


def fraction(arg: tree.Expression) -> bool:
    """Test for a constant between 0 and 1."""
    if not isinstance(arg, tree.Literal) or isinstance(arg.value, bool):
        return False
    return isinstance(arg.value, int | float | Decimal) and 0 <= arg.value <= 1


def separator(arg: tree.Expression) -> bool:
    """Test for a constant text."""
    return isinstance(arg, tree.Literal) and isinstance(arg.value, str)


def number_of_rows(arg: tree.Expression) -> bool:
    """Test for a constant whole number, which may be negative."""
    if not isinstance(arg, tree.Literal) or arg.type != tree.INTEGER:
        return False
    return isinstance(arg.value, int) and abs(arg.value) < MOST_ROWS


def positive(arg: tree.Expression) -> bool:
    """Test for a constant whole number of at least 1."""
    value = arg.value if number_of_rows(arg) and isinstance(arg, tree.Literal) else None
    return isinstance(value, int) and value >= 1


@dataclass(frozen=True, slots=True)
class _Row:
    """An aggregate: `type` returns the result's type (None: wrong arguments).

    Without a recipe it works on public data only. `constant` tests the argument at a place, which
    must be written as a constant. `ordered` says that an ORDER BY inside the call can change its
    value. `called` are the fewest and the most arguments (None: any number). An aggregate that is
    `ours` exists in no engine, so it has a recipe only.
    """

    type: Callable[[Types], tree.SqlType | None]
    recipe: Recipe | None = None
    constant: tuple[int, Callable[[tree.Expression], bool]] | None = None
    ordered: bool = False
    called: tuple[int, int | None] = (1, 1)
    ours: bool = False


def result_type(name: str, types: Types) -> tree.SqlType | None:
    """Return the type of an aggregate over arguments of these types; None if it does not accept
    them.
    """
    row = _ROWS.get(name)
    return None if row is None else row.type(types)


def window_type(name: str, types: Types) -> tree.SqlType | None:
    """Return the type of a window function over arguments of these types; None if there is none."""
    row = _WINDOWS.get(name)
    return result_type(name, types) if row is None else row.type(types)


def accepts(name: str, args: tuple[tree.Expression, ...]) -> bool:
    """Test whether an aggregate or window function accepts these arguments as they are written."""
    row = _WINDOWS.get(name, _ROWS.get(name))
    if row is None:
        return False
    if row.recipe is SAMPLED:
        return takes_samples(args)
    if row.constant is None:
        return True
    place, test = row.constant  # no engine fails on a constant that passes
    return len(args) <= place or test(args[place])


def is_ordered(name: str) -> bool:
    """Test whether an ORDER BY inside a call of the aggregate can change its value."""
    row = _ROWS.get(name)
    return row is not None and row.ordered


def of_engines(name: str) -> bool:
    """Test whether engines have the aggregate or window function."""
    row = _WINDOWS.get(name, _ROWS.get(name))
    return row is not None and not row.ours


def called(name: str) -> tuple[int, int | None] | None:
    """Return the fewest and the most arguments of an aggregate; None if there is no such
    aggregate.
    """
    row = _ROWS.get(name)
    return None if row is None else row.called


def names() -> tuple[str, ...]:
    """List the names of all aggregates."""
    return tuple(_ROWS)


def recipe_by_name(name: str) -> Recipe | None:
    """Return the recipe for an aggregate of private rows; None if there is no rule."""
    row = _ROWS.get(name)
    return None if row is None else row.recipe


_FRACTION, _TWO = (1, fraction), (2, 2)
_ROWS: dict[str, _Row] = {
    "count": _Row(fixed(tree.INTEGER), COUNT),
    "sum": _Row(total, SUM),
    "avg": _Row(double, moments.AVERAGE),
    "ptr_mean": _Row(double, STABLE_MEAN, constant=(1, positive), called=_TWO, ours=True),
    "min": _Row(same, MIN),
    "max": _Row(same, MAX),
    "median": _Row(quantile, QUANTILE),
    "quantile_cont": _Row(quantile, QUANTILE, constant=_FRACTION, ordered=True, called=_TWO),
    "quantile_disc": _Row(same, QUANTILE, constant=_FRACTION, ordered=True, called=_TWO),
    "bool_and": _Row(of(tree.Kind.BOOLEAN, tree.BOOLEAN), BOOL_AND),
    "bool_or": _Row(of(tree.Kind.BOOLEAN, tree.BOOLEAN), BOOL_OR),
    "histogram": _Row(fixed(tree.VARCHAR), HISTOGRAM),
    "string_agg": _Row(
        of(tree.Kind.VARCHAR, tree.VARCHAR), constant=(1, separator), ordered=True, called=(1, 2)
    ),
    # A list is returned as DuckDB's text of it; nothing is computed with it.
    "list": _Row(fixed(tree.VARCHAR), ordered=True),
    "mode": _Row(same, MODE, ordered=True),
    **dict.fromkeys(("first", "last"), _Row(same, ordered=True)),
    "any_value": _Row(same, CONSTANT, ordered=True),
    "arg_max": _Row(same, ARG_MAX, ordered=True, called=_TWO),
    "arg_min": _Row(same, ARG_MIN, ordered=True, called=_TWO),
    "arg_max_null": _Row(same, ARG_MAX_NULL, ordered=True, called=_TWO),
    "arg_min_null": _Row(same, ARG_MIN_NULL, ordered=True, called=_TWO),
    "stddev": _Row(double, moments.STDDEV_SAMP),
    "stddev_pop": _Row(double, moments.STDDEV_POP),
    "variance": _Row(double, moments.VAR_SAMP),
    "var_pop": _Row(double, moments.VAR_POP),
    **{name: _Row(double, row, called=_TWO) for name, row in moments.REGRESSION.items()},
    "regr_count": _Row(pairs, moments.REGRESSION["regr_count"], called=_TWO),
    "grouping": _Row(fixed(tree.INTEGER), called=(1, None)),
    **dict.fromkeys(("skewness", "kurtosis", "kurtosis_pop", "mad"), _Row(double)),
    "entropy": _Row(fixed(tree.DOUBLE)),
    SAMPLE: _Row(double, SAMPLED, called=(3, 4), ours=True),
}

_WINDOWS: dict[str, _Row] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank"), _Row(fixed(tree.INTEGER))),
    "ntile": _Row(fixed(tree.INTEGER), constant=(0, positive)),
    **dict.fromkeys(("percent_rank", "cume_dist"), _Row(fixed(tree.DOUBLE))),
    **dict.fromkeys(("lag", "lead"), _Row(same, constant=(1, number_of_rows))),
    **dict.fromkeys(("first_value", "last_value"), _Row(same)),
    "nth_value": _Row(same, constant=(1, positive)),
}
