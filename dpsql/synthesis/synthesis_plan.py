"""What synthetic rows are made of: counting questions by every column and by pairs of columns, a
choice of the pairs, and the one charge for all of it. Nothing is run.

A third of the amount is for the tables of single columns, a tenth for choosing the pairs, and the
rest for their tables, in equal parts each (after MST: McKenna, Miklau and Sheldon 2021, who take
thirds, of which the choice makes less).

Proof (PRIVACY.md R78). Every table is an ordinary counting question at its share of the amount, so
its loss is at most that share (PRIVACY.md R62); which pairs are counted is chosen privately, and
by which codes follows from tables that were released before, as adaptive composition admits
(PRIVACY.md R56). The charge is for the costliest pair as often as there are edges.
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
from dpsql.compiler.aggregates.recipe import unlimited
from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Release
from dpsql.compiler.plan.published_keys import ListedKeys
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
from dpsql.synthesis.synthetic_columns import Codes, SyntheticColumn, alone, coded, column_of

MOST_COLUMNS = 40
"""Columns of synthetic rows: there is a question for each pair of them."""

_USE = RowUse("synthetic rows", "synthetic_rows", MOST_COLUMNS)
_QUESTION = "synthetic rows 1"
"""Another number where other tables would follow from the same single ones."""

SINGLE_SHARE, CHOICE_SHARE = Fraction(1, 3), Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class SynthesisWish:
    """Synthetic rows of a table, by its name, or of a SELECT: the text of the request.

    In the tree of pairs are those to `keep`, by the names of their columns. The owner reads `text`
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
    each cell is alone. `fixed` are the edges of the tree that nobody chooses.
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
    def summary(self) -> str:
        """What is measured, in a sentence."""
        columns, chosen = len(self.columns), 0 if self.choice is None else self.choice.rounds
        return (
            f"Tables of {columns} columns, and of {columns - 1} pairs of them out of"
            f" {len(self.pairs)}, of which {chosen} are chosen privately."
        )

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
    rounds = max(0, len(columns) - 1 - len(fixed))
    shares = _shares(payer, len(columns), rounds)
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


# --- the tree ---------------------------------------------------------------------------------


def _fixed_edges(
    columns: Sequence[SyntheticColumn], keep: Sequence[tuple[str, str]]
) -> tuple[Pair, ...]:
    """The edges that are wished for; and the only pair there is."""
    places = {column.name.lower(): place for place, column in enumerate(columns)}
    edges = list[Pair]()
    for names in keep:
        missing = next((name for name in names if name.lower() not in places), None)
        if missing is not None:
            names_there = ", ".join(column.name for column in columns)
            raise Refused(Reason.UNKNOWN_COLUMN, column=missing, fix=f"There are: {names_there}.")
        one, other = sorted(places[name.lower()] for name in names)
        parts = components(len(columns), edges)
        if parts[one] == parts[other]:
            raise Refused(
                Reason.BAD_OPTION,
                option="keep",
                why=f"{', '.join(names)} closes a circle",
                fix="Keep pairs that make no circle: columns depend on one another along a tree.",
            )
        edges.append((one, other))
    return ((0, 1),) if len(columns) == 2 else tuple(edges)  # noqa: PLR2004


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


def _shares(payer: Account, columns: int, rounds: int) -> PartEpsilons:
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
        pair=part((1 - SINGLE_SHARE - choosing) / (columns - 1)),
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
    costliest = max(map(_event, pairs.values()), key=accountant.loss, default=Event(()))
    parts = [part for prepared in singles for part in _event(prepared).parts]
    parts += [] if choice is None else [choice.event]
    event = Event((*parts, *costliest.parts * edges))
    words = [_QUESTION, str(fixed), *(prepared.question for prepared in singles)]
    identity = sha256("\n".join(words).encode()).hexdigest()
    return Cost(identity, event, accountants.price(accountant.loss(event), payer.budget))


def _event(prepared: Prepared) -> Event:
    assert prepared.plan is not None
    return prepared.plan.event
