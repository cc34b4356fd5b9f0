"""What synthetic rows are made of: counting questions by every column and by pairs of columns, a
choice of the pairs, and the one charge for all of it. Nothing is run.

A third of the amount is for the tables of single columns, a tenth for choosing the pairs, and the
rest for their tables, in equal parts each. Pairs are as many as make a tree, and half as many as
columns more (after MST, which takes thirds, and AIM: McKenna, Miklau and Sheldon 2021, McKenna,
Mullins, Sheldon and Miklau 2022).

Proof (PRIVACY.md R78). Every table is an ordinary counting question at its share of the amount, so
its loss is at most that share (PRIVACY.md R62); which pairs are counted is chosen privately, and
by which codes follows from tables that were released before, as adaptive composition admits
(PRIVACY.md R56). The charge is for the costliest pair as often as pairs may be measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from math import isqrt

from dpsql import accountants
from dpsql.accountants.base import Accountant
from dpsql.compiler.aggregates.recipe import unlimited
from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Release
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.consistency.graphical_model import GraphicalModel
from dpsql.engines import Stop
from dpsql.mechanisms.pair_choices import Pair, PairChoice, components, pair_choice
from dpsql.model.algebra import Evaluated
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Reported
from dpsql.model.tree import Parameter
from dpsql.model.vocabulary import Column, Event, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.private_bounds import largest_epsilon
from dpsql.preparation.question import Account, Cost, Question, account
from dpsql.preparation.row_sources import RowUse, column_facts, rows_of
from dpsql.synthesis.synthetic_columns import (
    Codes,
    SyntheticColumn,
    alone,
    cells,
    coded,
    column_of,
)

MOST_COLUMNS = 40
"""Columns of synthetic rows: there is a question for each pair of them."""

_USE = RowUse("synthetic rows", "synthetic_rows", MOST_COLUMNS)
_QUESTION = "synthetic rows 2"
"""Another number where other tables would follow from the same single ones."""

MOST_CLIQUE = 20_000
"""Cells of more than two columns that depend on one another."""

SINGLE_SHARE, CHOICE_SHARE = Fraction(1, 3), Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class SynthesisWish:
    """Synthetic rows of a table, by its name, or of a SELECT: the text of the request.

    Among the pairs are those to `keep`, by the names of their columns. The owner reads `text`
    in the ledger, if that is another.
    """

    request: Request
    keep: tuple[tuple[str, str], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class PartEpsilons:
    """The epsilons of one column's table, of one pair's, and of one choice."""

    single: Decimal
    pair: Decimal
    choice: Fraction


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows of the SELECT `rows` as they are counted by codes of their columns."""

    request: Request
    payer: Account
    rows: str
    columns: tuple[SyntheticColumn, ...]
    shares: PartEpsilons

    def counted(self, compiler: Compiler, codes: Mapping[int, Codes], stop: Stop) -> Prepared:
        """How many rows have each code of some columns, as one block with public keys.

        Raises `Refused` for what is no such count.
        """
        parts, parameters = list[str](), list[Parameter]()
        for place, own in codes.items():
            text, values = coded(self.columns[place], own)
            parts.append(text)
            parameters += values
        places = ", ".join(str(n + 1) for n in range(len(parts)))
        keys = ", ".join(f"{text} AS c{n}" for n, text in enumerate(parts))
        sql = f"SELECT {keys}, COUNT(*) AS n {_USE.source(self.rows)} GROUP BY {places}"
        epsilon = self.shares.single if len(codes) == 1 else self.shares.pair
        request = replace(self.request, sql=sql, parameters=tuple(parameters))
        measuring = replace(_without_delta(self.payer), epsilon=epsilon)
        names = [self.columns[place].name for place in codes]
        return _count(compiler.prepared(Question(request, measuring, stop)), names)


@dataclass(frozen=True, slots=True)
class SynthesisPlan:
    """What is counted, chosen and charged.

    `singles` are the questions by one column each, `pairs` those by two, by the codes under which
    each cell is alone. `fixed` are those that are measured in any case.
    """

    source: CountedRows
    singles: tuple[Prepared, ...]
    pairs: Mapping[Pair, Prepared]
    fixed: tuple[Pair, ...]
    choice: PairChoice | None
    cost: Cost
    text: str = ""

    @property
    def columns(self) -> tuple[SyntheticColumn, ...]:
        return self.source.columns

    @property
    def edges(self) -> int:
        """How many pairs are measured, at most."""
        return len(self.fixed) + (0 if self.choice is None else self.choice.rounds)

    @property
    def summary(self) -> str:
        """What is measured, in a sentence."""
        chosen = self.edges - len(self.fixed)
        how = f"; {chosen} of these are chosen privately" if chosen else ""
        pairs = f"of {self.edges} pairs of them out of {len(self.pairs)}{how}"
        return f"Tables of {len(self.columns)} columns, and {pairs}."

    @property
    def questions(self) -> tuple[Prepared, ...]:
        """All that may be counted."""
        return (*self.singles, *self.pairs.values())


def columns_of(compiler: Compiler, wish: SynthesisWish, stop: Stop) -> tuple[Column, ...]:
    """The columns of what is made of a wish. Raises `Refused` where its text cannot be read."""
    rows = rows_of(compiler.policy, wish.request.sql)
    return compiler.signature(replace(wish.request, sql=rows), (), (), stop).columns


def planned(compiler: Compiler, wish: SynthesisWish, stop: Stop) -> SynthesisPlan:
    """The plan of a wish. Raises `Refused` for what cannot be counted, or not at this epsilon."""
    if wish.request.parameters:
        why = "synthetic rows are of a text without parameters"
        raise Refused(Reason.BAD_PARAMETER, why=why, fix="Write their values into the text.")
    try:
        return _planned(compiler, wish, stop)
    except Refused as refused:  # its place is in a text of ours
        raise Refused(refused.reason, **refused.facts) from None


def _planned(compiler: Compiler, wish: SynthesisWish, stop: Stop) -> SynthesisPlan:
    request = compiler.on_grid(wish.request)
    payer = account(compiler.policy, request.analyst, request.epsilon)
    rows = rows_of(compiler.policy, request.sql)
    most = isqrt(compiler.policy.limits.max_public_groups)
    facts = column_facts(compiler, replace(request, sql=rows), payer, _USE, stop)
    columns = tuple(column_of(name, each, most) for name, each in facts)
    fixed = _fixed_edges(columns, wish.keep)
    rounds = _rounds(len(columns), fixed)
    shares = _shares(payer, len(columns), len(fixed), rounds)
    source = CountedRows(request, payer, rows, columns, shares)

    def counted(*places: int) -> Prepared:
        codes = {place: alone(columns[place]) for place in places}
        return source.counted(compiler, codes, stop)

    singles = tuple(counted(place) for place in range(len(columns)))
    pairs = {pair: counted(*pair) for pair in combinations(range(len(columns)), 2)}
    sensitivities = [release_of(prepared).sensitivity for prepared in pairs.values()]
    choice = pair_choice(rounds, sensitivities, shares.choice) if rounds else None
    cost = _cost(payer, singles, pairs, choice, fixed)
    return SynthesisPlan(
        source=source,
        singles=singles,
        pairs=pairs,
        fixed=fixed,
        choice=choice,
        cost=cost,
        text=wish.text,
    )


def release_of(prepared: Prepared) -> Release:
    """The one count of a question."""
    return prepared.blocks[0].releases[0]


# --- the pairs --------------------------------------------------------------------------------


def _fixed_edges(
    columns: Sequence[SyntheticColumn], keep: Sequence[tuple[str, str]]
) -> tuple[Pair, ...]:
    """The pairs that are wished for; and all of them, where there is nothing to choose."""
    places = {column.name.lower(): place for place, column in enumerate(columns)}
    sizes = [cells(column) for column in columns]
    edges = list[Pair]()
    for names in keep:
        missing = next((name for name in names if name.lower() not in places), None)
        if missing is not None:
            names_there = ", ".join(column.name for column in columns)
            raise Refused(Reason.UNKNOWN_COLUMN, column=missing, fix=f"There are: {names_there}.")
        one, other = sorted(places[name.lower()] for name in names)
        if one == other or (one, other) in edges:
            why = f"{', '.join(names)} is no pair, or there twice"
            raise Refused(Reason.BAD_OPTION, option="keep", why=why)
        edges.append((one, other))
        if GraphicalModel.of(sizes, edges).largest > MOST_CLIQUE:
            raise Refused(
                Reason.BAD_OPTION,
                option="keep",
                why=f"with {', '.join(names)} too many columns depend on one another",
                fix="Keep fewer pairs, such that they make no circle.",
            )
    every = tuple(combinations(range(len(columns)), 2))
    as_many = len(edges) + _rounds(len(columns), edges) == len(every)
    if as_many and GraphicalModel.of(sizes, every).largest <= MOST_CLIQUE:
        return every
    return tuple(edges)


def _rounds(columns: int, fixed: Sequence[Pair]) -> int:
    """How many pairs are chosen: those that make a tree, and half as many as columns beyond it."""
    joining = len(set(components(columns, fixed))) - 1
    tree = columns - 1
    more = min(columns // 2, columns * tree // 2 - tree)
    return joining + max(0, more - (len(fixed) - (tree - joining)))


# --- the count ---------------------------------------------------------------------------------


def _count(prepared: Prepared, names: Sequence[str]) -> Prepared:
    """The same, if it is one count by public keys."""
    plan, columns = prepared.plan, " and ".join(names)
    if any(isinstance(notice, Reported) for notice in prepared.notices):
        raise _USE.refusal(f"synthetic rows of what people reported, by {columns}")
    if plan is None:
        raise _USE.refusal("synthetic rows of public tables")
    stages = [stage for stage in plan.stages if not isinstance(stage, Evaluated)]
    if len(plan.blocks) != 1 or stages:
        raise _USE.of_released
    (block,) = plan.blocks
    if plan.polls:
        raise unlimited(block.block.span)
    if not isinstance(block.keys, ListedKeys):
        fix = f"Give {columns} fewer values together, as by CASE; or leave one out."
        raise _USE.refusal(f"a public table by {columns}", fix=fix)
    counts = [isinstance(query, RowCount | UnitCount) for query in block.queries]
    if counts != [True] or block.histograms:
        raise _USE.refusal(f"synthetic rows of which one count is several, by {columns}")
    return prepared


# --- the price ---------------------------------------------------------------------------------


def _without_delta(payer: Account) -> Account:
    """Who pays for single steps: no δ is spent on what needs none."""
    if accountants.get(payer.budget.accountant).needs_delta:
        return payer
    return replace(payer, budget=replace(payer.budget, query_delta=Decimal(0)))


def _shares(payer: Account, columns: int, fixed: int, rounds: int) -> PartEpsilons:
    """What everything may spend of the amount that one question of this epsilon may."""
    budget = _without_delta(payer).budget
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)

    def amount(epsilon: Decimal) -> Fraction:
        return accountant.allowance(Fraction(epsilon), delta, selects_keys=False).amount

    whole = amount(payer.epsilon)

    def part(share: Fraction) -> Decimal:
        epsilon = largest_epsilon(payer.epsilon, lambda e: amount(e) <= whole * share)
        if not epsilon:
            raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to be divided")
        return epsilon

    if columns == 1:
        return PartEpsilons(part(Fraction(1)), Decimal(0), Fraction(0))
    choosing = CHOICE_SHARE if rounds else Fraction(0)
    return PartEpsilons(
        single=part(SINGLE_SHARE / columns),
        pair=part((1 - SINGLE_SHARE - choosing) / (fixed + rounds)),
        choice=accountant.choice(whole * choosing, rounds) if rounds else Fraction(0),
    )


def _cost(
    payer: Account,
    singles: Sequence[Prepared],
    pairs: Mapping[Pair, Prepared],
    choice: PairChoice | None,
    fixed: Sequence[Pair],
) -> Cost:
    """What all of it spends, and which question it is."""
    accountant = accountants.get(payer.budget.accountant)
    edges = len(fixed) + (0 if choice is None else choice.rounds)
    event = spent_by(accountant, singles, tuple(pairs.values()), choice, edges)
    words = [_QUESTION, str(fixed), *(prepared.question for prepared in singles)]
    identity = sha256("\n".join(words).encode()).hexdigest()
    return Cost(identity, event, accountants.price(accountant.loss(event), payer.budget))


def spent_by(
    accountant: Accountant,
    singles: Sequence[Prepared],
    pairs: Sequence[Prepared],
    choice: PairChoice | None,
    edges: int,
) -> Event:
    """What tables of single columns, a choice and so many of these pairs lose at most."""
    costliest = max(map(_event, pairs), key=accountant.loss, default=Event(()))
    parts = [part for prepared in singles for part in _event(prepared).parts]
    parts += [] if choice is None else [choice.event]
    return Event((*parts, *costliest.parts * edges))


def _event(prepared: Prepared) -> Event:
    assert prepared.plan is not None
    return prepared.plan.event
