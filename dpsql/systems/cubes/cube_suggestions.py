"""Suggestions of cubes: past queries of the ledger are planned again, without reading data.

A query counts as saved if the tables of a cube are as accurate for it as its own measurement. The
variances are those of plans (PRIVACY.md R83).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from dpsql.answering import from_memory, joint_plan
from dpsql.answering.joint_plan import JointPlan
from dpsql.answering.side_systems import Parts
from dpsql.compiler.plan.prepared import Prepared, WideTable
from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.engines import Stop
from dpsql.ledgers import CUBES, Entry
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.query_options import Memory
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS, Budget, Loss, Request
from dpsql.preparation.compilation import Compiler
from dpsql.systems.cubes import cubes
from dpsql.vault.vault import Vault

_ENDS = frozenset("where group having order limit window union intersect except options".split())
_ALL = 1 << 40


@dataclass(frozen=True, slots=True)
class CubeSuggestion:
    """A suggested cube: its text and price, and the number and total charge of the queries it
    saves.
    """

    text: str
    price: Loss
    questions: int
    spent: Loss


@dataclass(frozen=True, slots=True, eq=False)
class _Charged:
    """A query that was charged, with the wide table that its population and conditions imply."""

    entry: Entry
    prepared: Prepared
    wide: WideTable

    @property
    def keys(self) -> dict[str, bool]:
        """Column names of the table. Each maps to whether a condition selects values of that
        column.
        """
        (block,) = self.wide.prepared.blocks
        pairs = zip(block.block.keys, self.wide.chosen, strict=True)
        return {key.field.name: chosen is not None for key, chosen in pairs}


def suggested(
    compiler: Compiler, vault: Vault, budget: Budget, dialect: str, stop: Stop
) -> tuple[CubeSuggestion, ...]:
    """Return cubes that would have saved part of a budget, largest saving first."""
    wide = replace(budget, memory=Memory.WIDE)
    populations = dict[str, list[_Charged]]()
    for each in _history(compiler, vault, wide, stop):
        populations.setdefault(each.wide.prepared.question, []).append(each)
    result = []
    for number, charged in enumerate(populations.values(), 1):
        text = _text(f"cube_{number}", charged)
        try:
            plan = cubes.planned(compiler, vault, text, wide, dialect, stop)
        except Refused:  # a key that is computed, say
            continue
        answered = [each.entry.loss for each in charged if _answers(plan, each)]
        spent = reduce(add, answered, Loss(0))
        if spent.amount > plan.price.amount:
            result.append(CubeSuggestion(text, plan.price, len(answered), spent))
    return tuple(sorted(result, key=lambda each: each.price.amount - each.spent.amount))


def _history(compiler: Compiler, vault: Vault, budget: Budget, stop: Stop) -> Iterator[_Charged]:
    """Yield the charged queries of a budget that can use shared tables, oldest first."""
    reader = next((analyst for analyst, of in compiler.policy.analysts if of == budget.name), None)
    for entry in reversed(vault.ledger.history(None, _ALL, budget=budget.name)):
        if reader is None or entry.analyst.startswith(CUBES):
            continue
        door = entry.inquiry.door
        spelling = door if door in SPELLINGS else DEFAULT_SPELLING
        request = Request(entry.inquiry.sql, reader, spelling, epsilon=entry.epsilon, door=door)
        try:
            query = joint_plan.read(compiler, request, stop)
            prepared = compiler.prepared(query)
        except Refused:  # parameters, say, whose values are not recorded
            continue
        wide = prepared.wide
        if wide is not None and from_memory.is_little(compiler, query, prepared, wide):
            yield _Charged(entry, prepared, wide)


def _answers(plan: JointPlan, charged: _Charged) -> bool:
    """Test whether the tables of a cube are as accurate for a query as its own measurement."""
    tables = [part.wide for part in plan.parts if part.wide is not None]
    if not set(charged.wide.measured.keys) <= {k for t in tables for k in t.measured.keys}:
        return False
    derived = from_memory.derivations(charged.wide, (), tables)
    return from_memory.reaches(derived, from_memory.fresh_targets(charged.prepared))


def _text(name: str, charged: Sequence[_Charged]) -> str:
    """Return the text of a cube over the most frequent columns, with all measures."""
    often = Counter(key for each in charged for key in each.keys)
    listed = ", ".join(identifier(key) for key, _ in often.most_common(cubes.MOST_KEYS))
    measures = dict[tuple[str, ...], str]()
    for each in charged:
        for value, text in _measures(each.entry.inquiry.sql):
            measures.setdefault(value, text)
    source = _source(charged[0])
    items = ", ".join([*([listed] if listed else []), *measures.values()])
    return f"CREATE DP CUBE {name} AS SELECT {items} {source} GROUP BY CUBE ({listed})"


def _measures(sql: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the items of a SELECT list that contain an aggregate, without their aliases."""
    every = list(words(sql))
    levels = cubes.levels(every)
    start = next(n for n, word in enumerate(every) if word.value == "select")
    end = next(n for n, w in enumerate(every) if w.value == "from" and levels[n] == levels[start])
    for item in cubes.listed(every[start + 1 : end]):
        bare = cubes.unnamed(item)
        if bare and bare[-1].text == ")" and bare[0].kind is WordKind.NAME:
            yield cubes.values(bare), cubes.text_of(sql, bare)


def _source(charged: _Charged) -> str:
    """Return the FROM clause with its conditions, without conditions that select values of one
    column.
    """
    sql = charged.entry.inquiry.sql
    every = [word for word in words(sql) if word.text != ";"]
    levels = cubes.levels(every)
    start = next(n for n, w in enumerate(every) if w.value == "from" and not levels[n])
    ends = [n for n, w in enumerate(every) if n > start and w.value in _ENDS and not levels[n]]
    first = ends[0] if ends else len(every)
    source = cubes.text_of(sql, every[start:first])
    if first == len(every) or every[first].value != "where":
        return source
    last = ends[1] if len(ends) > 1 else len(every)
    chosen = {key for key, is_chosen in charged.keys.items() if is_chosen}
    left = [
        cubes.text_of(sql, part)
        for part in _conjuncts(every[first + 1 : last])
        if not _names(part) & chosen
    ]
    return f"{source} WHERE {' AND '.join(left)}" if left else source


def _conjuncts(every: Sequence[Word]) -> list[list[Word]]:
    parts: list[list[Word]] = [[]]
    for word, level in zip(every, cubes.levels(every), strict=True):
        if word.value == "and" and level == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _names(part: Sequence[Word]) -> set[str]:
    return {word.value for word in part if word.kind in (WordKind.NAME, WordKind.QUOTED)}


@dataclass(frozen=True, slots=True)
class SuggestCubes:
    """Suggestion of cubes that would have saved spending of a budget. The owner's.

    Replays its ledger; reads no private data.
    """

    budget: str | None
    dialect: str

    def run(self, parts: Parts) -> tuple[CubeSuggestion, ...]:
        """Return the cubes, the most useful first."""
        payer = cubes.budget_of(parts.compiler.policy, self.budget)
        return suggested(parts.compiler, parts.vault, payer, self.dialect, parts.stop)
