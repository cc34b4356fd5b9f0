"""An explanation as text: price, expected error and proposals, then each step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from math import inf, isfinite, isnan
from textwrap import wrap
from typing import Any, assert_never

from dpsql.interfaces.amounts import loss_text, plain, share_text
from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import questions_text, spending_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.sql_layout import laid_out
from dpsql.interfaces.tables import grid
from dpsql.model.periods import ChargedPeriods
from dpsql.model.row_notices import ByDeclaration, ByFact, Modelled, Published, Reported, Synthetic
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Column, Loss, Rest
from dpsql.preparation import explanation as explained
from dpsql.preparation.explanation import (
    CoarserPeriods,
    Forecast,
    ForecastKind,
    Proposal,
    RecordedFacts,
    TighterBounds,
)

WIDTH = 100
"""Width of a plan outside of terminals."""

NOISE_IN_RANK = 0.5
"""Error of a quantile, as a share of the rows, from which it is noise: it may have any rank."""

_ABOUT = (
    "about: estimated from expected_rows of the policy; low if all people add alike, high if a few "
    "add most"
)
_NARROWEST = 40
_INDENT = "  "
_TOGETHER = re.compile("(?<=[=±]) | (?=[=%])")

Entry = tuple[str, str]
"""A label and its text."""


def plan_text(
    explanation: explained.Explanation,
    form: PlanForm | str | None = None,
    *,
    width: int = WIDTH,
    door: Door | None = None,
) -> str:
    """Return the plan in a form, in lines of about `width` characters.

    The short form has the charge, the error of each column, clipping, hidden groups and proposals.
    The long form adds each release with its proofs, and every statement that would run. JSON has
    everything.
    """
    width = max(width, _NARROWEST)
    match PlanForm(form or explanation.form):
        case PlanForm.SHORT:
            lines = [*_short(explanation, width, door)]
            if door is not None and door.verbose and explanation.blocks:
                text = f"{door.verbose} shows every measurement, proof and statement."
                lines += ["", *_sentence(text, width)]
        case PlanForm.LONG:
            lines = [*_short(explanation, width, door), *_steps(explanation, width)]
        case PlanForm.JSON:
            return plan_json(explanation)
        case unknown:
            assert_never(unknown)
    return "\n".join([*lines, ""])


# --- short ---


def _short(explanation: explained.Explanation, width: int, door: Door | None) -> Iterator[str]:
    for text in _charge(explanation):
        yield from _sentence(text, width)
    yield ""
    expected = explanation.expected or (None,) * len(explanation.columns)
    forecasts = explanation.forecasts or (None,) * len(explanation.columns)
    columns = zip(explanation.columns, expected, forecasts, strict=True)
    rows = (_column(column, error, forecast) for column, error, forecast in columns)
    yield from grid([("column", "type", "± at 95 %"), *rows])
    if any(forecasts):
        yield from _sentence(_ABOUT, width)
    pairs = zip(explanation.columns, forecasts, strict=True)
    foreseen = {column.name for column, forecast in pairs if forecast is not None}
    bounds = [bound for bound in explanation.outlook.bounds if bound.column not in foreseen]
    yield from _bounds(bounds, len(explanation.columns), width)
    notices = sentences(explanation.notices, explanation.columns)
    yield from _apart(_listed("Told with the answer:", notices, width))
    helping = [proposal_text(each, door) for each in explanation.outlook.proposals]
    helping += map(help_text, explanation.helps)  # behind what is known in numbers
    yield from _apart(_listed("What would help:", helping, width))


_FEW_COLUMNS = 2
"""Maximum number of columns with all bounds; more columns show only the least and the largest."""


def _bounds(bounds: Sequence[explained.FoundBound], columns: int, width: int) -> Iterator[str]:
    """Yield a table of expected errors by the bound that the query will find."""
    if not bounds:
        return
    yield ""
    yield from _sentence("± at 95 %, by how much one unit is found to add in all:", width)
    rows = [("column", "one unit adds up to", "±")]
    for name, group in groupby(bounds, key=lambda bound: bound.column):
        each = list(group)
        shown = each if columns <= _FEW_COLUMNS else each[:: max(1, len(each) - 1)]
        for n, bound in enumerate(shown):
            most = " and ".join(map(explained.approximate, bound.most))
            rows.append(("" if n else printable(name), most, explained.approximate(bound.margin)))
    yield from grid(rows)


def _apart(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield from ("", line) if not number else (line,)


def _charge(explanation: explained.Explanation) -> Iterator[str]:
    accountant = explanation.accountant
    if not explanation.blocks and explanation.event is None:
        kinds = set(map(type, explanation.notices))
        nothing = "No private row is read:"
        read = {
            Synthetic: "Synthetic tables only:",
            Published: "Published tables only:",
            ByDeclaration: nothing,
            ByFact: nothing,
        }
        what = next((read[kind] for kind in read if kind in kinds), "Public tables only:")
        exact = "" if kinds & {Synthetic, Published, Reported, Modelled} else " exact,"
        yield f"{what}{exact} at no cost."
        return
    if explanation.remembered:
        yield "Charge: nothing; this question was answered before and its answer is remembered."
    elif explanation.charge == Loss(0):
        yield "Charge: nothing; what was measured before is enough."
    else:
        charge = loss_text(explanation.charge, accountant)
        yield f"Charge: ε = {plain(explanation.epsilon)} as one query, {charge} ({accountant})."
    if explanation.periods is not None:
        yield from _periods(explanation.periods)
    whose = f" of {explanation.analyst}" + (f", {explanation.cap}" if explanation.cap else "")
    whose += f", in {explanation.window}" if explanation.window else ""
    yield from budget_lines(
        explanation.budget,
        whose,
        accountant,
        explanation.charge,
        explanation.spent,
        explanation.limit,
        explanation.rest,
    )
    for each in explanation.beside:
        yield f"Before this query, {printable(spending_text(each, accountant))}."
    blocks = explanation.blocks[explanation.searches :]
    yield from (f"Groups: {printable(block.keys)}" for block in blocks if block.keys)
    yield from map(printable, explanation.notes)


def _periods(periods: ChargedPeriods) -> Iterator[str]:
    """Yield the charged periods of people, and what one person loses in all of them."""
    number = len(periods.names)
    if number == 1:
        yield f"Period: {periods.text}; other rows are not read."
        return
    yield f"Periods: {periods.text}; each of these {number} is charged."
    yield f"For a person with rows in all {number}, ε is {number} times as large (help periods)."


def budget_lines(
    budget: str,
    whose: str,
    accountant: str,
    charge: Loss,
    spent: Loss,
    limit: Loss,
    rest: Rest | None,
) -> Iterator[str]:
    """Yield the spending of a budget before and after a planned charge, and the remaining
    queries.
    """
    after = spent + charge
    yield (
        f"Budget {printable(budget)}{printable(whose)}: "
        f"{loss_text(spent, accountant)} of {loss_text(limit, accountant)} is spent "
        f"({share_text(spent, limit)}); after this query {share_text(after, limit)}."
    )
    if not after.fits(limit):
        instead = "" if rest is None or rest.fits is None else f"; ε = {plain(rest.fits)} fits"
        yield f"The budget cannot pay for this query: asking would be refused{instead}."
    elif rest is not None:
        verb = "remains" if rest.questions == 1 else "remain"
        yield f"After it {questions_text(rest.questions, rest.question, rest.keyed)} {verb}."


def _column(
    column: Column, expected: float | None, forecast: Forecast | None
) -> tuple[str, str, str]:
    error = "exact" if expected is None else "depends on the data"
    if expected is not None and not isnan(expected):
        error = explained.approximate(expected)
    elif expected is not None and forecast is not None:
        error = forecast_text(forecast)
    return printable(column.name), str(column.type), error


def forecast_text(forecast: Forecast) -> str:
    """Return the text of an expected half-width.

    >>> forecast_text(Forecast(121.7, 396.0, ForecastKind.ABSOLUTE))
    'about 120 to 400'
    >>> forecast_text(Forecast(0.021, 0.084, ForecastKind.RELATIVE))
    'about 2.1 to 8.4 % of it'
    >>> forecast_text(Forecast(0.51, 1.2, ForecastKind.RANK))
    'noise: 51 to 100 % of ranks'
    """
    share = forecast.kind is not ForecastKind.ABSOLUTE
    most = 1.0 if forecast.kind is ForecastKind.RANK else inf
    ends = [min(end, most) * (100 if share else 1) for end in (forecast.low, forecast.high)]
    low, high = (explained.approximate(float(f"{end:.2g}")) for end in ends)
    error = low if low == high else f"{low} to {high}"
    match forecast.kind:
        case ForecastKind.ABSOLUTE:
            return f"about {error}"
        case ForecastKind.RELATIVE:
            return f"{'noise:' if forecast.low >= 1 else 'about'} {error} % of it"
        case ForecastKind.RANK:
            noise = "noise:" if forecast.low >= NOISE_IN_RANK else "about"
            return f"{noise} {error} % of ranks"
        case _:
            assert_never(forecast.kind)


# --- long ---


def _steps(explanation: explained.Explanation, width: int) -> Iterator[str]:
    for number, block in enumerate(explanation.blocks):
        yield ""
        yield from _sentence(
            f"Release {number}: one privacy unit is {printable(block.unit)}", width
        )
        yield from (f"{_INDENT}{line}" for line in _block(block, width - len(_INDENT)))
    for number, sql in enumerate(explanation.stages):
        yield from ("", f"Stage {number}, evaluated before what is joined to it:")
        yield from _statement(sql, width)
    yield from ("", "Outer query, over what was released:" if explanation.blocks else "Query:")
    yield from _statement(explanation.outer_sql, width)


def _block(block: explained.BlockLines, width: int) -> Iterator[str]:
    yield "Contribution limits:"
    yield from _entries(map(_limit, block.limits), width)
    yield from _sentence(f"Keys: {printable(block.keys) or 'one group: no GROUP BY'}", width)
    for measured in block.releases:
        yield from _sentence(f"Measured: {printable(measured.output)}", width)
        yield from _entries(_noised(measured), width)
    for chosen in block.choices:
        yield from _sentence(f"Chosen in each group: {printable(chosen.output)}", width)
        yield from _entries(_chosen(chosen), width)
    yield from _listed("Facts relied on:", map(printable, block.facts), width)
    if not block.facts:
        yield "Facts relied on: none."
    yield "SQL for the database:"
    yield from _statement(block.sql, width)


def _limit(line: explained.LimitLine) -> Entry:
    value = "no limit" if line.value is None else f"{line.value:,}"
    return printable(line.name), f"{value}, {printable(line.how)}"


def _noised(line: explained.ReleaseLine) -> list[Entry]:
    symbol = "σ" if "Gaussian" in line.mechanism else "b"
    lower, upper = explained.approximate(line.lower), explained.approximate(line.upper)
    clip = f"[{lower}, {upper}], in steps of {line.step:.6g}"
    scale, error = explained.approximate(line.scale), explained.approximate(line.error)
    noise = f"{line.mechanism}, {symbol} = {scale}{f', error {error}' * (error != scale)}"
    entries = [
        ("what counts", printable(line.bounds)),
        ("one unit's total", clip),
        (
            "one unit changes",
            f"{_groups(line.l0)}, by {explained.approximate(line.linf)} each (Linf)",
        ),
        ("noise", f"{noise}, ± {explained.approximate(line.margin)} at 95 %"),
    ]
    return entries + [("otherwise", printable(line.otherwise))] * bool(line.otherwise)


def _groups(l0: int) -> str:
    return "1 group (L0)" if l0 == 1 else f"{l0:,} groups (L0)"


def _chosen(line: explained.ChoiceLine) -> list[Entry]:
    error = "unknown" if line.expected is None else explained.approximate(line.expected)
    entries = [
        ("among", f"{line.candidates:,} cells: {printable(line.bounds)}"),
        ("one unit changes", f"{_groups(line.l0)}, by {line.rows:,} rows each"),
        ("noise", f"{line.mechanism}, {line.scale}"),
        ("in rows", f"error {error}, ± {explained.approximate(line.reach)} at 95 %"),
    ]
    return entries + [("otherwise", printable(line.otherwise))] * bool(line.otherwise)


# --- lines ---


def _sentence(text: str, width: int) -> Iterator[str]:
    yield from _wrapped(text, width, behind=_INDENT)


def _wrapped(text: str, width: int, *, before: str = "", behind: str) -> Iterator[str]:
    """Return lines that never end between a number and its sign or unit."""
    unbroken = _TOGETHER.sub("\xa0", text)
    lines = wrap(unbroken, width, initial_indent=before, subsequent_indent=behind)
    return (line.replace("\xa0", " ") for line in lines)


def _entries(entries: Iterable[Entry], width: int) -> Iterator[str]:
    """Yield labels in a column, each with its wrapped text."""
    entries = list(entries)
    room = max((len(label) for label, _ in entries), default=0)
    for label, text in entries:
        head = f"{_INDENT}{label.ljust(room)}{_INDENT}"
        yield from _wrapped(text, width, before=head, behind=" " * len(head))


def _listed(title: str, texts: Iterable[str], width: int) -> Iterator[str]:
    """Yield a list under its title; nothing for an empty list."""
    for number, text in enumerate(texts):
        if not number:
            yield title
        yield from _wrapped(text, width, before="  - ", behind="    ")


def _statement(sql: str, width: int) -> Iterator[str]:
    for line in laid_out(sql, width - len(_INDENT)).splitlines():
        yield f"{_INDENT}{printable(line)}"


# --- what would help ---


def proposal_text(proposal: Proposal, door: Door | None = None) -> str:
    """Return the text of a proposal with a smaller error, in the words of the interface `door`.

    >>> month = CoarserPeriods("day", "month")
    >>> proposal_text(Proposal(month, "n", 25.0, 40.0, 12, 366))
    'grouped by month of day: n ± 25 in each of 12 groups instead of ± 40 in each of 366'
    >>> proposal_text(Proposal(RecordedFacts(), "n", 1.0, 2.0, 1, 1, relative=True))
    '`dpsql check --record` by the owner, if the data are as declared: n has 50 % of this ±'
    """
    error = _relative(proposal) if proposal.relative else _absolute(proposal)
    return printable(f"{_changed(proposal.change, door)}: {proposal.column} {error}")


def _relative(proposal: Proposal) -> str:
    assert proposal.present_margin is not None
    percent = float(f"{100 * proposal.margin / proposal.present_margin:.2g}")
    times = f"{explained.approximate(percent)} % of this ±"
    error = "has the same ±" if percent == 100 else f"has {times}"  # noqa: PLR2004
    if proposal.groups == proposal.present_groups:
        return error
    return f"{error} at most, for {proposal.groups:,} groups instead of {proposal.present_groups:,}"


def _absolute(proposal: Proposal) -> str:
    present = proposal.present_margin
    margin = explained.approximate(proposal.margin)
    now = "" if present is None else explained.approximate(present)
    if proposal.groups == proposal.present_groups:
        return f"± {margin}" + (now and f" instead of {now}")
    most = "at most " if proposal.most else ""
    now = now and f" instead of ± {now} in each of {proposal.present_groups:,}"
    return f"± {most}{margin} in each of {proposal.groups:,} groups{now}"


def _changed(change: explained.Change, door: Door | None) -> str:
    match change:
        case explained.LargerEpsilon(epsilon=epsilon):
            way = "" if door is None else f" ({door.words(plain(epsilon))['by_fitting']})"
            return f"ε = {plain(epsilon)}{way}"
        case explained.OtherAccountant(name=name):
            return f'accountant = "{name}", set by the owner, which suits few questions'
        case RecordedFacts():
            return "`dpsql check --record` by the owner, if the data are as declared"
        case CoarserPeriods(key=key, period=period):
            return f"grouped by {period} of {key}"
        case explained.WithoutKey(key=key):
            return f"not grouped by {key}"
        case explained.UnitsCounted(units=units, column=column):
            return f"{units} counted instead of their rows, COUNT(DISTINCT {column})"
        case _:
            assert_never(change)


def help_text(each: explained.Help) -> str:
    """Return the text of one change that reduces errors or shows more groups.

    >>> help_text(TighterBounds("amount", 0, 500))
    'tighter bounds of amount, now 0 … 500 a row'
    """
    return printable(_help(each))


def _help(each: explained.Help) -> str:
    match each:
        case explained.PublicKeys(keys=keys):
            return f"values of {', '.join(keys)} listed in the policy: then every group is shown"
        case TighterBounds(argument=argument, lower=lower, upper=upper):
            ends = f"{explained.approximate(lower)} … {explained.approximate(upper)}"
            return f"tighter bounds of {argument}, now {ends} a row"
        case explained.FewerRows(rows=rows):
            return f"fewer rows of one unit in a group than {rows:,}"
        case explained.FewerGroups(groups=groups):
            return f"coarser groups: one unit counts in up to {groups:,}, and each adds to the ±"
        case _:
            assert_never(each)


# --- for programs: one JSON object with stable keys; new keys may be added ---

# A margin is null where a column is exact and where it depends on the data: `exact` tells which.
# Statements are those that run, to the letter. A number that has no end is null.

VERSION = 1
"""Version of the JSON. It is raised if a key is removed or changes its meaning."""


def plan_json(explanation: explained.Explanation) -> str:
    """Return the whole plan as JSON, each list on lines of its own.

    Keys are `version`, `analyst`, `budget`, the `cap` that leaves less, and `accountant`. Amounts
    are `epsilon`, `charge`, `spent` and `limit` ({"amount", "delta"} in the accountant's unit).
    States are `remembered`, `affordable`, `left`. `columns` have their margins at 95 %, and
    `bounds` those that depend on a bound to find. `proposals` are in words and numbers; `told`,
    `helps` and `notes` in words. Last come `releases`, `stages` and `outer_sql`.
    """
    return json.dumps(_everything(explanation), ensure_ascii=False, indent=2) + "\n"


def _window(explanation: explained.Explanation) -> dict[str, Any]:
    periods = explanation.periods
    named = {} if periods is None else {"periods": list(periods.names)}
    return {"window": explanation.window or None, **named}


def _everything(explanation: explained.Explanation) -> dict[str, Any]:
    expected = explanation.expected or (None,) * len(explanation.columns)
    forecasts = explanation.forecasts or (None,) * len(explanation.columns)
    columns = zip(explanation.columns, expected, forecasts, strict=True)
    return {
        "version": VERSION,
        "analyst": explanation.analyst,
        "budget": explanation.budget,
        "cap": explanation.cap or None,
        **_window(explanation),
        "beside": [
            {
                "title": each.title,
                "window": each.window or None,
                "spent": _loss(each.spent),
                "limit": None if each.limit is None else _loss(each.limit),
            }
            for each in explanation.beside
        ],
        "accountant": explanation.accountant,
        "epsilon": float(explanation.epsilon),
        "charge": _loss(explanation.charge),
        "spent": _loss(explanation.spent),
        "limit": _loss(explanation.limit),
        "remembered": explanation.remembered,
        "affordable": (explanation.spent + explanation.charge).fits(explanation.limit),
        "left": None if explanation.rest is None else _rest(explanation.rest),
        "columns": [_json_column(column, error, forecast) for column, error, forecast in columns],
        "told": list(sentences(explanation.notices, explanation.columns)),
        "bounds": [
            {"column": bound.column, "most": list(bound.most), "margin": bound.margin}
            for bound in explanation.outlook.bounds
        ],
        "proposals": list(map(_proposal, explanation.outlook.proposals)),
        "helps": list(map(help_text, explanation.helps)),
        "notes": list(explanation.notes),
        "releases": [_release(block) for block in explanation.blocks],
        "stages": list(explanation.stages),
        "outer_sql": explanation.outer_sql,
    }


def _proposal(proposal: Proposal) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(proposal).items() if key != "change"}
    return {"text": proposal_text(proposal), **fields}


def _loss(loss: Loss) -> dict[str, float]:
    return {"amount": loss.amount / 10**9, "delta": loss.delta / 10**18}


def _rest(rest: Rest) -> dict[str, Any]:
    fits = None if rest.fits is None else float(rest.fits)
    each = {"questions": rest.questions, "with_private_keys": rest.keyed}
    return {"epsilon": float(rest.question), **each, "fits": fits}


def _json_column(
    column: Column, expected: float | None, forecast: Forecast | None
) -> dict[str, Any]:
    margin = expected if expected is not None and isfinite(expected) else None
    error = {"margin": margin, "exact": expected is None}
    about = None if margin is not None or forecast is None else asdict(forecast)
    return {"name": column.name, "type": str(column.type), **error, "forecast": about}


def _release(block: explained.BlockLines) -> dict[str, Any]:
    return {
        "unit": block.unit,
        "limits": list(map(_fields, block.limits)),
        "keys": block.keys,
        "measurements": list(map(_fields, block.releases)),
        "choices": list(map(_fields, block.choices)),
        "facts": list(block.facts),
        "sql": block.sql,
    }


def _fields(
    line: explained.LimitLine | explained.ReleaseLine | explained.ChoiceLine,
) -> dict[str, Any]:
    pairs = asdict(line).items()
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in pairs}
