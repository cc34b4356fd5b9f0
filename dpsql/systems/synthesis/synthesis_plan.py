"""What synthetic rows are made of: counting questions by every column and by pairs of columns, a
choice of the pairs, and the one charge for all of it. Nothing is run.

A third of the amount is for the tables of single columns, a tenth for choosing the pairs, and the
rest for their tables, in equal parts each. Pairs are as many as make a tree, and half as many as
columns more (after MST, which takes thirds, and AIM: McKenna, Miklau and Sheldon 2021, McKenna,
Mullins, Sheldon and Miklau 2022). Where texts are not listed, a sixth goes before all that to the
selection of their values; then the plan is made anew over these.

Proof (PRIVACY.md R78, R86). Every table is an ordinary counting question at its share of the
amount, so its loss is at most that share (PRIVACY.md R62); which pairs are counted is chosen
privately, and by which values and codes follows from what was released before, as adaptive
composition admits (PRIVACY.md R56). The charge is for the costliest pair as often as pairs may be
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Reported
from dpsql.model.tree import Parameter, Value, identifier
from dpsql.model.vocabulary import Column, Event, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.private_bounds import largest_epsilon
from dpsql.preparation.question import Account, Cost, Question, account
from dpsql.preparation.row_sources import RowUse, column_facts, rows_of
from dpsql.systems.synthesis.synthetic_columns import (
    Codes,
    ListedColumn,
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

KEYS_SHARE = Fraction(1, 6)
"""Of all, where values are selected; of what is left, the next are shares."""

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
    """The epsilons of one column's table, of one pair's, and of one choice; and with the δ of each,
    of selecting the values of one column.
    """

    single: Decimal
    pair: Decimal
    choice: Fraction
    keys: Decimal = Decimal(0)
    keys_delta: Decimal = Decimal(0)


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
        prepared = _count(compiler.prepared(Question(request, measuring, stop)), names)
        (block,) = prepared.blocks
        if not isinstance(block.keys, ListedKeys) or len(block.queries) > 1:
            columns = " and ".join(names)
            fix = f"Give {columns} fewer values together, as by CASE; or leave one out."
            raise _USE.refusal(f"a public table by {columns}", fix=fix)
        return prepared

    def selected(self, compiler: Compiler, place: int, stop: Stop) -> Prepared:
        """Which values a column of texts has, and how many rows each, as one block with private
        keys. Raises `Refused` for what is no such count.
        """
        name = self.columns[place].name
        sql = f"SELECT {identifier(name)} AS c0, COUNT(*) AS n {_USE.source(self.rows)} GROUP BY 1"
        budget = replace(self.payer.budget, query_delta=self.shares.keys_delta)
        selecting = replace(self.payer, epsilon=self.shares.keys, budget=budget)
        request = replace(self.request, sql=sql)
        return _count(compiler.prepared(Question(request, selecting, stop)), [name])


@dataclass(frozen=True, slots=True)
class SynthesisPlan:
    """What is counted, chosen and charged.

    `keys` are the questions for the values of columns of texts, by their places; until these are
    answered, the columns have made-up ones. `singles` are the questions by one column each, `pairs`
    those by two, by the codes under which each cell is alone. `fixed` are those that are measured
    in any case.
    """

    source: CountedRows
    keys: Mapping[int, Prepared]
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
        names = ", ".join(self.columns[place].name for place in self.keys)
        first = f" The values of {names} are selected privately first; others are NULL."
        return f"Tables of {len(self.columns)} columns, and {pairs}.{first if names else ''}"

    @property
    def questions(self) -> tuple[Prepared, ...]:
        """All that may be counted."""
        return (*self.keys.values(), *self.singles, *self.pairs.values())

    def over(
        self, compiler: Compiler, values: Sequence[tuple[Value, ...]], stop: Stop
    ) -> SynthesisPlan:
        """The same over columns that have these values, one list for each of `keys`.

        Raises `Refused` where a unit could move a table further than was planned.
        """
        columns = list(self.columns)
        for place, own in zip(self.keys, values, strict=True):
            before = columns[place]
            columns[place] = ListedColumn(
                before.name, before.type, own, nullable=True, selected=True
            )
        source = replace(self.source, columns=tuple(columns))
        singles, pairs = _tables(compiler, source, stop)
        for pair, prepared in pairs.items():
            require_no_more(prepared, self.pairs[pair])
        return replace(self, source=source, singles=singles, pairs=pairs)


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
    texts = [n for n, c in enumerate(columns) if isinstance(c, ListedColumn) and c.selected]
    shares = _shares(payer, len(columns), len(fixed), rounds, len(texts))
    source = CountedRows(request, payer, rows, columns, shares)
    keys = {place: source.selected(compiler, place, stop) for place in texts}
    singles, pairs = _tables(compiler, source, stop)
    sensitivities = [release_of(prepared).sensitivity for prepared in pairs.values()]
    choice = pair_choice(rounds, sensitivities, shares.choice) if rounds else None
    cost = _cost(payer, keys, singles, pairs, choice, fixed)
    return SynthesisPlan(
        source=source,
        keys=keys,
        singles=singles,
        pairs=pairs,
        fixed=fixed,
        choice=choice,
        cost=cost,
        text=wish.text,
    )


def _tables(
    compiler: Compiler, source: CountedRows, stop: Stop
) -> tuple[tuple[Prepared, ...], Mapping[Pair, Prepared]]:
    """The questions by each column and by each pair, every cell by itself."""

    def counted(*places: int) -> Prepared:
        codes = {place: alone(source.columns[place]) for place in places}
        return source.counted(compiler, codes, stop)

    every = range(len(source.columns))
    return tuple(map(counted, every)), {pair: counted(*pair) for pair in combinations(every, 2)}


def require_no_more(prepared: Prepared, planned_for: Prepared) -> None:
    """Raises where a unit could move a table further than was planned."""
    if release_of(prepared).sensitivity.l1 > release_of(planned_for).sensitivity.l1:
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR)


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
    """The same, if it is one count."""
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
    counts = [isinstance(query, RowCount | UnitCount) for query in block.queries]
    if not counts or not all(counts) or block.histograms:
        raise _USE.refusal(f"synthetic rows of which one count is several, by {columns}")
    return prepared


# --- the price ---------------------------------------------------------------------------------


def _without_delta(payer: Account) -> Account:
    """Who pays for single steps: no δ is spent on what needs none."""
    if accountants.get(payer.budget.accountant).needs_delta:
        return payer
    return replace(payer, budget=replace(payer.budget, query_delta=Decimal(0)))


def _shares(payer: Account, columns: int, fixed: int, rounds: int, texts: int) -> PartEpsilons:
    """What everything may spend of the amount that one question of this epsilon may.

    The δ of a question with private keys is divided among those that select the values of `texts`.
    """
    budget = _without_delta(payer).budget
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    keys_delta = payer.budget.query_delta / max(1, texts)
    if texts and not accountant.supports_selection:
        raise Refused(Reason.PRIVATE_KEYS_NEED_DELTA)

    def amount(epsilon: Decimal) -> Fraction:
        return accountant.allowance(Fraction(epsilon), delta, selects_keys=False).amount

    def selecting(epsilon: Decimal, delta: Decimal = keys_delta) -> Fraction:
        allowance = accountant.allowance(Fraction(epsilon), Fraction(delta), selects_keys=True)
        return allowance.amount

    def part(share: Fraction, amount: Callable[[Decimal], Fraction] = amount) -> Decimal:
        epsilon = largest_epsilon(payer.epsilon, lambda e: amount(e) <= share)
        if not epsilon:
            raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to be divided")
        return epsilon

    whole = selecting(payer.epsilon, payer.budget.query_delta) if texts else amount(payer.epsilon)
    rest = whole * (1 - KEYS_SHARE) if texts else whole
    choosing = CHOICE_SHARE if rounds else Fraction(0)
    pairs = fixed + rounds
    return PartEpsilons(
        single=part(rest * SINGLE_SHARE / columns if pairs else rest),
        pair=part(rest * (1 - SINGLE_SHARE - choosing) / pairs) if pairs else Decimal(0),
        choice=accountant.choice(rest * choosing, rounds) if rounds else Fraction(0),
        keys=part(whole * KEYS_SHARE / texts, selecting) if texts else Decimal(0),
        keys_delta=keys_delta,
    )


def _cost(
    payer: Account,
    keys: Mapping[int, Prepared],
    singles: Sequence[Prepared],
    pairs: Mapping[Pair, Prepared],
    choice: PairChoice | None,
    fixed: Sequence[Pair],
) -> Cost:
    """What all of it spends, and which question it is."""
    accountant = accountants.get(payer.budget.accountant)
    edges = len(fixed) + (0 if choice is None else choice.rounds)
    first = (*keys.values(), *singles)
    event = spent_by(accountant, first, tuple(pairs.values()), choice, edges)
    words = [_QUESTION, str(fixed), *(prepared.question for prepared in first)]
    identity = sha256("\n".join(words).encode()).hexdigest()
    return Cost(identity, event, accountants.price(accountant.loss(event), payer.budget))


def spent_by(
    accountant: Accountant,
    first: Sequence[Prepared],
    pairs: Sequence[Prepared],
    choice: PairChoice | None,
    edges: int,
) -> Event:
    """What these questions, a choice and so many of these pairs lose at most."""
    costliest = max(map(_event, pairs), key=accountant.loss, default=Event(()))
    parts = [part for prepared in first for part in _event(prepared).parts]
    parts += [] if choice is None else [choice.event]
    return Event((*parts, *costliest.parts * edges))


def _event(prepared: Prepared) -> Event:
    assert prepared.plan is not None
    return prepared.plan.event
