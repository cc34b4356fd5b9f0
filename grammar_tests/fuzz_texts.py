"""Random texts around the accepted language: cases with their words changed, typed by nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from dpsql.compiler.aggregates import names
from dpsql.dialects.reading.function_names import OTHER_AGGREGATES, WINDOWS, scalars
from grammar_tests import casefile
from grammar_tests.fuzz_dice import BYTES, Dice
from grammar_tests.fuzz_queries import query, swayed_query
from grammar_tests.fuzz_sources import TABLES
from grammar_tests.fuzz_terms import LITERALS

_PIECE = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|[\w.]+|\s+|[<>=!:|/]{2}|.", re.DOTALL)

ODD = (
    *("NULL", "0", "-1", "1", "30", "TRUE", "''", "'1'", "1.50", "1e400", "1e-400", "-0.0", "1e18"),
    *("CAST('NaN' AS DOUBLE)", "CAST('infinity' AS DOUBLE)", "CAST(NULL AS INTEGER)"),
    *("9223372036854775807", "-9223372036854775808", "99999999999999999999999999999999999999999"),
    *("0.0000000000000000000000000000000000001", "DATE '0001-01-01'", "DATE '9999-12-31'"),
    *("TIMESTAMP '2024-02-29 23:59:59.999999'", "TIMESTAMPTZ '2024-01-01 00:00:00+00'"),
    *("INTERVAL '1' MONTH", "INTERVAL 99999999 YEAR", "CURRENT_DATE", "'Ünï'", "'%_\\'"),
    *("(1, 2)", "[1, 2]", "(SELECT 1)", "(SELECT MAX(amount) FROM orders)", "NULL::DATE"),
)
"""Constants and the like that few people write."""

COMPARISONS = (
    *("{c} = {x}", "{c} <= {x} AND {c} >= {x}", "{c} IN ({x})", "{c} BETWEEN {x} AND {y}"),
    *("{c} <> {x}", "{c} > {x} AND {c} < {y}", "{c} IS NULL", "{c} = (SELECT MAX({c}) FROM {t})"),
    *(
        "{c} IN (SELECT {c} FROM {t})",
        "{c} NOT IN ({x}, {y})",
        "{x} < {c}",
        "{c} IS NOT DISTINCT FROM {x}",
    ),
    *("{c} IS NULL AND {c} IS NOT NULL", "FALSE", "{c} > {x} AND NULL", "NOT {c} >= {x}"),
)
"""Conditions on a column of a table; many of them leave one value or none."""

GROUPS = (
    *("ROLLUP (NULL)", "CUBE (vip, NULL)", "GROUPING SETS ((), ())", "NULL", "1", "()", "ALL"),
    *(
        "customer_id",
        "status, status",
        "customer_id, vip",
        "age",
        "1, 2",
        "GROUPING SETS ((1), ())",
    ),
    *("ROLLUP (status, 1)", "'a'", "country, segment", "DATE_TRUNC('year', placed_at)", "0", "3"),
)

ENDS = (
    *("LIMIT 0", "ORDER BY 1 DESC LIMIT 1", "ORDER BY 2 LIMIT 3 OFFSET 1", "HAVING COUNT(*) > 0"),
    *(
        "ORDER BY COUNT(*) DESC LIMIT 2",
        "HAVING SUM(amount) > 5",
        "QUALIFY ROW_NUMBER() OVER () = 1",
    ),
    *("HAVING FALSE", "ORDER BY NULL", "LIMIT 99999999999999999999", "OFFSET 1", "LIMIT NULL"),
    *("WHERE FALSE", "USING SAMPLE 10", "FOR UPDATE", ";", "; SELECT 1", "UNION SELECT 1"),
)

AROUND = (
    *("SELECT COUNT(*) AS n FROM ({q}) AS t", "SELECT * FROM ({q}) AS t", "({q})"),
    *("WITH c AS ({q}) SELECT * FROM c", "WITH c AS ({q}) SELECT COUNT(*) FROM c, c AS d"),
    *("{q} UNION ALL {p}", "{q} EXCEPT {p}", "({q}) INTERSECT ({p}) ORDER BY 1"),
    *("SELECT status FROM orders WHERE amount = ({q})", "SELECT ({q}) AS a, ({p}) AS b"),
    *("SELECT SUM(amount) FROM orders WHERE quantity IN ({q})", "EXPLAIN PRIVACY {q}"),
    *("SELECT COUNT(*) FROM orders AS o WHERE EXISTS ({q})", "SELECT DISTINCT * FROM ({q}) AS t"),
    *(
        "SELECT a.*, b.* FROM ({q}) AS a LEFT JOIN ({p}) AS b ON TRUE",
        "SELECT MAX(t) FROM ({q}) AS t",
    ),
    *("SELECT * FROM ({q}) AS a JOIN ({p}) AS b USING (status)", "SELECT *, ({p}) FROM ({q}) AS t"),
    *("SELECT COUNT(*), SUM(x) FROM ({q}) AS t(x)", "SELECT t.* EXCLUDE (n) FROM ({q}) AS t"),
    *("SELECT RANK() OVER (ORDER BY x), STDDEV(x) FROM ({q}) AS t(x)", "SELECT AVG(({q}))"),
    *("SELECT customer_id, COUNT(*) FROM ({q}) AS t GROUP BY customer_id", "SELECT {q}"),
)
"""What is written around a query, or around two of them."""

OPTIONS = (
    *("epsilon = 0.5", "epsilon = 1e-30", "epsilon = 0", "max_error = '5%'", "max_error = 1e-9"),
    *("max_error = 100, confidence = 0.9", "mechanism = 'laplace'", "mechanism = 'gaussian'"),
    *("min_privacy_units_per_group = 5", "nonnegative = true", "mechanism = 'sparse_vector'"),
    *("epsilon = 99999999", "mechanism = ''", "confidence = 0.5", "max_error = 1e99"),
)


@cache
def _bases() -> tuple[str, ...]:
    return tuple(case.sql.strip().rstrip(";") for case in casefile.all_cases())


@cache
def _words() -> tuple[str, ...]:
    """Every word and sign of the cases, once."""
    pieces = (piece for sql in _bases() for piece in _PIECE.findall(sql))
    return tuple(dict.fromkeys(piece for piece in pieces if not piece.isspace()))


CALLED = tuple(sorted({*names(), *OTHER_AGGREGATES, *scalars(), *WINDOWS}))


def _another(dice: Dice, pieces: list[str]) -> None:
    pieces[dice.number(len(pieces) - 1)] = dice.pick(_words())


def _odd(dice: Dice, pieces: list[str]) -> None:
    """A constant, or a name that is no name of a table or of a column, becomes an odd constant."""
    values = _matching(pieces, r"\d[\w.]*|'.*'|[a-z_.]+", otherwise=False)
    named = [n for n in values if n > 1 and pieces[n - 2].upper() in _BEFORE_NAMES]
    called = [n for n in values if n + 1 < len(pieces) and pieces[n + 1] == "("]
    places = [n for n in values if n not in named and n not in called]
    pieces[dice.pick(places or [0])] = dice.pick(ODD)


def _call(dice: Dice, pieces: list[str]) -> None:
    """Another function is called."""
    before = [n for n, (a, b) in enumerate(pairwise(pieces)) if b == "("]
    names = [n for n in before if pieces[n].isidentifier()] or [0]
    pieces[dice.pick(names)] = dice.pick(CALLED)


def _dropped(dice: Dice, pieces: list[str]) -> None:
    start = dice.number(len(pieces) - 1)
    del pieces[start : start + 1 + dice.number(4)]


def _repeated(dice: Dice, pieces: list[str]) -> None:
    start = dice.number(len(pieces) - 1)
    pieces[start:start] = pieces[start : start + 1 + dice.number(9)]


def _swapped(dice: Dice, pieces: list[str]) -> None:
    a, b = dice.number(len(pieces) - 1), dice.number(len(pieces) - 1)
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _spliced(dice: Dice, pieces: list[str]) -> None:
    """Parentheses hold what those of another case hold."""
    others = _PIECE.findall(dice.pick(_bases()))
    mine, theirs = _parenthesised(dice, pieces), _parenthesised(dice, others)
    pieces[mine] = others[theirs]


def _filtered(dice: Dice, pieces: list[str]) -> None:
    """WHERE says one thing more."""
    condition = _condition(dice, pieces)
    start = dice.pick(_matching(pieces, "FROM"))
    end = _clause_end(pieces, start)
    where = [n for n in range(start, end) if pieces[n] == "WHERE"]
    if where:
        pieces[where[-1]] = f"WHERE {condition} {dice.pick(('AND', 'AND', 'OR', 'AND NOT'))}"
    else:
        pieces.insert(end, f" WHERE {condition} ")


def _clause_end(pieces: Sequence[str], start: int) -> int:
    """Where the FROM or GROUP BY at `start`, and a WHERE behind it, ends."""
    depth = 0
    for n in range(start + 1, len(pieces)):
        depth += (pieces[n] == "(") - (pieces[n] == ")")
        if depth < 0 or (depth == 0 and pieces[n] in _ENDING):
            return n
    return len(pieces)


def _condition(dice: Dice, pieces: Sequence[str]) -> str:
    tables = [table for table in TABLES if table in pieces] or ["orders"]
    table = dice.pick(tables)
    name, kind = dice.pick(TABLES[table].replace("+", "").split()).split(":")
    x, y = (dice.pick(LITERALS[kind]) for _ in range(2))
    return dice.pick(COMPARISONS).format(c=name, t=table, x=x, y=y)


def _grouped(dice: Dice, pieces: list[str]) -> None:
    """GROUP BY says another thing."""
    keys = dice.pick(GROUPS)
    places = _matching(pieces, "GROUP", otherwise=False)
    if not places:
        pieces.append(f" GROUP BY {keys}")
        return
    place = dice.pick(places)
    pieces[place : _clause_end(pieces, place)] = [f"GROUP BY {keys} "]


_BEFORE_NAMES = frozenset({"AS", "FROM", "JOIN", "WITH", "UPDATE"})
_ENDING = frozenset("GROUP ORDER HAVING LIMIT UNION QUALIFY FETCH EXCEPT INTERSECT".split())


def _ended(dice: Dice, pieces: list[str]) -> None:
    pieces.append(f" {dice.pick(ENDS)}")


def _optional(dice: Dice, pieces: list[str]) -> None:
    """The first SELECT has OPTIONS."""
    if pieces[0] == "SELECT":
        pieces[0] = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({dice.pick(OPTIONS)})"


def _matching(pieces: Sequence[str], pattern: str, *, otherwise: bool = True) -> list[int]:
    found = [n for n, piece in enumerate(pieces) if re.fullmatch(pattern, piece)]
    return found or ([0] if otherwise else [])


def _parenthesised(dice: Dice, pieces: Sequence[str]) -> slice:
    """What a pair of parentheses holds; all where there is none."""
    opened: list[int] = []
    pairs: list[slice] = []
    for n, piece in enumerate(pieces):
        if piece == "(":
            opened.append(n + 1)
        elif piece == ")" and opened:
            pairs.append(slice(opened.pop(), n))
    return dice.pick(pairs or [slice(0, len(pieces))])


CHANGES: tuple[Callable[[Dice, list[str]], None], ...] = (
    *(_filtered, _odd, _filtered, _grouped, _spliced, _call, _ended, _optional, _filtered, _odd),
    *(_filtered, _grouped, _call, _another, _filtered, _dropped, _odd, _repeated, _swapped),
)


def text(drawn: bytes) -> str:
    """The text that these bytes choose; about half of them are SQL."""
    dice = Dice(drawn)
    sql = _base(dice, drawn)
    for _ in range(dice.pick((0, 1, 1, 1, 2))):
        pieces = _PIECE.findall(sql) or ["SELECT"]
        dice.pick(CHANGES)(dice, pieces)
        sql = "".join(pieces)
    for _ in range(dice.pick((0, 0, 0, 0, 1, 1, 2))):
        sql = dice.pick(AROUND).replace("{q}", sql).replace("{p}", dice.pick(_bases()))
    return sql


def _base(dice: Dice, drawn: bytes) -> str:
    """A case, or a random query of the accepted language."""
    match dice.number(3):
        case 0:
            return query(drawn[1:])
        case 1:
            return swayed_query(drawn[1:])
        case _:
            return dice.pick(_bases())


TEXTS = BYTES.map(text)
"""Random texts."""
