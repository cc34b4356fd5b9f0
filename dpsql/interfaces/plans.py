"""An explanation as text: the plan that a person can check, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from textwrap import indent

from dpsql.dialects.layout import laid_out
from dpsql.explanation import BlockLines, ChoiceLine, Explanation, LimitLine, ReleaseLine, Rest
from dpsql.interfaces.amounts import loss_text, plain, share_text
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import questions_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import grid
from dpsql.model import Column, Loss

_HEADERS = ("output", "clipped to", "L0", "Linf", "step", "mechanism", "scale", "error", "± 95 %")

_CHOICE_HEADERS = ("output", "cells", "L0", "rows", "mechanism", "scale", "error", "± 95 %")


def plan_text(explanation: Explanation) -> str:
    """The whole plan: the charge, each release with its proofs, and every SQL that would run."""
    lines = [*_charge(explanation)]
    for number, block in enumerate(explanation.blocks):
        lines += ["", f"Release {number}: one privacy unit is {printable(block.unit)}"]
        lines += [f"  {line}" for line in _block(block)]
    for number, sql in enumerate(explanation.stages):
        lines += ["", f"Stage {number}, evaluated before what is joined to it:", *_sql(sql)]
    title = "Outer query, over what was released:" if explanation.blocks else "Query, exact:"
    lines += ["", title, *_sql(explanation.outer_sql)]
    expected = explanation.expected or (None,) * len(explanation.columns)
    columns = ", ".join(map(_column, explanation.columns, expected))
    return "\n".join([*lines, "", f"Columns: {columns}", ""])


def _column(column: Column, expected: float | None) -> str:
    error = "" if expected is None else " ± depends on the data"
    if expected is not None and not isnan(expected):
        error = f" ± {expected:,.4g}"
    return f"{printable(column.name)} {column.type}{error}"


def _charge(explanation: Explanation) -> Iterator[str]:
    accountant = explanation.accountant
    if not explanation.blocks:
        yield "Public tables only: exact, at no cost."
        return
    if explanation.remembered:
        yield "Charge: nothing; this question was answered before and its answer is remembered."
    else:
        charge = loss_text(explanation.charge, accountant)
        yield f"Charge: ε = {plain(explanation.epsilon)} as one query, {charge} ({accountant})."
    who = explanation.budget, explanation.analyst, accountant
    state = explanation.charge, explanation.spent, explanation.limit
    yield from budget_lines(*who, *state, explanation.rest)
    yield from map(printable, explanation.notes)
    if explanation.notices:
        yield "Told with the answer:"
        told = sentences(explanation.notices, explanation.columns)
        yield from (f"  {text}" for text in told)


def budget_lines(
    budget: str,
    analyst: str,
    accountant: str,
    charge: Loss,
    spent: Loss,
    limit: Loss,
    rest: Rest | None,
) -> Iterator[str]:
    """What is spent of a budget, before and after a charge that is not yet made, and what it
    leaves.
    """
    after = spent + charge
    yield (
        f"Budget {printable(budget)} of {printable(analyst)}: "
        f"{loss_text(spent, accountant)} of {loss_text(limit, accountant)} is spent "
        f"({share_text(spent, limit)}); after this query {share_text(after, limit)}."
    )
    if not after.fits(limit):
        instead = "" if rest is None or rest.fits is None else f"; ε = {plain(rest.fits)} fits"
        yield f"The budget cannot pay for this query: asking would be refused{instead}."
    elif rest is not None:
        verb = "remains" if rest.questions == 1 else "remain"
        yield f"After it {questions_text(rest.questions, rest.question, rest.keyed)} {verb}."


def _block(block: BlockLines) -> Iterator[str]:
    yield "Contribution limits:"
    yield from grid([_limit(line) for line in block.limits])
    yield f"Keys: {printable(block.keys)}"
    if block.releases or not block.choices:
        yield "Measurements, noised:"
        yield from grid([_HEADERS, *map(_release, block.releases)])
        yield from map(_remark, block.releases)
    if block.choices:
        yield "Chosen in each group, errors in rows:"
        yield from grid([_CHOICE_HEADERS, *map(_choice, block.choices)])
        yield from map(_remark, block.choices)
    yield "Facts relied on:" if block.facts else "Facts relied on: none."
    yield from (f"  {printable(fact)}" for fact in block.facts)
    yield "SQL for the database:"
    yield from _sql(block.sql)


def _remark(line: ReleaseLine | ChoiceLine) -> str:
    otherwise = f"; otherwise {line.otherwise}" if line.otherwise else ""
    return f"  {printable(line.output)}: {printable(line.bounds)}{otherwise}"


def _limit(line: LimitLine) -> tuple[str, ...]:
    value = "no limit" if line.value is None else f"{line.value:,}"
    return printable(line.name), value, printable(line.how)


def _release(line: ReleaseLine) -> tuple[str, ...]:
    symbol = "σ" if "Gaussian" in line.mechanism else "b"
    return (
        printable(line.output),
        f"[{line.lower:,.6g}, {line.upper:,.6g}]",
        f"{line.l0:,}",
        f"{line.linf:,.6g}",
        f"{line.step:.6g}",
        line.mechanism,
        f"{symbol} = {line.scale:,.4g}",
        f"{line.error:,.4g}",
        f"{line.margin:,.4g}",
    )


def _choice(line: ChoiceLine) -> tuple[str, ...]:
    return (
        printable(line.output),
        f"{line.candidates:,}",
        f"{line.l0:,}",
        f"{line.rows:,}",
        line.mechanism,
        line.scale,
        "?" if line.expected is None else f"{line.expected:,.4g}",
        f"{line.reach:,.4g}",
    )


def _sql(sql: str) -> Iterator[str]:
    for line in laid_out(sql).splitlines():
        yield indent(printable(line), "    ")
