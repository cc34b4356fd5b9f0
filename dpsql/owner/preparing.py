"""Preparing data: copies of private tables, made once for later plans. For the owner.

Every fact that a plan over the store relies on is counted here, in the data that is copied:
PRIVACY.md R87. Facts are verified, and none is recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from dpsql.compiler.rewrite.stored_rows import way_of
from dpsql.engines.stores import Grown, StoreWriter
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Unreachable
from dpsql.model.prepared_store import PreparedStore
from dpsql.model.table_names import address
from dpsql.model.tree import Kind
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.owner.check import check
from dpsql.owner.prepared_rollups import PreparedRollup, prepared_rollups
from dpsql.owner.prepared_tables import PreparedRows, prepared_tables
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound
from dpsql.preparation.engine_kinds import dialects, opened, store_writer
from dpsql.preparation.public_data import PublicTables

_WIDE, _NARROW = 24, 8
"""Assumed bytes of a value before compression: of a text, and of other types."""


@dataclass(frozen=True, slots=True)
class Step:
    """A table of the store to create, and its size before compression.

    `test` is a query that must return true afterwards. With `added`, only new rows of the data are
    read.
    """

    table: str
    statement: str
    size: int
    test: str | None = None
    added: bool = False


@dataclass(frozen=True, slots=True)
class Preparation:
    """The remaining steps, with their expected size.

    `again` means that a store of this policy exists to which rows may be added.
    """

    writer: StoreWriter
    steps: tuple[Step, ...]
    again: bool = False

    @property
    def size(self) -> int:
        """Largest size in bytes, before compression."""
        return sum(step.size for step in self.steps)

    def make(self, step: Step) -> None:
        """Create a table in the store. Raises `Unreachable`."""
        self.writer.make(step.statement)
        if step.test is not None and self.writer.rows(step.test) != [(True,)]:
            raise Unreachable(f"Numbers of {step.table} are too large for a rollup: leave it out.")


@contextmanager
def preparation(path: str) -> Iterator[Preparation]:
    """Yield the steps for the store of a policy; an unfinished one is continued.

    Raises `PolicyError`, or `Unreachable` if facts that plans rely on do not hold, or if there is
    no room.
    """
    draft = load(path)
    with store_writer(draft) as writer:
        policy, rollups = _verified(draft)
        if policy.data != writer.identity:
            raise Unreachable("The data has changed meanwhile. Try again.")
        tables = tuple(table.name for table in prepared_tables(policy))
        store = PreparedStore(
            secrets.token_hex(8),
            writer.identity,
            policy.version,
            tables,
            tuple(each.rollup for each in rollups),
        )
        grown = writer.grown(store)
        steps = tuple(_steps(policy, rollups, writer, grown or {}))
        there = writer.begin(store)
        left = tuple(step for step in steps if step.table not in there)
        planned = Preparation(writer, left, again=grown is not None)
        if planned.size > writer.room:
            raise Unreachable(
                f"The store may take {megabytes(planned.size)} and {megabytes(writer.room)} are"
                " free there. Make room, or let prepared be on another disk."
            )
        yield planned


def megabytes(size: int) -> str:
    """Return bytes as people read them.

    >>> megabytes(1_234_567_890)
    '1,235 MB'
    """
    return f"{size / 1e6:,.0f} MB"


def _verified(draft: Draft) -> tuple[Policy, tuple[PreparedRollup, ...]]:
    """Return the policy, after verifying all its facts and the keys on the way to units, and its
    rollups.

    Raises `PolicyError`, or `Unreachable`.
    """
    dialect = dialects(draft.database).database
    with closing(opened(draft)) as engine, closing(open_ledger(draft.ledger)) as ledger:
        policy = bound(draft, engine, ledger)
        tables = prepared_tables(policy)
        rollups = tuple(
            prepared_rollups(draft, policy, PublicTables(engine, dialect), dialect, tables)
        )
        _findings, confirmed = check(policy, draft.lines, engine.rows)
    needed = {fact for fact in policy.facts if fact.voucher is Voucher.CHECK}
    for table in tables:
        keys = (part.name for part in way_of(table, policy) or (table,) if part.key)
        needed |= {Fact(FactKind.UNIQUE_KEY, name, Voucher.CHECK) for name in keys}
    missing = sorted(f"{fact.table}: {fact.kind.value}" for fact in needed - confirmed)
    if missing:
        raise Unreachable(
            "These do not hold, and plans over a store would lean on them: "
            f"{'; '.join(missing)}. See dpsql check."
        )
    return policy, rollups


def _steps(
    policy: Policy,
    rollups: Sequence[PreparedRollup],
    writer: StoreWriter,
    grown: Mapping[str, Grown],
) -> Iterator[Step]:
    """Yield the steps for tables, and then for rollups of them."""
    dialect, counts = dialects(policy.database).database, dict[str, int]()
    since = dict[str, str | None]()
    for table in prepared_tables(policy):
        ((counts[table.name],),) = writer.rows(f"SELECT COUNT(*) FROM {address(table.name)}")
        wide = sum(column.type.kind is Kind.VARCHAR for column in table.columns)
        rows = PreparedRows(table, policy, dialect, tuple(each.rollup for each in rollups))
        narrow = len(table.columns) - wide + 2 * len(rows.ordered)
        size = counts[table.name] * (_WIDE * wide + _NARROW * narrow)
        since[table.name] = came = _since(rows, writer, grown)
        yield Step(table.name, rows.creation(came), size, added=came is not None)
    for each in rollups:
        columns = 3 + len(each.rollup.keys) + 2 * len(each.sums)
        size = counts[each.table.name] * _NARROW * columns
        came = since[each.table.name]
        yield Step(each.rollup.name, each.creation(came), size, each.largest, came is not None)


def _since(rows: PreparedRows, writer: StoreWriter, grown: Mapping[str, Grown]) -> str | None:
    """Return the rows of a table that are missing in the earlier store, which has all others.

    None if that is unknown: new rows on the way may give unowned rows a unit.
    """
    own, way = grown.get(rows.table.name), way_of(rows.table, rows.policy)
    if own is None or any(each.name not in grown for each in way):
        return None
    if not own.complete and any(grown[each.name].new for each in way):
        return None
    before, now = (
        [column[:2] for column in writer.rows(f"DESCRIBE {select}")]
        for select in (rows.before, rows.every)
    )
    return own.since if before == now else None
