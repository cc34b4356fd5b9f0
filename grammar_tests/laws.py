"""What the laws are checked with: a plain in-process engine, noise off, neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from math import hypot, isclose, isnan
from typing import Any, TypeAlias
from weakref import proxy

import duckdb
import numpy as np
import pytest

from dpsql.compiler.calibrate.typed_ratios import RATIO_STEPS
from dpsql.compiler.errors.small_groups import NAME
from dpsql.compiler.plan.lattices import Choice, Histogram, TreeRelease
from dpsql.compiler.plan.measurement_kinds import RangeVote, RatioVote, StableMean, Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, FoundNorm, Poll, Release
from dpsql.compiler.plan.published_keys import ListedKeys, ThresholdKeys, TopKeys
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.dialect import Dialects
from dpsql.compiler.rewrite.rewrite import rewrite
from dpsql.compiler.track import track
from dpsql.dialects.duckdb.block_statement import DuckDBBlock
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB, SCRATCH
from dpsql.dialects.reading.parse import parse
from dpsql.engines import ScratchTable
from dpsql.engines.duckdb.hardening import NO_STATISTICS
from dpsql.engines.duckdb.scratch_tables import load
from dpsql.mechanisms import scores
from dpsql.mechanisms.exponential import Candidates, best
from dpsql.mechanisms.laws import Law
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.mechanisms.scores import Reached, candidates
from dpsql.model.algebra import Aggregate, Window
from dpsql.model.public_times import now
from dpsql.model.row_notices import NoRows
from dpsql.model.tree import DOUBLE, Call, Statement
from dpsql.model.vocabulary import (
    Budget,
    Exact,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    Noisy,
    Norm,
    Policy,
    Receipt,
    Sensitivity,
)
from dpsql.model.walk import expressions, relations, walk
from dpsql.preparation import prepare as preparing
from dpsql.preparation.contribution_bounds import placeholder
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.preparation.public_data import PublicTables
from dpsql.release.finish import finish, presented, stage
from dpsql.release.histogram_choices import separated
from dpsql.release.release import release, with_means

Rows = list[tuple[Any, ...]]
BUDGET = Budget("test", Decimal(1000), Decimal("1e-3"), query_delta=Decimal("1e-6"))
SAMPLING_KEY = 12345
ONLY = Dialects(DUCKDB, SCRATCH)
NO_NOISE = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1, 60))
"""Noise of a deviation that is as good as zero, and no draw of which is anything else."""
SETTINGS = f"SET disabled_optimizers = '{NO_STATISTICS}'; SET threads = 1"
"""Those of the engine, and small queries start sooner."""
OURS = re.compile(r"PTR_MEAN\((\w+), \d+\)")
"""An aggregate that the plain engine knows as AVG."""


@cache
def bench() -> duckdb.DuckDBPyConnection:
    """The instance that every engine computes over released rows with: it holds nothing itself."""
    instance = duckdb.connect()
    instance.execute(SETTINGS)
    return instance


@lru_cache(4000)
def read(sql: str) -> duckdb.Statement:
    """A statement as DuckDB has parsed it, on however many neighbours it is then run."""
    (statement,) = bench().extract_statements(sql)
    return statement


class PlainEngine:
    """DuckDB in this process: fast enough for thousands of neighbours, and not hardened."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.connection.execute(SETTINGS)
        # By proxy: in no cycle, an engine goes with who used it last.
        self.public = PublicTables(proxy(self), DUCKDB)
        """What was measured of its public tables, which no test changes meanwhile."""

    def rows(self, sql: str) -> Rows:
        return self.connection.execute(OURS.sub(r"AVG(\1)", sql)).fetchall()

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
    ) -> Exact:
        for table in tables:
            self.connection.execute(f'DROP TABLE IF EXISTS temp."{table.name}"')
            self.connection.execute(*load(table))
        named = {"sampling_key": sampling_key} if "$sampling_key" in sql else None
        rows = self.connection.execute(read(sql), named).fetchall()
        columns = [np.array([row[keys + n] for row in rows], dtype=object) for n in range(parts)]
        return Exact([row[:keys] for row in rows], columns)

    def scratch(self, sql: str, tables: Sequence[ScratchTable] = ()) -> Rows:
        cursor = bench().cursor()  # temporary tables belong to it alone
        for table in tables:
            cursor.execute(*load(table))
        return cursor.execute(sql).fetchall()

    evaluate = scratch


Filled: TypeAlias = tuple[str, Sequence[str], Sequence[Mapping[str, Any]]]
"""A table: its name, its columns with their types, and its rows by their columns."""


def engine_of(tables: Iterable[Filled], *, shared: bool = True) -> PlainEngine:
    """An engine with these rows and no constraint, the same for the same rows if it is shared."""
    script = list[str]()
    for name, typed, rows in tables:
        script.append(f"CREATE TABLE {name} ({', '.join(typed)})")
        values = (", ".join(_literal(row[each.split()[0]]) for each in typed) for row in rows)
        listed = ", ".join(f"({each})" for each in values)
        script += [f"INSERT INTO {name} VALUES {listed}"] if listed else []
    return (_scripted if shared else _scripted.__wrapped__)(";".join(script))


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    assert value is None or isinstance(value, int), value
    return "NULL" if value is None else str(value)


@lru_cache(128)
def _scripted(sql: str) -> PlainEngine:
    connection = duckdb.connect()
    connection.execute(sql)
    return PlainEngine(connection)


class RememberingEngine(PlainEngine):
    """An engine over data that do not change: a fourth of all cases ask it what others have."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self._measured: dict[tuple[str, int, int, int], Exact] = {}

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
    ) -> Exact:
        asked = sql, keys, parts, sampling_key
        if tables:
            return super().aggregate(*asked, tables)
        if asked not in self._measured:
            self._measured[asked] = super().aggregate(*asked)
        return self._measured[asked]


def compiled(
    sql: str,
    policy: Policy,
    engine: PlainEngine,
    *,
    dialect: str = "duckdb",
    budget: Budget = BUDGET,
    epsilon: Fraction = Fraction(1),
    norm: Fraction | None = None,
) -> Prepared:
    """A query compiled as the proxy compiles it, over this engine's public tables.

    Where contributions have no limit, every norm is found to be `norm` (None: the widest).
    """
    public = engine.public
    known: dict[str, FoundNorm] = {}
    while True:
        steps = KnownSteps(known)
        made = prepare(
            parsed(sql, dialect), policy, budget, epsilon, public, public.evaluate, steps
        )
        if not made.polls or norm is None:
            return made
        known |= {poll.key: found(poll, norm) for poll in made.polls}


def measured(sql: str, policy: Policy, engine: PlainEngine) -> Prepared:
    """A query compiled as if nothing were known of its rows by declaration."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparing, "without_empty_blocks", lambda tracked, *_others: tracked)
        return compiled(sql, policy, engine)


def counts_rows(prepared: Prepared, engine: PlainEngine) -> bool:
    """Whether any exact integer of a plan is not zero."""
    return any(
        any(map(any, (*counted.values(), *(cells.values() for cells in counted.cells.values()))))
        for counted in integers(prepared, engine)
    )


def found(poll: Poll, norm: Fraction) -> FoundNorm:
    """A norm in units of what is asked for; a mean is in the middle, a ratio half the largest."""
    vote = poll.block.vote
    if isinstance(vote, RatioVote):
        return FoundNorm(poll.key, int(RATIO_STEPS * vote.edges[-1] / 2**11), 0, visible=True)
    if isinstance(vote, RangeVote):
        return FoundNorm(poll.key, max(1, int(norm / vote.total.lattice.step)), 0, visible=True)
    if isinstance(vote, Vote):
        bound = max(1, int(norm * vote.steps / vote.total.lattice.step))
        return FoundNorm(poll.key, bound, 0, visible=True)
    return placeholder(poll)


ASKED = now()
"""When everything here is asked, so that a text means the same however often it is read."""


@lru_cache(2000)
def parsed(sql: str, dialect: str) -> Statement:
    """What a text says, which no data change: parsed once, over however many databases."""
    return parse(sql, dialect, instant=ASKED)


def no_noise(_law: Law, count: int) -> np.ndarray:
    """The sampler of law 1."""
    return np.zeros(count, dtype=np.int64)


def the_best(_choice: Choice, listed: Candidates) -> np.ndarray:
    """The chooser of law 1: the first of the best, or the outermost cell that a row reaches."""
    if isinstance(_choice.aim, Reached):
        counts = listed.best.repeat(listed.size) - listed.behind_at(
            np.arange(listed.lists * listed.size)
        )
        reached = counts.reshape(listed.lists, listed.size) >= 1
        ends = listed.size - 1 - reached[:, ::-1].argmax(1), reached.argmax(1)
        return np.asarray(ends[not _choice.aim.highest])
    return best(listed)


def noiseless(prepared: Prepared, engine: PlainEngine) -> tuple[Rows, Rows]:
    """Rows and errors with noise off, every key that exists published, and no other."""
    if prepared.plan is None:
        rows = list(presented(prepared.rewritten, engine.rows(prepared.rewritten.outer_sql)))
        # What is known of no rows is a number of ours, as if it were measured.
        error = 0.0 if any(isinstance(n, NoRows) for n in prepared.notices) else None
        if error is not None:  # groups without rows are none of the plain engine's
            rows = [row for row in rows if not any(isinstance(value, str) for value in row)]
        return rows, [(error,) * len(row) for row in rows]
    prepared = _known_to_be_exact(prepared)
    assert prepared.plan is not None
    noisy = noiseless_blocks(prepared, engine)
    receipt = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
    answer = finish(prepared.plan, prepared.rewritten, noisy, engine.rows, engine.scratch, receipt)
    return list(answer.rows), list(answer.errors)


def _known_to_be_exact(prepared: Prepared) -> Prepared:
    """The same query where means know that there is no noise, and draw nothing to the middle.

    So do aggregates of listed groups, which then have rows.
    """
    plan = prepared.plan
    assert plan is not None
    queries = [r for outer in (plan.outer, *plan.stages) for r in relations(outer)]
    nodes = (node for r in queries for e in expressions(r) for node in walk(e))
    means = any(isinstance(node, Call) and node.function == NAME for node in nodes)
    if not means and not any(isinstance(r, Aggregate | Window) for r in queries):
        return prepared
    blocks = (
        replace(block, releases=tuple(noised(r, NO_NOISE) for r in block.releases))
        for block in plan.blocks
    )
    identities = Identities()
    for _ in range(max(map(int, re.findall(r"\bc(\d+)", prepared.rewritten.outer_sql)))):
        identities.field("used", DOUBLE)
    exact = replace(plan, blocks=tuple(blocks), levels=())
    known = rewrite(exact, lambda _: (), identities, ONLY)
    return replace(
        prepared,
        rewritten=replace(prepared.rewritten, outer_sql=known.outer_sql, stages=known.stages),
    )


def noised(release: Release, noise: Noise) -> Release:
    """The release with other noise; of combinations of groups, with theirs."""
    old = release.payment.noise
    new = replace(old, own=noise) if isinstance(old, MatrixNoise) else noise
    return replace(release, payment=replace(release.payment, noise=new))


def exact_blocks(
    prepared: Prepared, engine: PlainEngine, released: Sequence[Noisy] = ()
) -> Iterator[tuple[BlockPlan, Exact]]:
    """The exact integers of every block; stages read `released`, else what has no noise."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    noisy: list[Noisy] = []
    read = not released and any(sql.stages for sql in rewritten.blocks)
    for block, sql in zip(plan.blocks, rewritten.blocks, strict=True):
        stages = [
            stage(plan, rewritten, n, released or noisy, engine.rows, engine.scratch)
            for n in sql.stages
        ]
        exact = engine.aggregate(sql.sql, len(sql.keys), sql.parts, SAMPLING_KEY, stages)
        if read:
            noisy.append(release(exact, _transparent(block, exact), no_noise, the_best))
        yield block, exact


def _transparent(block: BlockPlan, exact: Exact) -> BlockPlan:
    """The block without thresholds, tests and reserves at extremes, and without keys of no row."""
    apart = (
        replace(r, payment=replace(r.payment, noise=r.payment.noise.own))
        if isinstance(r.payment.noise, MatrixNoise)
        else r
        for r in block.releases
    )
    untested = (replace(r, stability=r.stability and replace(r.stability, least=-1)) for r in apart)
    choices = (replace(c, aim=c.query.aim) for c in block.choices)
    trees = (replace(tree, reserve=1) for tree in block.trees)
    block = replace(block, releases=tuple(untested), choices=tuple(choices), trees=tuple(trees))
    match block.keys:
        case ThresholdKeys() as keys:
            return replace(block, keys=replace(keys, threshold=replace(keys.threshold, value=1)))
        case ListedKeys() | TopKeys() as keys if block.block.keys and block.block.groups is None:
            present = {key[: len(block.block.keys)] for key in exact.keys}
            known = tuple(key for key in keys.domain if key in present)
            return replace(block, keys=replace(keys, domain=known))
        case _:
            return block


def same_rows(ours: Rows, errors: Rows, plain: Rows) -> bool:
    """Equal as multisets; an aggregate over nothing may be a number of ours and NULL of theirs."""
    if len(ours) != len(plain):
        return False
    noisy = [[e is not None for e in row] for row in errors]
    mine = sorted(zip(ours, noisy, strict=True), key=lambda pair: _order(pair[0]))
    return all(
        all(map(_same_value, row, other, flags))
        for (row, flags), other in zip(mine, sorted(plain, key=_order), strict=True)
    )


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_order_value(value) for value in row)


def _order_value(value: Any) -> tuple[int, Any]:
    if value is None:
        return (3, 0)
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        return (2, 0) if isnan(value) else (0, round(float(value), 4))
    return (1, str(value))


def _same_value(ours: Any, plain: Any, noisy: bool) -> bool:  # noqa: FBT001
    if plain is None:
        return ours is None or noisy
    if isinstance(plain, timedelta) and isinstance(ours, timedelta):
        ours, plain = ours.total_seconds(), plain.total_seconds()
    if isinstance(plain, float | Decimal | int) and not isinstance(plain, bool):
        if ours is None:
            return False
        if isnan(plain):
            return isnan(ours)
        return isclose(float(ours), float(plain), rel_tol=1e-6, abs_tol=1e-5)
    return bool(ours == plain)


def noiseless_blocks(prepared: Prepared, engine: PlainEngine) -> list[Noisy]:
    """The table that each block would release without noise."""
    return [
        release(exact, _transparent(block, exact), no_noise, the_best)
        for block, exact in exact_blocks(prepared, engine)
    ]


class Counted(dict[Any, tuple[int, ...]]):
    """The integers of a block by key; `cells` are the histograms, each by key."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: dict[tuple[Histogram, Any], dict[int, int]] = {}


def integers(
    prepared: Prepared, engine: PlainEngine, released: Sequence[Noisy] = ()
) -> list[Counted]:
    """The exact integers of every block, by key; keys outside the domain are never released.

    A later block of two neighbours is compared given the same `released` tables (adaptive
    composition).
    """
    assert prepared.plan is not None
    result = []
    for block, exact in exact_blocks(prepared, engine, released):
        require_claims(block, engine)
        allowed = None if block.domain is None else set(block.domain)
        counted, (sums, cells) = Counted(), separated(exact, block)
        parts = with_means(list(sums.parts), block)
        for n, key in enumerate(sums.keys):
            if allowed is None or key in allowed:
                counted[_told_apart(key)] = tuple(int(part[n]) for part in parts)
        for key, place, count in zip(cells.keys, cells.cells, cells.counts, strict=True):
            if allowed is None or key in allowed:
                histogram, cell = _of_histogram(block, int(place))
                counted.cells.setdefault((histogram, _told_apart(key)), {})[cell] = int(count)
        result.append(counted)
    return result


@contextmanager
def without_kernel() -> Iterator[None]:
    """The planner's claims are believed as they are: wrong twins of its proofs are to be found."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparing, "enforced", lambda plan, *_: plan)
        patched.setattr(track._Tracker, "_proved_rows", lambda _self, joined: joined.max_rows)
        yield


def require_claims(block: BlockPlan, engine: PlainEngine) -> None:
    """Fail where a claim that is enforced leaves a unit out: it was proved of all rows.

    This is a switch: tests that plant false claims replace it.
    """
    stages = DuckDBBlock(block).row_stages()[:-1] if block.block.enforced else []
    for n, claim in enumerate(block.block.enforced):
        sql = f"WITH {', '.join(stages)} SELECT COUNT(*) FROM broken_{n}"
        assert engine.connection.execute(sql).fetchall() == [(0,)], claim.words


def _of_histogram(block: BlockPlan, place: int) -> tuple[Histogram, int]:
    """The histogram that a place is in, and the cell there."""
    for histogram in block.histograms:
        if place < histogram.grid.cells:
            return histogram, place
        place -= histogram.grid.cells
    raise AssertionError(place)


def _told_apart(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with NaN as a text: NaN is one group, and Python's NaN differs from itself."""
    return tuple("NaN" if value != value else value for value in key)  # noqa: PLR0124


def charges(block: BlockPlan) -> list[list[int]]:
    """The places of the sums that are paid for together."""
    judged = len(block.keys.judged)
    places = {release.field.id: n for n, release in enumerate(block.releases, judged)}
    paid = [[places[column] for column in payment.columns] for payment in block.payments]
    return [*([n] for n in range(judged)), *paid]


def claimed(
    block: BlockPlan, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[Sensitivity, ...]:
    """What one unit may change of each sum, also of those that are judged and not released."""
    judged = (
        Sensitivity(block.l0, q.total_lower, q.total_upper, neighbours) for q in block.keys.judged
    )
    # What is measured after a choice is so of few groups; here it is summed of all of them.
    released = (release.sensitivity for release in block.releases)
    chosen = isinstance(block.keys, TopKeys)
    return (*judged, *(replace(s, l0=block.l0) if chosen else s for s in released))


def violation(prepared: Prepared, here: Sequence[Counted], there: Sequence[Counted]) -> str | None:
    """How two neighbours' integers break the claimed sensitivities, or None if they do not."""
    assert prepared.plan is not None
    for block, ours, theirs in zip(prepared.plan.blocks, here, there, strict=True):
        claims = claimed(block)
        zeros = (0,) * len(claims)
        changed: list[set[Any]] = [set() for _ in claims]
        for key in ours.keys() | theirs.keys():
            mine, others = ours.get(key, zeros), theirs.get(key, zeros)
            for n, (a, b) in enumerate(zip(mine, others, strict=True)):
                if abs(a - b) > claims[n].linf and promised(block, n, mine, others):
                    return f"part {n} of group {key!r} moved by {abs(a - b)}"
                if a != b:
                    changed[n].add(key)
            for charge in charges(block):
                steps = [ours.get(key, zeros)[n] - theirs.get(key, zeros)[n] for n in charge]
                claim = claims[charge[0]]
                moved = hypot(*steps) if claim.together > 1 else sum(map(abs, steps))
                if moved > claim.linf:
                    return f"parts {charge} of group {key!r} moved by {moved} together"
        for number, choice in enumerate(block.choices):
            swayed = sways(choice, ours, theirs)
            if any(sway > choice.rate**-1 * choice.epsilon for sway in swayed.values()):
                return f"choice {number} was swayed by {max(swayed.values())}"
            changed.append(set(swayed))
        for tree in block.trees:
            l1, l2_squared = moved_nodes(tree, ours, theirs)
            if l1 > tree.sensitivity.l1 or l2_squared > tree.sensitivity.l2_squared:
                return f"a tree of counts moved by {l1} and {l2_squared}"
        scaled = any(claim.norm is not Norm.MAX for claim in claims)
        if (scaled or block.block.several) and (why := too_far(block, claims, ours, theirs)):
            return why
        most = max(map(len, changed), default=0)
        if most > block.l0:
            return f"{most} groups moved, {block.l0} claimed"
    return None


def too_far(
    block: BlockPlan, claims: Sequence[Sensitivity], here: Counted, there: Counted
) -> str | None:
    """How the vectors of all groups are farther apart than claimed, in L1 or in squared L2."""
    zeros = (0,) * len(claims)
    for charge in charges(block):
        steps = [
            here.get(key, zeros)[n] - there.get(key, zeros)[n]
            for key in here | there
            for n in charge
        ]
        claim, l1, l2 = claims[charge[0]], sum(map(abs, steps)), sum(step**2 for step in steps)
        if l1 > claim.l1 or l2 > claim.l2_squared:
            return f"parts {charge} moved by {l1} and {l2} in all"
    return None


def promised(block: BlockPlan, place: int, *sides: tuple[int, ...]) -> bool:
    """Whether the claim is made: of a mean only where one side has the rows that were proposed."""
    before = len(block.keys.judged)
    places = {release.field.id: n for n, release in enumerate(block.releases, before)}
    made = block.releases[place - before]
    if made.stability is None or not isinstance(made.query, StableMean):
        return True
    counted = places[made.stability.count]
    return max(side[counted] for side in sides) >= made.query.rows


def moved_nodes(tree: TreeRelease, here: Counted, there: Counted) -> tuple[int, int]:
    """How far the nodes of all levels and groups are apart: in L1, and in L2 squared."""
    steps = []
    for at in {at for at in here.cells | there.cells if at[0] == tree.histogram}:
        ours, theirs = (side.cells.get(at, {}) for side in (here, there))
        for level in range(tree.shape.levels):
            nodes: dict[int, int] = {}
            for cell in ours | theirs:
                node = cell // tree.shape.branching**level
                nodes[node] = nodes.get(node, 0) + ours.get(cell, 0) - theirs.get(cell, 0)
            steps += list(nodes.values())
    return sum(map(abs, steps)), sum(step**2 for step in steps)


def sways(choice: Choice, here: Counted, there: Counted) -> dict[Any, int]:
    """By group whose histogram differs, the most by which two scores' difference does."""
    found, histogram = {}, choice.query.histogram
    for key in {key for other, key in here.cells | there.cells if other == histogram}:
        ours, theirs = (side.cells.get((histogram, key), {}) for side in (here, there))
        if ours == theirs:
            continue
        cells = np.array(sorted({0, *ours, *theirs, *(c + 1 for c in {*ours, *theirs})}))
        cells = cells[cells < histogram.grid.cells]
        if isinstance(choice.aim, scores.Peak):  # what is chosen is an option, not a cell
            cells = np.arange(choice.aim.options)
        moved = _behind(choice, ours, cells) - _behind(choice, theirs, cells)
        found[key] = int(moved.max() - moved.min())
    return found


def _behind(choice: Choice, counted: dict[int, int], cells: np.ndarray) -> np.ndarray:
    """The scores at these cells, below the best of all."""
    size = choice.query.histogram.grid.cells
    places = np.array(sorted(counted), dtype=np.int64)
    counts = np.array([counted[place] for place in sorted(counted)], dtype=np.int64)
    return candidates(scores.HistogramCounts(1, size, places, counts), choice.aim).behind_at(cells)


@contextmanager
def without_unit(connection: duckdb.DuckDBPyConnection, deletions: Sequence[str]) -> Iterator[None]:
    """The neighbouring database in which these deletions have been made."""
    connection.execute("BEGIN")
    try:
        for statement in deletions:
            connection.execute(statement)
        yield
    finally:
        connection.execute("ROLLBACK")
