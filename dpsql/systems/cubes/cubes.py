"""Cubes: tables that the owner measures once, for the queries of all analysts of a budget.

The grouping sets of a cube are queries of one payer. They are priced and measured together (see
`joint_plan`) and are recorded like every measurement, under a name that no analyst has. Queries
over the same rows are answered from its tables as from measurements of their own (PRIVACY.md R83).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import combinations
from operator import add
from typing import NoReturn

from dpsql.answering import joint_plan
from dpsql.answering.joint_plan import Beside, JointPlan
from dpsql.answering.side_systems import InPeriods, Parts
from dpsql.dialects.postgres.words import Word, words
from dpsql.dialects.statements.creations import Creation, Drop, SystemStatement, syntax
from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.engines import Stop
from dpsql.ledgers import CUBES, Entry, Ledger, Stopped
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import ELSEWHERE
from dpsql.model.query_options import Memory
from dpsql.model.table_names import unknown_name
from dpsql.model.vocabulary import Budget, Loss, Policy, Request
from dpsql.model.walk import relations
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Question
from dpsql.vault.vault import Vault

TABLE = "dp table"
"""Kind of a table that is published, in statements."""
PUBLISHED = "published as a table"
"""Client in the entry of a published table, by which the ledger tells it from a cube's."""
MOST_KEYS = 6
"""Maximum number of keys of a cube: 6 keys make 64 tables."""
_ALL = 1 << 40
_LATER = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Cube:
    """The measurements under one name and budget.

    `entries` record them, oldest first. A `dropped` cube answers no queries.
    """

    name: str
    budget: str
    entries: tuple[Entry, ...]
    dropped: bool

    @property
    def spent(self) -> Loss:
        """Total privacy loss of the cube."""
        return reduce(add, (entry.loss for entry in self.entries), Loss(0))

    @property
    def time(self) -> datetime:
        """Time of the last measurement."""
        return self.entries[-1].time


def refuse_analyst(said: SystemStatement) -> NoReturn:
    """Refuse statements on cubes to analysts."""
    verb = "DROP" if isinstance(said, Drop) else "CREATE"
    construct = f"{verb} {said.kind.upper()}, which is the owner's"
    raise Refused(Reason.UNSUPPORTED_SYNTAX, construct=construct)


def creation(text: str) -> Creation:
    """Parse the text of a CREATE DP CUBE or CREATE DP TABLE statement. Raises `Refused`."""
    cube = read_system_statement(text)
    if not isinstance(cube, Creation) or cube.kind not in {"dp cube", TABLE}:
        why = "CREATE DP CUBE name AS SELECT … is expected, or CREATE DP TABLE"
        raise Refused(Reason.SYNTAX, why=why)
    return cube


def grouping_sets(query: str) -> tuple[str, ...]:
    """Return the SELECT of each grouping set of CUBE, finest first. Raises `Refused`.

    >>> grouping_sets("SELECT a, b AS k, COUNT(*) FROM t GROUP BY CUBE (a, b)")[1:]
    ('SELECT a, COUNT(*) FROM t GROUP BY a', 'SELECT b AS k, COUNT(*) FROM t GROUP BY b', \
'SELECT COUNT(*) FROM t')
    """
    every = list(words(query))
    depths = levels(every)
    clause = next((n for n in range(len(every)) if _is_cube(every, depths, n)), None)
    start = next((n for n, w in enumerate(every) if w.value == "from" and not depths[n]), None)
    if clause is None or start is None or every[0].value != "select" or every[-1].text != ")":
        raise syntax("a cube is SELECT … FROM … GROUP BY CUBE (…)", every)
    keys = listed(every[clause + 4 : -1])
    if [] in keys:
        raise syntax("a cube has columns", every[clause:])
    if len(keys) > MOST_KEYS:
        raise Refused(Reason.TOO_LARGE, what="columns of a CUBE", limit=MOST_KEYS)
    items = listed(every[1:start])
    source = query[every[start].start : every[clause].start].rstrip()
    numbers = {values(key): n for n, key in enumerate(keys)}
    named = [(numbers.get(values(unnamed(item))), text_of(query, item)) for item in items]
    measures = [text for number, text in named if number is None]
    if not measures:
        raise syntax("a cube has an aggregate", every)
    result = []
    for size in range(len(keys), -1, -1):
        for chosen in combinations(range(len(keys)), size):
            shown = [text for number, text in named if number in chosen]
            by = ", ".join(text_of(query, keys[n]) for n in chosen)
            grouped = f" GROUP BY {by}" if by else ""
            result.append(f"SELECT {', '.join([*shown, *measures])} {source}{grouped}")
    return tuple(result)


def planned(
    compiler: Compiler, vault: Vault, text: str, budget: Budget, dialect: str, stop: Stop
) -> JointPlan:
    """Plan a cube: its price and the accuracy of its tables. Runs and charges nothing.

    Raises `Refused` if no query could be answered from the cube.
    """
    cube, policy = creation(text), compiler.policy
    is_table = cube.kind == TABLE
    if not is_table and not (budget.memory.measures_wide or budget.share_answers):
        why = (
            f'no question of {budget.name} is answered of it without memory = "wide" or '
            "share_answers = true in that budget"
        )
        fix = f"The owner writes one of them in [budgets.{budget.name}]."
        raise Refused(Reason.BAD_OPTION, option="budget", value=budget.name, why=why, fix=fix)
    reader = next((analyst for analyst, of in policy.analysts if of == budget.name), None)
    if reader is None:
        why = "no analyst asks from it"
        raise Refused(Reason.BAD_OPTION, option="budget", value=budget.name, why=why)
    payer = _payer(policy, cube.name, budget)
    door, client = (dialect, PUBLISHED) if is_table else ("command line", "")
    tables = []
    for sql in (cube.query,) if is_table else grouping_sets(cube.query):
        request = Request(sql, reader, dialect, door=door, client=client)
        query = joint_plan.read(compiler, request, stop)
        of = query.account
        paying = replace(payer, epsilon=of.epsilon, periods=of.periods)
        if is_table:
            _require_lasting(compiler, cube.name, query)
        query = replace(query, request=replace(request, analyst=payer.analyst), account=paying)
        beside = joint_plan.beside(compiler, vault, query)
        tables.append(_table(beside, budget, policy, is_table=is_table))
    return joint_plan.of_questions(compiler, vault, payer, tables, cube.epsilon)


def create(
    compiler: Compiler, vault: Vault, text: str, budget: Budget, dialect: str, stop: Stop
) -> JointPlan:
    """Measure a cube, charged in one transaction. Tables that are already measured are reused.

    A dropped cube is resumed. Raises as `Proxy.ask` does.
    """
    plan = planned(compiler, vault, text, budget, dialect, stop)
    whom = Stopped(None, plan.account.analyst)
    if whom in vault.ledger.stopped():
        vault.ledger.resume(whom)
        plan = planned(compiler, vault, text, budget, dialect, stop)
    joint_plan.measure(compiler, vault, plan)
    return plan


def cubes(ledger: Ledger) -> tuple[Cube, ...]:
    """Return all cubes that were ever charged, sorted by name."""
    stopped = ledger.stopped()
    by_name = dict[tuple[str, str], list[Entry]]()
    for entry in reversed(ledger.history(None, _ALL)):
        if entry.analyst.startswith(CUBES):
            name = entry.analyst.removeprefix(CUBES)
            by_name.setdefault((name, entry.budget), []).append(entry)
    return tuple(
        Cube(name, budget, tuple(entries), Stopped(None, CUBES + name) in stopped)
        for (name, budget), entries in sorted(by_name.items())
    )


def drop(ledger: Ledger, name: str, reason: str) -> None:
    """Stop answering queries from a cube. Its charge remains. Raises `Refused` for unknown
    names.
    """
    names = tuple(dict.fromkeys(cube.name for cube in cubes(ledger)))
    if name not in names:
        raise unknown_name("cube", name, names)
    ledger.stop(Stopped(None, CUBES + name), reason)


def _payer(policy: Policy, name: str, budget: Budget) -> Account:
    """Return the account that pays for a cube. It belongs to no analyst; general caps still
    apply.
    """
    analyst = CUBES + name
    caps = tuple(cap for cap in policy.caps if cap.covers(budget.name, analyst))
    wide = replace(budget, memory=Memory.WIDE)
    return Account(analyst, wide, budget.query_epsilon, caps=caps, rule=policy.period)


def _table(each: Beside, budget: Budget, policy: Policy, *, is_table: bool) -> Beside:
    """Return a table that other queries can be answered from, or that is published by itself.

    Where its cells do not add up, it is an answer that analysts share: it answers the same query,
    and those with conditions on its keys. Raises `Refused` for any other.
    """
    if each.shares and budget.memory.measures_wide and not is_table:
        return each
    is_answer = not each.steps and each.prepared.plan is not None
    if is_answer and (is_table or (budget.share_answers and not each.prepared.selects)):
        return replace(each, shares=False, tables=())
    what, fix = (
        "a cube",
        (
            "Its keys have to be listed, its measures counts and sums with declared bounds, and "
            "each person has to have one row; or the owner writes share_answers = true."
        ),
    )
    if is_table:
        what, fix = "a published table", _missing_limits(each, policy)
    construct = f"{what} of these rows"
    raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, construct=construct, fix=fix)


def _missing_limits(each: Beside, policy: Policy) -> str:
    """Return what the owner declares so that a table is measured without a search for limits."""
    blocks = () if each.prepared.plan is None else each.prepared.plan.blocks
    parts = (part for block in blocks for part in relations(block.block.rows))
    read = {part.table for part in parts if isinstance(part, algebra.Scan)}
    tables = [table for table in policy.tables if table.name in read and table.private]
    lacking = [
        f"max_rows_per_unit in [tables.{table.name}]"
        for table in tables
        if table.link is not None and table.max_rows_per_unit is None
    ]
    lacking += [
        f"bounds of {table.name}.{column.name}"
        for table in tables
        for column in table.columns
        if each.bounds_first and column.private_bounds
    ]
    if not each.steps or not lacking:
        return "It reads people's rows, with declared bounds and limits."
    return f"Its limits must not be searched for. Declare {', '.join(lacking)}."


def _require_lasting(compiler: Compiler, name: str, query: Question) -> None:
    """Refuse a published table if its name is taken, or its question depends on the time."""
    if "." in name or compiler.policy.granted(name) is not None:
        why = "it has a dot" if "." in name else f"there is a table {name}"
        fix = "Take another name."
        raise Refused(Reason.BAD_OPTION, option="name", why=why, fix=fix)
    later = replace(query, request=replace(query.request, at=query.request.at + _LATER))
    charged = query.account.periods
    if charged is not None and ELSEWHERE in charged.names:
        construct = "rows of later periods in a published table"
        fix = f"Compare {charged.column} with the first day after its last period."
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, construct=construct, fix=fix)
    if compiler.questions(later) != compiler.questions(query):
        construct, fix = "the present time in a published table", "Name the day itself."
        raise Refused(Reason.UNSUPPORTED_SYNTAX, construct=construct, fix=fix)


def levels(every: Sequence[Word]) -> list[int]:
    """Return the depth of parentheses at each word."""
    depths, depth = [], 0
    for word in every:
        depth -= word.text == ")"
        depths.append(depth)
        depth += word.text == "("
    return depths


def _is_cube(every: Sequence[Word], depths: Sequence[int], place: int) -> bool:
    """Test whether GROUP BY CUBE ( begins at a place, outside of parentheses."""
    clause = [word.value for word in every[place : place + 4]]
    return clause == ["group", "by", "cube", "("] and depths[place] == 0


def listed(every: Sequence[Word]) -> list[list[Word]]:
    """Split words at the commas outside of parentheses."""
    parts: list[list[Word]] = [[]]
    for word, level in zip(every, levels(every), strict=True):
        if word.text == "," and level == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def unnamed(item: Sequence[Word]) -> Sequence[Word]:
    """Return an item of a SELECT list without its alias."""
    if len(item) > 2 and item[-2].value == "as":  # noqa: PLR2004
        return item[:-2]
    return item


def values(item: Sequence[Word]) -> tuple[str, ...]:
    """Return the values of words, independent of case and white space."""
    return tuple(word.value for word in item)


def text_of(query: str, item: Sequence[Word]) -> str:
    """Return the text of words as written."""
    return query[item[0].start : item[-1].stop]


def budget_of(policy: Policy, name: str | None) -> Budget:
    """Return the budget with that name; without a name the only one. Raises `Refused`."""
    named = {budget.name: budget for budget in policy.budgets}
    if name is None and len(named) == 1:
        (name,) = named
    if name not in named:
        raise unknown_name("budget", name, tuple(named))
    return named[name]


@dataclass(frozen=True, slots=True)
class CreateCube(InPeriods):
    """Creation of a cube for the analysts of a budget (None: the only one). The owner's."""

    text: str
    budget: str | None
    dialect: str

    def run(self, parts: Parts) -> JointPlan:
        """Measure the cube."""
        payer = budget_of(parts.compiler.policy, self.budget)
        return create(parts.compiler, parts.vault, self.text, payer, self.dialect, parts.stop)


@dataclass(frozen=True, slots=True)
class ExplainCube(InPeriods):
    """Price and precision of the tables of a cube. The owner's."""

    text: str
    budget: str | None
    dialect: str

    def run(self, parts: Parts) -> JointPlan:
        """Return the plan: runs nothing, charges nothing."""
        payer = budget_of(parts.compiler.policy, self.budget)
        return planned(parts.compiler, parts.vault, self.text, payer, self.dialect, parts.stop)
