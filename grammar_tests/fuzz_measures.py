"""Random aggregates that law 1 cannot compare: chosen, sampled, tested, or of several moments.

Their answers are not plain DuckDB's even without noise (ties, reserves, middles of cells, blocks),
but what one unit changes of their integers is claimed like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammar_tests.fuzz_conditions import condition
from grammar_tests.fuzz_dice import Dice, filled
from grammar_tests.fuzz_terms import Column, term

MOMENTS = (
    *("VAR_POP({amount})", "VAR_SAMP({amount})", "STDDEV({amount})", "STDDEV_POP({bounded})"),
    *("CORR({bounded}, {bounded})", "COVAR_POP({amount}, {bounded})", "COVAR_SAMP({int}, {dec})"),
    *("REGR_SLOPE({bounded}, {amount})", "REGR_INTERCEPT({bounded}, {bounded})"),
    *("REGR_R2({bounded}, {bounded})", "REGR_COUNT({amount}, {dbl})", "REGR_AVGX({int}, {amount})"),
    *("REGR_SXX({bounded}, {bounded})", "REGR_SXY({bounded}, {bounded})"),
)
CHOSEN = (
    *("MEDIAN({bounded})", "MIN({bounded})", "MAX({amount})", "MODE({listed})", "MIN({dated})"),
    *("QUANTILE_DISC({bounded}, 0.3)", "QUANTILE_CONT({amount}, 0.9)", "MODE({bounded})"),
    *("APPROX_QUANTILE({bounded}, 0.25)", "MAX({dated})", "MEDIAN({dated})", "MAX({listed})"),
    *("ARG_MAX({listed}, {whole})", "ARG_MIN({listed}, {whole})"),
    "PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY {bounded} DESC)",
    "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY {bounded})",
)
OTHERS = (
    *("BOOL_OR({bool})", "BOOL_AND({bool})", "HISTOGRAM({listed})", "PTR_MEAN({amount}, 20)"),
    *("SAMPLE_AGGREGATE(MEDIAN({bounded}), 0, 100, 5)", "PTR_MEAN({bounded}, 3)"),
    "SAMPLE_AGGREGATE(MAX({int}) - MIN({int}), -10, 10)",
    "SAMPLE_AGGREGATE(SUM({amount}) / COUNT(*), 0, 50, 3)",
    "SAMPLE_AGGREGATE(CORR({bounded}, {amount}), -1, 1)",
    "SAMPLE_AGGREGATE(COUNT(DISTINCT {text}), 0, 9, 4)",
)
TEMPLATES = (MOMENTS, CHOSEN, OTHERS)


def swayed(dice: Dice, scope: Sequence[Column]) -> str:
    """One such aggregate, with FILTER now and then."""

    def fill(word: str) -> str:
        match word:
            case "bounded":
                return _column(dice, [c for c in scope if c.bounded], "1")
            case "whole":
                return _column(dice, [c for c in scope if c.bounded and c.kind == "int"], "1")
            case "listed":
                kinds = ("text", "bool")
                return _column(dice, [c for c in scope if c.kind in kinds], "TRUE")
            case "dated":
                return _column(dice, [c for c in scope if c.kind in ("ts", "date")], "1")
            case _:
                return term(dice, word, scope, 2)

    text = filled(dice.pick(dice.pick(TEMPLATES)), fill)
    if dice.chance(20):
        text += f" FILTER (WHERE {condition(dice, scope, 2)})"
    return text


def _column(dice: Dice, columns: Sequence[Column], otherwise: str) -> str:
    return dice.pick(columns).text if columns else otherwise


def ends(dice: Dice, keys: Sequence[Column], measures: Sequence[str]) -> str:
    """ORDER BY an aggregate LIMIT few: the keys may be chosen, and then measured."""
    if not (keys and dice.chance(40)):
        return ""
    order = [dice.pick(measures) + dice.pick((" DESC", "")), *(key.text for key in keys)]
    return f" ORDER BY {', '.join(order)} LIMIT {dice.pick((1, 2, 3))}"


def ranked(dice: Dice, scope: Sequence[Column]) -> str:
    """An aggregate whose choice is plain DuckDB's without noise: of whole numbers, by rank."""
    whole = [c.text for c in scope if c.kind == "int" and c.bounded]
    shown = dice.pick(("MIN({})", "MAX({})", "QUANTILE_DISC({}, 0.3)", "QUANTILE_DISC({}, 0.5)"))
    return shown.format(dice.pick(whole)) if whole else "COUNT(*)"
