"""Plan of synthetic rows: queries by column and by pair, a selection of pairs, one charge.

Nothing is run. A third of the budget is for tables of single columns, a tenth for the selection of
pairs, and the rest for their tables in equal parts. There are enough pairs for a tree, plus half as
many as columns. This follows MST, which takes thirds, and AIM (McKenna, Miklau and Sheldon 2021;
McKenna, Mullins, Sheldon and Miklau 2022). If texts are not listed, a sixth goes to the selection
of their values first. Then the plan is made again over these values.

Proof (PRIVACY.md R78, R86). Every table is an ordinary counting query at its share of the budget,
so its loss is at most that share (PRIVACY.md R62). Pairs are selected privately. Their values and
codes follow from earlier releases, which adaptive composition admits (PRIVACY.md R56). The charge
covers the most expensive pair, times the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
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
from dpsql.model.row_notices import Reported
from dpsql.model.tree import Parameter, Value, identifier
from dpsql.model.vocabulary import Column, Event, Loss, Request
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
"""Maximum number of columns of synthetic rows. There is a query for each pair of them."""

_USE = RowUse("synthetic rows", "synthetic_rows", MOST_COLUMNS)
_QUESTION = "synthetic rows 2"
"""Version of the method, which changes if the same single tables would lead to other tables."""

MOST_CLIQUE = 20_000
"""Maximum number of cells of a clique of the model."""

KEYS_SHARE = Fraction(1, 6)
"""Share of the budget for selecting values. The next two are shares of the rest."""

SINGLE_SHARE, CHOICE_SHARE = Fraction(1, 3), Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class SynthesisWish:
    """A request for synthetic rows of a table or of a SELECT.

    `keep` names pairs of columns to measure in any case. `text` is the text for the ledger if it
    differs.
    """

    request: Request
    keep: tuple[tuple[str, str], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class PartEpsilons:
    """ε of one column's table, of one pair's table, and of one selection of a pair.

    `keys` and `keys_delta` are the ε and δ for selecting the values of one column.
    """

    single: Decimal
    pair: Decimal
    choice: Fraction
    keys: Decimal = Decimal(0)
    keys_delta: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows of the SELECT `rows`, with counting queries by codes of their columns."""

    request: Request
    payer: Account
    rows: str
    columns: tuple[SyntheticColumn, ...]
    shares: PartEpsilons

    def counted(self, compiler: Compiler, codes: Mapping[int, Codes], stop: Stop) -> Prepared:
        """Return the query for the number of rows by codes of some columns, with public keys.

        Raises `Refused` if this is not one counting block.
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
        """Return the query for the values of a text column and their counts, with private keys.

        Raises `Refused` if this is not one counting block.
        """
        name = self.columns[place].name
        sql = f"SELECT {identifier(name)} AS c0, COUNT(*) AS n {_USE.source(self.rows)} GROUP BY 1"
        budget = replace(self.payer.budget, query_delta=self.shares.keys_delta)
        selecting = replace(self.payer, epsilon=self.shares.keys, budget=budget)
        request = replace(self.request, sql=sql)
        return _count(compiler.prepared(Question(request, selecting, stop)), [name])


@dataclass(frozen=True, slots=True)
class SynthesisPlan:
    """Plan of all queries, the selection, and the charge.

    `keys` are the queries for values of text columns, by index; until they are answered, the
    columns have placeholder values. `singles` are the queries by one column, and `pairs` those by
    two columns with a code per cell. `fixed` are pairs that are measured in any case.
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
        """Maximum number of measured pairs."""
        return len(self.fixed) + (0 if self.choice is None else self.choice.rounds)

    @property
    def summary(self) -> str:
        """One or two sentences that describe the measurement."""
        chosen = self.edges - len(self.fixed)
        how = f"; {chosen} of these are chosen privately" if chosen else ""
        pairs = f"of {self.edges} pairs of them out of {len(self.pairs)}{how}"
        names = ", ".join(self.columns[place].name for place in self.keys)
        first = f" The values of {names} are selected privately first; others are NULL."
        return f"Tables of {len(self.columns)} columns, and {pairs}.{first if names else ''}"

    @property
    def questions(self) -> tuple[Prepared, ...]:
        """All queries that may run."""
        return (*self.keys.values(), *self.singles, *self.pairs.values())

    def over(
        self, compiler: Compiler, values: Sequence[tuple[Value, ...]], stop: Stop
    ) -> SynthesisPlan:
        """Return the plan over columns with these values, one list for each of `keys`.

        Raises `Refused` if the sensitivity of a table exceeds the plan.
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
    """Return the columns of synthetic rows. Raises `Refused` if the text cannot be read."""
    rows = rows_of(compiler.policy, wish.request)
    return compiler.signature(replace(wish.request, sql=rows), (), (), stop).columns


def planned(compiler: Compiler, wish: SynthesisWish, stop: Stop) -> SynthesisPlan:
    """Plan synthetic rows. Raises `Refused` if they cannot be counted, or if ε is too small."""
    if wish.request.parameters:
        why = "synthetic rows are of a text without parameters"
        raise Refused(Reason.BAD_PARAMETER, why=why, fix="Write their values into the text.")
    try:
        return _planned(compiler, wish, stop)
    except Refused as refused:  # its place is in a text of ours
        raise Refused(refused.reason, **refused.facts) from None


def _planned(compiler: Compiler, wish: SynthesisWish, stop: Stop) -> SynthesisPlan:
    request = compiler.on_grid(wish.request)
    payer = account(compiler.policy, request.analyst, request.epsilon, chain=request.chain)
    rows = rows_of(compiler.policy, request)
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
    """Return the queries by each column and by each pair, with one code per cell."""

    def counted(*places: int) -> Prepared:
        codes = {place: alone(source.columns[place]) for place in places}
        return source.counted(compiler, codes, stop)

    every = range(len(source.columns))
    return tuple(map(counted, every)), {pair: counted(*pair) for pair in combinations(every, 2)}


def require_no_more(prepared: Prepared, planned_for: Prepared) -> None:
    """Raise `Refused` if the sensitivity of a table exceeds the planned one."""
    if release_of(prepared).sensitivity.l1 > release_of(planned_for).sensitivity.l1:
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR)


def release_of(prepared: Prepared) -> Release:
    """Return the only release of a query."""
    return prepared.blocks[0].releases[0]


# --- the pairs --------------------------------------------------------------------------------


def _fixed_edges(
    columns: Sequence[SyntheticColumn], keep: Sequence[tuple[str, str]]
) -> tuple[Pair, ...]:
    """Return the pairs to keep; all pairs if there is no choice."""
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
    """Return the number of pairs to select: enough for a tree, plus half the number of columns."""
    joining = len(set(components(columns, fixed))) - 1
    tree = columns - 1
    more = min(columns // 2, columns * tree // 2 - tree)
    return joining + max(0, more - (len(fixed) - (tree - joining)))


# --- the count ---------------------------------------------------------------------------------


def _count(prepared: Prepared, names: Sequence[str]) -> Prepared:
    """Return a prepared query if it is one count. Raises `Refused` otherwise."""
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
    """Return the account for single steps, without δ if the accountant needs none."""
    if accountants.get(payer.budget.accountant).needs_delta:
        return payer
    return replace(payer, budget=replace(payer.budget, query_delta=Decimal(0)))


def _shares(payer: Account, columns: int, fixed: int, rounds: int, texts: int) -> PartEpsilons:
    """Return the ε of all parts, which together spend the budget of one query.

    The δ of a query with private keys is divided among the columns with `texts`.
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
    """Return the cost of the whole plan, and the identity of its query."""
    accountant = accountants.get(payer.budget.accountant)
    edges = len(fixed) + (0 if choice is None else choice.rounds)
    first = (*keys.values(), *singles)
    event = spent_by(accountant, first, tuple(pairs.values()), choice, edges)
    own, earlier = (
        sha256("\n".join((_QUESTION, str(fixed), *questions)).encode()).hexdigest()
        for questions in (
            [prepared.question for prepared in (*first, *pairs.values())],
            [prepared.earlier for prepared in first],
        )
    )
    loss = bound_loss(accountant, first, tuple(pairs.values()), choice, edges)
    return Cost(own, event, accountants.price(loss, payer.budget), (earlier,))


def bound_loss(
    accountant: Accountant,
    first: Sequence[Prepared],
    pairs: Sequence[Prepared],
    choice: PairChoice | None,
    edges: int,
) -> Loss:
    """Return a bound on the loss of all queries, the selection and `edges` pairs, in each
    coordinate.
    """
    each: list[tuple[Prepared, ...]] = [(pair,) for pair in pairs] or [()]
    events = (spent_by(accountant, first, pair, choice, edges) for pair in each)
    return reduce(accountants.larger_loss, map(accountant.loss, events))


def spent_by(
    accountant: Accountant,
    first: Sequence[Prepared],
    pairs: Sequence[Prepared],
    choice: PairChoice | None,
    edges: int,
) -> Event:
    """Return the event that bounds the loss of all queries, the selection and `edges` pairs."""
    costliest = max(map(_event, pairs), key=accountant.loss, default=Event(()))
    parts = [part for prepared in first for part in _event(prepared).parts]
    parts += [] if choice is None else [choice.event]
    return Event((*parts, *costliest.parts * edges))


def _event(prepared: Prepared) -> Event:
    assert prepared.plan is not None
    return prepared.plan.event
