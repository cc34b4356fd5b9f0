"""`check --proofs`: counts on the owner's data for the claims that the kernel proves.

For the owner only: counts are exact. A contradicted claim is a fault of the kernel, or of a fact
that it relies on (PRIVACY.md R5, R96): a plan with it promises too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from typing import Any

from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.kernel.known import Closure, Proof
from dpsql.compiler.plan.private_plan import PrivateBlock, PrivatePlan
from dpsql.dialects.reading.parse import parse
from dpsql.engines import EngineFailed, TimedOut
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.table_names import address
from dpsql.model.tree import Expression, Ref, identifier
from dpsql.model.vocabulary import FactKind, Policy, TablePolicy
from dpsql.model.walk import relations
from dpsql.owner.row_owners import Owned, OwnerTracer, Untraced
from dpsql.owner.whose_rows import RowsOfSeveral
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound, bound_to
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.prepare import prepare
from dpsql.preparation.public_data import PublicTables

_Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class CountedClaim:
    """A claim of the kernel with its `bound`, and the largest count."""

    claim: str
    bound: int
    most: int

    @property
    def holds(self) -> bool:
        """True if the data agrees."""
        return self.most <= self.bound


@dataclass(frozen=True, slots=True)
class CountedStatement:
    """The claims about a statement; `refused` if it is not accepted, `skipped` lists uncounted
    claims.
    """

    sql: str
    claims: tuple[CountedClaim, ...] = ()
    refused: Refused | None = None
    skipped: tuple[str, ...] = ()


def count_proofs(path: str, statements: Sequence[str] = ()) -> tuple[CountedStatement, ...]:
    """Count the claims for these statements, or for statements that the policy's tables suggest.

    Raises `PolicyError`, `Unreachable`, `LedgerError` and the engine's errors.
    """
    draft = load(path)
    with closing(opened(draft)) as engine:
        if draft.ledger.is_begun:
            with closing(open_ledger(draft.ledger)) as ledger:
                policy = bound(draft, engine, ledger)
        else:
            policy = bound_to(draft, engine)[0]
        public = PublicTables(engine, dialects(policy.database).database)
        counter = ProofCounter(policy, public, engine.rows)
        return tuple(counter.count(sql) for sql in statements or suggested_statements(policy))


class ProofCounter:
    """Compiles statements and counts what the kernel proves of their rows."""

    def __init__(self, policy: Policy, public: PublicTables, rows: _Rows) -> None:
        self.policy, self.public, self.rows = policy, public, rows
        self.dialect = dialects(policy.database).database

    def count(self, sql: str) -> CountedStatement:
        """Return the claims about the private rows that a statement reads, with their counts.

        A refused statement has its refusal, and claims that were not counted have their reason.
        """
        budget = self.policy.budgets[0]
        epsilon, public = Fraction(budget.query_epsilon), self.public
        try:
            statement = parse(sql)
            plan = prepare(statement, self.policy, budget, epsilon, public, public.evaluate).plan
        except Refused as refused:
            return CountedStatement(sql, refused=refused)
        if plan is None:
            return CountedStatement(sql, skipped=("It reads no private rows.",))
        counted = list[CountedClaim | str]()
        try:
            for block in plan.blocks:
                counted += self._of_block(plan, block.block)
        except (EngineFailed, TimedOut):
            counted.append("The database did not finish a count.")
        claims = tuple(dict.fromkeys(c for c in counted if isinstance(c, CountedClaim)))
        skipped = tuple(dict.fromkeys(c for c in counted if isinstance(c, str)))
        return CountedStatement(sql, claims, skipped=skipped)

    def _of_block(self, plan: PrivatePlan, block: PrivateBlock) -> Iterator[CountedClaim | str]:
        """Yield the claims about the rows of a block, and sentences on uncounted ones."""
        parts = list(relations(block.rows))
        tables = (self.policy.table(getattr(part, "table", "")) for part in parts)
        if any(table is not None and table.several for table in tables):
            yield from self._of_several(plan, block)
            return
        elsewhere = algebra.Staged | algebra.Released | algebra.Evaluated | algebra.Single
        if any(isinstance(part, elsewhere) for part in parts):
            yield "Rows that join an answer or the result of a public query are not counted."
            return
        if block.several:
            yield from self._of_pairs(plan, block)
            return
        kernel = self._kernel(plan)
        proof = kernel.proof(block.rows, block.unit.id, block.keys)
        yield from ProvedRows(self, block.rows, block.unit, block.keys, proof).claims()

    def _kernel(self, plan: PrivatePlan) -> Kernel:
        counts = [len(block.block.keys) for block in plan.blocks]
        return Kernel(self.policy, plan.stages, counts, self.public.frequency)

    def _of_several(self, plan: PrivatePlan, block: PrivateBlock) -> Iterator[CountedClaim]:
        most = self._kernel(plan).most_of_several(block.rows)
        for part in relations(block.rows):
            table = self.policy.table(getattr(part, "table", ""))
            if table is not None and table.several and most is not None:
                each = f"SELECT u AS c0 FROM ({RowsOfSeveral(table, self.policy).each()}) AS r"
                yield CountedClaim("rows that name one unit", most, self.most(each, "c0"))

    def _of_pairs(self, plan: PrivatePlan, block: PrivateBlock) -> Iterator[CountedClaim | str]:
        """Yield the claim about the joined rows of two units each."""
        most = self._kernel(plan).most_of_several(block.rows)
        try:
            owned = OwnerTracer(self.policy).trace(block.rows)
        except Untraced:
            yield "The owners of rows below a set operation are not followed."
            return
        rows, places = self.query(owned.rows, owned.owners), range(len(owned.owners))
        others = [[f"(c{m} IS NULL OR c{m} <> c{n})" for m in range(n)] for n in places]
        each = " UNION ALL ".join(
            f"SELECT c{n} AS c0 FROM ({rows}) AS r WHERE {' AND '.join(['1 = 1', *others[n]])}"
            for n in places
        )
        if most is not None:
            yield CountedClaim("joined rows that name one unit", most, self.most(each, "c0"))

    def most(self, rows: str, groups: str) -> int:
        """Return the most rows of one unit, c0, that agree on columns."""
        counted = f"SELECT COUNT(*) AS n FROM ({rows}) AS r WHERE c0 IS NOT NULL GROUP BY {groups}"
        return self.number(f"SELECT COALESCE(MAX(n), 0) FROM ({counted}) AS g")

    def number(self, sql: str) -> int:
        """Return the one number of a query."""
        return int(self.rows(sql)[0][0] or 0)

    def query(self, relation: algebra.Relation, outputs: tuple[Expression, ...]) -> str:
        """Return a relation as SQL, its columns named c0, c1, …"""
        return self.dialect.query(relation, outputs)


class ProvedRows:
    """Claims about the rows of a block: the unit is column c0, then fields, then keys."""

    def __init__(
        self,
        counter: ProofCounter,
        rows: algebra.Relation,
        unit: Ref,
        keys: Sequence[algebra.Item],
        proof: Proof,
    ) -> None:
        self.counter, self.rows, self.unit, self.keys = counter, rows, unit, keys
        self.proof, self.closure = proof, Closure(proof.rows)
        fields: list[tuple[int, str, Expression]] = [
            (f.id, f.name, f.ref) for f in rows.fields if f.id != unit.id
        ]
        fields += [(key.field.id, key.field.name, key.expression) for key in keys]
        self.names = {n: (f"c{place}", name) for place, (n, name, _) in enumerate(fields, 1)}
        self.sql = counter.query(rows, (unit, *(ref for *_, ref in fields)))

    def claims(self) -> Iterator[CountedClaim | str]:
        """Yield each claim with its count."""
        most, count = self.proof.most_rows(), self.counter.most
        if most is not None:
            yield CountedClaim("rows of one unit", most, count(self.sql, "c0"))
        keys = [key.field.id for key in self.keys]
        within = self.proof.most_rows(keys)
        if keys and within is not None:
            groups = ", ".join(["c0", *(self.names[n][0] for n in keys)])
            yield CountedClaim("rows of one unit in one group", within, count(self.sql, groups))
        values = self.proof.most_values(keys)
        if keys and values is not None:
            yield CountedClaim("groups of one unit", values, self._most_values(keys))
        yield from self._of_owners()
        yield from self._of_columns(most)

    def _of_owners(self) -> Iterator[CountedClaim | str]:
        """Yield the claim that each row is made of one unit's rows; tests for existence are
        compared apart.
        """
        if not self.proof.is_local:
            return
        tracer, unit = OwnerTracer(self.counter.policy), self.unit
        try:
            owned = tracer.trace(self.rows)
        except Untraced:
            yield "The owners of rows below a set operation are not followed."
            return
        sides = [replace(owned, owners=(unit, *owned.owners)), *tracer.mixed]
        wrong = sum(self.counter.number(self._of_two(side)) for side in sides if side.owners)
        yield CountedClaim("rows made of rows of two units", 0, wrong)

    def _of_two(self, side: Owned) -> str:
        """Return a SELECT of the number of rows with two owners."""
        places = range(len(side.owners))
        differ = [f"c{a} <> c{b}" for a in places for b in places if a < b] or ["1 = 0"]
        rows = self.counter.query(side.rows, side.owners)
        return f"SELECT COUNT(*) FROM ({rows}) AS r WHERE {' OR '.join(differ)}"

    def _of_columns(self, most: int | None) -> Iterator[CountedClaim]:
        """Yield claims on NULLs, equal columns, and rows or values per unit."""
        for column, (place, name) in self.names.items():
            if self.closure.is_present((column,)):
                absent = f"SELECT COUNT(*) FROM ({self.sql}) AS r WHERE c0 IS NOT NULL AND {place}"
                yield CountedClaim(f"NULL in {name}", 0, self.counter.number(f"{absent} IS NULL"))
            rows = self.proof.most_rows((column,))
            if rows is not None and (most is None or rows < most):
                counted = self.counter.most(self.sql, f"c0, {place}")
                yield CountedClaim(f"rows of one unit with one {name}", rows, counted)
            values = self.proof.most_values((column,))
            if values is not None and most != 1:
                counted = self._most_values((column,))
                yield CountedClaim(f"values of {name} of one unit", values, counted)

    def _most_values(self, columns: Iterable[int]) -> int:
        """Return the largest number of distinct values of columns of one unit; NULL counts as
        one.
        """
        listed = ", ".join(["c0", *(self.names[n][0] for n in columns if n in self.names)])
        return self.counter.most(f"SELECT DISTINCT {listed} FROM ({self.sql}) AS d", "c0")


def suggested_statements(policy: Policy) -> tuple[str, ...]:
    """Return statements that join, group and number the private tables along links and keys."""
    listed = (sql for table in policy.tables if table.private for sql in _about(table, policy))
    return tuple(dict.fromkeys(listed))


def _about(table: TablePolicy, policy: Policy) -> Iterator[str]:
    name = address(table.name)
    counted, link = "SELECT COUNT(*) AS n FROM", table.link
    yield f"{counted} {name}"
    grouped = (c.name for c in table.columns if c.values is not None and not c.hidden)
    yield from (f"SELECT {identifier(c)}, COUNT(*) AS n FROM {name} GROUP BY 1" for c in grouped)
    joined = f"{name} AS a JOIN {name} AS b ON"
    for columns in (table.key, *table.determining):
        if columns:
            yield f"{counted} {joined} {_same(columns, columns)}"
    for name, _ in table.max_rows_per_key:
        yield f"{counted} {joined} {_same((name,), (name,))}"
    if link is None:
        return
    own = ", ".join(map(identifier, link.columns))
    yield f"{counted} (SELECT {own}, COUNT(*) AS m FROM {name} GROUP BY {own}) AS g"
    if table.key:
        order = ", ".join(map(identifier, table.key))
        numbered = (
            f"SELECT ROW_NUMBER() OVER (PARTITION BY {own} ORDER BY {order}) AS m FROM {name}"
        )
        yield f"{counted} ({numbered}) AS r WHERE m <= 2"
    if policy.table(link.table) is not None:
        above, same = address(link.table), _same(link.columns, link.keys)
        yield f"{counted} {name} AS a JOIN {above} AS b ON {same}"
        yield f"{counted} {name} AS a LEFT JOIN {above} AS b ON {same}"
        yield f"{counted} {above} AS b LEFT JOIN {name} AS a ON {same}"
        yield f"{counted} {above} AS b WHERE EXISTS (SELECT 1 FROM {name} AS a WHERE {same})"
    for other in policy.tables:
        few = other is not table and policy.fact(FactKind.MAX_ROWS, other.name) is not None
        if few and other.link is not None and other.link.table == link.table:
            same = _same(link.columns, other.link.columns)
            yield f"{counted} {name} AS a JOIN {address(other.name)} AS b ON {same}"


def _same(here: Sequence[str], there: Sequence[str]) -> str:
    pairs = zip(here, there, strict=True)
    return " AND ".join(f"a.{identifier(a)} = b.{identifier(b)}" for a, b in pairs)
