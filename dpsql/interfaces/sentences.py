"""Sentences for notices, with the names of the policy and of the result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import NormalDist
from typing import TypeAlias, assert_never

from dpsql.interfaces.amounts import exact_text
from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable
from dpsql.model import notices as kinds
from dpsql.model.notices import Clipped, Hidden
from dpsql.model.tree import Value
from dpsql.model.vocabulary import Answer, Column

_NORMAL = NormalDist().inv_cdf(0.975)


_MOST_LISTED = 5
"""Maximum number of values of a list in a sentence."""


def sentences(
    notices: Sequence[kinds.Notice], columns: Sequence[Column], door: Door | None = None
) -> tuple[str, ...]:
    """Return a sentence for each notice on a result of these columns, in the words of `door`."""
    return tuple(sentence(notice, columns, door) for notice in notices)


def footnotes(answer: Answer) -> tuple[str, ...]:
    """Return the notices about columns. These columns are marked in tables."""
    return sentences([n for n in answer.notices if kinds.places(n)], answer.columns)


def remarks(answer: Answer, door: Door) -> tuple[str, ...]:
    """Return the notices about no column."""
    return sentences([n for n in answer.notices if not kinds.places(n)], answer.columns, door)


def sentence(notice: kinds.Notice, columns: Sequence[Column], door: Door | None = None) -> str:
    """Return the sentence of one notice, in the words of the interface `door`.

    >>> from dpsql.model.tree import INTEGER
    >>> total = (Column("total", INTEGER),)
    >>> print(sentence(Clipped((0,), "customers", True, 20, ((0, 500),), (0, 10000)), total))
    customers add at most 10,000 each to total per group: 20 rows each, clipped to 0 … 500; how \
much that leaves out is unknown, and not in ±
    >>> print(sentence(Hidden((), "households", 164), ()))
    groups of fewer than about 164 households are not shown
    """
    match notice:
        case kinds.Unclear(column=column):
            about: tuple[int, ...] = (column,)
        case kinds.Ranked(outputs=outputs):
            about = outputs
        case _:
            about = kinds.places(notice)
    names = [columns[place].name for place in about]
    return printable(_said(notice, ", ".join(names) or "what this is computed from", door))


def _said(notice: kinds.Notice, names: str, door: Door | None) -> str:
    if isinstance(notice, OfRows):
        return _of_rows(notice)
    match notice:
        case Clipped():
            return _clipped(notice, names) + _uncovered(notice)
        case kinds.FewValues(units=units, grouped=grouped, values=values):
            different = f"{_some(values, 'different value')} each{_per(grouped)}"
            return f"{units} count with at most {different} in {names}{_uncovered(notice)}"
        case kinds.Sampled(units=units, groups=n):
            groups = f"{_some(n, 'group')} each, chosen at random"
            return f"{units} count in at most {groups}, in {names}{_uncovered(notice)}"
        case kinds.Scaled() | kinds.SharedPresence():
            return _scaled(notice, names)
        case kinds.Listed(name=None, values=values):
            return f"values other than the {values:,} declared do not count in {names}"
        case kinds.Listed(name=name, values=values):
            return f"rows with another {name or 'value'} than the {values:,} declared are left out"
        case kinds.Assumed(values=values):
            return f"totals in {names} agree as if there were no values but the {values:,} declared"
        case Hidden():
            return _hidden(notice)
        case kinds.Empty():
            return _empty(notice, door)
        case kinds.Unclear() | kinds.Ranked():
            return _unclear(notice, names, door)
        case kinds.Drowned() | kinds.NeverShown() | kinds.TooFew():
            return _about_few(notice, door)
        case kinds.CountedKeys(keys=keys):
            return _counted(keys)
        case kinds.BoundsFound():
            return _bounds(notice)
        case kinds.RoundedTimes():
            return _rounded(notice)
        case kinds.Relayed(text=text):
            return text
        case kinds.Unprotected(table=table, column=column):
            return f"people whom {table}.{column} names are not protected from what this tells"
        case _:
            assert_never(notice)


_RANKED = {
    kinds.RankedBy.RANK: (
        "the rank of each value of {names} is off by at most {rows:,} row{s} (95 %)"
    ),
    kinds.RankedBy.END: (
        "in a group of more than {rows:,} row{s}, 1 to {rows:,} of them reach the value of {names}"
        " (95 %)"
    ),
    kinds.RankedBy.ROWS: "no value has {rows:,} row{s} more than that of {names} (95 %)",
}

OfRows: TypeAlias = (
    kinds.Withheld
    | kinds.AnsweredAs
    | kinds.NoRows
    | kinds.Synthetic
    | kinds.Published
    | kinds.Reported
    | kinds.Modelled
)
"""Notices on rows that are withheld, certainly absent or of another kind, or on another form."""
_FORMS = {
    kinds.AnswerForm.LIMITED_JOIN: (
        "each joined table keeps at most {most} rows of a privacy unit, chosen by a hash of their"
        " key: numbers can be too low"
    ),
    kinds.AnswerForm.STAGED_AVERAGE: (
        "rows are compared with a released average: no ± has the error of that average"
    ),
    kinds.AnswerForm.STAGED_NUMBER: (
        "rows are chosen by numbers that are released first: no ± has the error of these numbers"
    ),
    kinds.AnswerForm.STAGED_RANK: (
        "rows are compared with released quantiles: no ± has their error. Rows with equal values"
        " share a tile, so that tiles can differ in size"
    ),
    kinds.AnswerForm.UNMATCHED_ROWS: (
        "each row without a match counts once: where few match, noise makes the number too high"
    ),
}


def _of_rows(notice: OfRows) -> str:
    """Return the sentence on rows that are withheld, certainly absent or of another kind, or on
    another form.
    """
    match notice:
        case kinds.Withheld(units=units):
            return f"rows of {units} are never shown: that there are none here says nothing"
        case kinds.AnsweredAs(form=form, most=most):
            return _FORMS[form].format(most=most)
        case kinds.ByDeclaration():
            return _by_declaration(notice)
        case kinds.ByFact():
            return _by_fact(notice)
        case kinds.Reported():
            return _reported(notice)
        case kinds.Synthetic(tables=tables):
            are = f"{' and '.join(tables)} {'is' if len(tables) == 1 else 'are'}"
            return f"{are} synthetic: how wrong these numbers are is not known"
        case kinds.Published(tables=tables):
            names = " and ".join(tables)
            return f"numbers of {names} are noisy: columns such as n_low and n_high hold the error"
        case kinds.Modelled(models=models, limited=limited):
            are = f"{' and '.join(models)} {'is a model' if len(models) == 1 else 'are models'}"
            less = f"; what one unit adds to {' and '.join(limited)} is limited" * bool(limited)
            return f"{are}: no ± says how wrong predictions are{less}"


def _reported(notice: kinds.Reported) -> str:
    law, rows = notice.law, notice.rows
    how = f"{law.mechanism}, ε = {law.epsilon:.4g}"
    margin = _NORMAL * law.deviation(rows or 1)
    error = f"± {margin:,.3g}" if rows else f"± {margin:.3g}·√rows"
    of = f" of {rows:,} rows" if rows else ""
    noise = "" if notice.noise is None else f", the noise beside them by ± {notice.noise:,.3g}"
    return (
        f"{notice.column} is what people reported ({how}): numbers of it are estimates, and their"
        f" reports alone make a count{of} err by {error}{noise}"
    )


def _by_declaration(notice: kinds.ByDeclaration) -> str:
    listed = ", ".join(_value(value) for value in notice.values[:_MOST_LISTED])
    more = len(notice.values) - _MOST_LISTED
    listed += f" and {more:,} more" if more > 0 else ""
    column = f"{notice.table}.{notice.column}"
    meant = "" if notice.near is None else f"; did you mean '{notice.near}'?"
    return (
        f"no rows, by declaration: the policy lists {listed} for {column}, of which the conditions "
        f"leave none; nothing was measured{meant}"
    )


def _by_fact(notice: kinds.ByFact) -> str:
    why = {
        kinds.CertainFact.NEVER_NULL: f"{notice.about} is never NULL",
        kinds.CertainFact.AT_MOST: f"at most {notice.most:,} rows have one {notice.about or 'key'}",
        kinds.CertainFact.LINKED: f"every {notice.about} has its row",
        kinds.CertainFact.FALSE: "the conditions are never true",
        kinds.CertainFact.EQUAL: "both counts are of the same rows",
    }
    what = "no difference" if notice.fact is kinds.CertainFact.EQUAL else "no rows"
    return f"{what}: {why[notice.fact]}; this is certain, and was not measured"


def _bounds(notice: kinds.BoundsFound) -> str:
    ends = f"[{notice.lower:.10g}, {notice.upper:.10g}]"
    return f"The bounds {ends} of {notice.table}.{notice.column} were found privately."


def _counted(keys: tuple[str, ...]) -> str:
    listed = ", ".join(keys)
    other = f"; COUNT(DISTINCT {listed}) tells, with a known error" * (len(keys) == 1)
    return f"how many {listed} are shown is not how many there are{other}"


def _rounded(notice: kinds.RoundedTimes) -> str:
    at = "" if notice.instant is None else f"NOW() is {notice.instant:%Y-%m-%d %H:%M} UTC"
    constants = f"times of the last days are those of the full {notice.resolution}"
    read = [at] * bool(at) + [constants] * notice.constants
    return f"{', and '.join(read)}: the same question until the next {notice.resolution}"


def _unclear(notice: kinds.Unclear | kinds.Ranked, names: str, door: Door | None) -> str:
    if isinstance(notice, kinds.Ranked):
        rows = notice.rows
        return _RANKED[notice.by].format(names=names, rows=rows, s="s" * (rows != 1))
    unclear, numbers = notice.unclear, notice.numbers
    if unclear == numbers:
        what = f"{names} is" if numbers == 1 else f"all {numbers:,} numbers of {names} are"
    else:
        what = f"{unclear:,} of {numbers:,} numbers of {names} are"
    each = "its" if numbers == 1 else "their"
    better = "" if door is None else f"; {door.plan} shows if another form does better"
    return f"{what} no larger than {each} ±{better}"


def _about_few(notice: kinds.Useless | kinds.TooFew, door: Door | None) -> str:
    match notice:
        case kinds.Drowned(units=units, most=most, noise=noise):
            return (
                f"this cannot be useful: at most {most:,} of {units} can be counted, and the "
                f"noise hides {noise:,.3g} or more; ask about more of them, or with {_larger(door)}"
            )
        case kinds.NeverShown(units=units, most=most, least=least):
            return (
                f"this cannot be useful: a group is shown from about {least:,} of {units} on, and "
                f"at most {most:,} can be in one; ask about more of them, or with {_larger(door)}"
            )
        case kinds.TooFew(units=units, visible_from=needed, most=most):
            return (
                f"perhaps too few {units} to find how much one of them adds: {needed:,} are surely "
                f"enough, and at most {most:,} can be counted; declare a limit (max_per_unit), or "
                "ask about more of them"
            )
        case _:
            assert_never(notice)


def _uncovered(notice: Clipped | kinds.FewValues | kinds.Sampled) -> str:
    """Return what a declared limit does to the interval, which covers noise alone."""
    side = "" if notice.side is kinds.CutSide.EITHER else f" ({notice.side})"
    what = "changes" if isinstance(notice, Clipped) and notice.rows is None else "leaves out"
    return f"; how much that {what} is unknown, and not in ±{side}"


def _clipped(notice: Clipped, names: str) -> str:
    ends = " and ".join(" … ".join(map(_value, ends)) for ends in notice.values)
    per, rows = _per(notice.grouped), notice.rows
    if rows is None:
        return f"values in {names} are clipped to {ends}"
    if notice.total is None:
        cut = f", values clipped to {ends}" if ends else ""
        return f"{notice.units} count with at most {_some(rows, 'row')} each{per} in {names}{cut}"
    lower, upper = notice.total
    adds = f"at most {_value(upper)}" if lower == 0 else f"{_value(lower)} to {_value(upper)}"
    cut = f", clipped to {ends}" if ends else ""
    return f"{notice.units} add {adds} each to {names}{per}: {_some(rows, 'row')} each{cut}"


def _scaled(notice: kinds.Scaled | kinds.SharedPresence, names: str) -> str:
    if isinstance(notice, kinds.SharedPresence):
        return _spread(notice, names)
    rounded = float(f"{notice.most:.4g}")
    units, most = notice.units, _value(rounded)
    match notice.what:
        case kinds.Contributed.UNITS | kinds.Contributed.ROWS:
            whole = f"at most {most}" if rounded >= 1 else "less than one of the"
            bound = f"one of {units} counts with {whole} {notice.what} in {names}"
        case kinds.Contributed.VALUES:
            bound = f"one of {units} adds at most {most} to {names}"
        case _:
            bound = f"the {notice.what} of one of {units} add at most {most} to {names}"
    if not notice.visible:
        return f"{bound}: too few {units} to find a better limit; declare max_per_unit"
    beyond = f"at most about {notice.above:,} have more, and their excess is missing"
    side = "" if notice.side is kinds.CutSide.EITHER else f" ({notice.side})"
    clipped = f"{bound} (limit found privately); {beyond}{side}"
    return f"{clipped}. {_guess(notice)}" if notice.guess else clipped


def _guess(notice: kinds.Scaled) -> str:
    """Return the sentence on the end of an interval that holds where few units hold much."""
    why = f"a few {notice.units} hold much of this. Declare max_per_unit."
    match notice.side:
        case kinds.CutSide.ABOVE:
            return f"The lower end holds; the upper end is a guess: {why}"
        case kinds.CutSide.BELOW:
            return f"The upper end holds; the lower end is a guess: {why}"
        case kinds.CutSide.EITHER:
            return f"The interval is a guess: {why}"
        case _:
            assert_never(notice.side)


def _spread(notice: kinds.SharedPresence, names: str) -> str:
    more = f"{notice.units} in more than {notice.groups:,.4g} groups"
    counts = f"{more} count with less than 1 per group in {names}"
    if notice.above is None:
        return f"{counts}, so that {names} can be too low ({notice.side})"
    if not notice.visible:
        return f"{counts}: too few of them to find a better limit; declare max_groups_per_unit"
    return f"{counts} (limit found privately): at most about {notice.above:,} ({notice.side})"


def _hidden(notice: Hidden) -> str:
    return f"groups of fewer than about {notice.least:,} {notice.units} are not shown"


def _empty(notice: kinds.Empty, door: Door | None) -> str:
    if notice.hidden is None:
        return "no rows: nothing that was released fulfils the conditions on it"
    return f"no rows: {_hidden(notice.hidden)}; {_larger(door)} or coarser groups show more"


def _larger(door: Door | None) -> str:
    return "a larger ε" if door is None else f"a larger ε ({door.words()['by_epsilon']})"


def _per(grouped: bool) -> str:  # noqa: FBT001
    return " per group" if grouped else ""


def _some(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _value(value: Value) -> str:
    """Return a public value as text: numbers with separators, dates and times as written."""
    match value:
        case bool() | str() | None | datetime():
            return exact_text(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.10g}"
        case _:
            return exact_text(value)
