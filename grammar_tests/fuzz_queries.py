"""Random queries of the accepted language, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grammar_tests.fuzz_conditions import condition
from grammar_tests.fuzz_dice import BYTES, Dice, filled
from grammar_tests.fuzz_measures import ends, ranked, swayed
from grammar_tests.fuzz_sources import Source, source
from grammar_tests.fuzz_terms import Column, term

LINEAR = ("({m} * 2)", "({m} + 1)", "({m} / 4)")
"""What is done with an aggregate that may be NULL: a number of ours is a number again."""

KEYS = ("text", "bool", "int", "date", "ts", "dec", "dbl")


SETS = (
    "ROLLUP ({0})",
    "CUBE ({0})",
    "GROUPING SETS (({0}), ())",
    "GROUPING SETS (({0}), ({1}))",
    "{1}, ROLLUP ({0})",
)
"""Groupings of several levels: of all keys, and of the first."""

PERIODS = (
    ("ts", "DATE_TRUNC('month', {ts})"),
    ("ts", "DATE_TRUNC('week', {date})"),
    ("int", "EXTRACT(year FROM {ts})"),
    ("int", "HOUR({ts})"),
    ("int", "({int} // 10)"),
    ("dbl", "(FLOOR({amount} / 10) * 10)"),
    ("bool", "({amount} > 10)"),
    ("date", "CAST({ts} AS DATE)"),
    ("text", "CASE WHEN {amount} < 20 THEN 'low' WHEN {amount} < 100 THEN 'mid' END"),
    ("text", "UPPER({text})"),
    ("text", "COALESCE({text}, 'none')"),
    ("int", "CAST({amount} AS INTEGER)"),
)
"""Keys as people write them, each with its kind."""


@dataclass(frozen=True, slots=True)
class Released:
    """A query whose rows are released.

    `solid` are output columns that are equal with and without noise, NULLs included: keys, and
    aggregates that are over something in every group. `others` may be NULL where ours are numbers.
    `unique` says that `keys` tell its rows apart.
    """

    text: str
    keys: tuple[Column, ...]
    solid: tuple[Column, ...]
    others: tuple[Column, ...] = ()
    unique: bool = True
    ctes: tuple[str, ...] = ()

    def written(self) -> str:
        """The query with its WITH clause."""
        return f"WITH {', '.join(self.ctes)} {self.text}" if self.ctes else self.text

    @property
    def order(self) -> str:
        """An ORDER BY list that is total where `unique` holds."""
        return ", ".join(c.text for c in self.keys)


@dataclass(frozen=True, slots=True)
class Measured:
    """An aggregate as text; `solid` as in `Released`."""

    text: str
    kind: str
    solid: bool


SHAPES = (
    *("rows", "rows", "sum", "sum", "solid", "avg", "count", "if", "units", "distinct"),
    *("rank", "once"),
)


def _measure(dice: Dice, rows: Source, *, grouped: bool) -> Measured:
    """One aggregate, with FILTER now and then."""
    scope = rows.scope
    shape = dice.pick(SHAPES)
    kept = ""
    if dice.chance(20):
        kept = f" FILTER (WHERE {condition(dice, scope, 2)})"
    amount = term(dice, "amount", scope, 2)
    match shape:
        case "rows":
            return Measured(f"COUNT(*){kept}", "int", solid=True)
        case "units" if rows.unit is not None:
            return Measured(f"COUNT(DISTINCT {rows.unit}){kept}", "int", solid=True)
        case "count" | "units":
            kind = dice.pick(KEYS)
            return Measured(f"COUNT({term(dice, kind, scope, 2)}){kept}", "int", solid=True)
        case "distinct":
            values = term(dice, dice.pick(KEYS), scope, 2)
            return Measured(f"COUNT(DISTINCT {values}){kept}", "int", solid=True)
        case "if":
            # Of no row, or of NULLs alone, it is NULL in DuckDB.
            inner = term(dice, "bool", scope, 2)
            return Measured(f"COUNT_IF({inner}){kept}", "int", solid=False)
        case "rank":
            return Measured(f"{ranked(dice, scope)}{kept}", "int", solid=False)
        case "once":
            name = dice.pick(("SUM", "AVG", "VAR_POP"))
            return Measured(f"{name}(DISTINCT {amount}){kept}", "dbl", solid=False)
        case "solid":
            whole = [c.text for c in scope if c.kind == "int" and c.bounded]
            inner = f"COALESCE({dice.pick(whole)}, 0)" if whole else "1"
            return Measured(f"SUM({inner}){kept}", "int", grouped and not kept)
        case _:
            name = dice.pick(("SUM", "sum")) if shape == "sum" else dice.pick(("AVG", "MEAN"))
            return Measured(f"{name}({amount}){kept}", "dbl", solid=False)


def aggregated(dice: Dice) -> Released:
    """SELECT keys, aggregates FROM private rows GROUP BY keys."""
    rows = source(dice)
    conditions = list(rows.conditions)
    if dice.chance(40):
        conditions.append(condition(dice, rows.scope, 3, rows.unit))
    keys = [_key(dice, rows.scope) for _ in range(dice.pick((0, 1, 1, 2)))]
    measures = [_measure(dice, rows, grouped=bool(keys)) for _ in range(dice.pick((1, 1, 2, 3)))]
    named = {key.text for key in keys if "." in key.text}
    # DuckDB answers otherwise where a constant or a repeated key is part of a grouping.
    told_apart = keys and len(named) == len(keys)
    sets = dice.pick(SETS) if told_apart and dice.chance(8) else ""
    if sets:  # the total of no row at all is NULL
        measures = [m if m.text.startswith("COUNT") else replace(m, solid=False) for m in measures]
    inner = [*keys, *(Column(m.text, m.kind) for m in measures if m.solid)]
    result = _selected(dice, keys, measures, [] if sets else inner)
    text = f"{result.text} FROM {rows.text}"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if sets:
        listed = ", ".join(key.text for key in keys)
        text += f" GROUP BY {sets.format(listed, keys[0].text)}"
        return replace(result, text=text, ctes=rows.ctes, unique=False)
    text += _group_by(dice, keys)
    if inner and dice.chance(25):
        text += f" HAVING {term(dice, 'bool', inner, 2)}"
    return _ordered(dice, replace(result, text=text, ctes=rows.ctes))


def _selected(
    dice: Dice, keys: Sequence[Column], measures: Sequence[Measured], inner: Sequence[Column]
) -> Released:
    """SELECT keys, aggregates and what is computed from them: the query up to its FROM."""
    named = tuple(Column(f"k{n}", key.kind) for n, key in enumerate(keys))
    items = [f"{key.text} AS k{n}" for n, key in enumerate(keys)]
    solid, others = list(named), list[Column]()
    for n, measure in enumerate(measures):
        linear = dice.pick(LINEAR) if not measure.solid and dice.chance(20) else "{m}"
        items.append(f"{linear.replace('{m}', measure.text)} AS m{n}")
        (solid if measure.solid else others).append(Column(f"m{n}", measure.kind))
    for n in range(dice.pick((0, 0, 1))):
        kind = dice.pick(("int", "text", "bool", "dec"))
        items.append(f"{term(dice, kind, inner, 2)} AS p{n}")
        solid.append(Column(f"p{n}", kind))
    return Released(f"SELECT {', '.join(items)}", named, tuple(solid), tuple(others))


def _key(dice: Dice, scope: Sequence[Column]) -> Column:
    """A group key: mostly a plain column or a small expression."""
    listed = [c for c in scope if c.kind in ("text", "bool", "date") and not c.bounded]
    if listed and not dice.chance(50):
        return dice.pick(listed)
    named = [c for c in scope if not c.text.endswith("_id")]
    if dice.chance(50):
        kind, template = dice.pick(PERIODS)
        return Column(filled(template, lambda word: term(dice, word, named, 0)), kind)
    kind = dice.pick(KEYS)
    return Column(term(dice, kind, named, 2), kind)


def _group_by(dice: Dice, keys: Sequence[Column]) -> str:
    """GROUP BY by expression, by alias or by ordinal; constants only by ordinal."""
    if not keys:
        return ""
    listed = [
        dice.pick((f"{n + 1}", f"k{n}", key.text)) if "." in key.text else f"{n + 1}"
        for n, key in enumerate(keys)
    ]
    return f" GROUP BY {', '.join(listed)}"


def _ordered(dice: Dice, query: Released) -> Released:
    """The query with ORDER BY, and LIMIT where the order is total."""
    if not (query.keys and query.unique and dice.chance(25)):
        return query
    words = [
        c.text + dice.pick(("", " DESC", " NULLS FIRST", " DESC NULLS LAST")) for c in query.keys
    ]
    text = f"{query.text} ORDER BY {', '.join(words)}"
    if dice.chance(50):
        text += f" LIMIT {dice.pick((10, 3, 2, 1, 0))}"
        if dice.chance(30):
            text += f" OFFSET {dice.number(2)}"
    return replace(query, text=text)


WINDOWS = (
    "COUNT(*) OVER ()",
    "ROW_NUMBER() OVER (ORDER BY {order})",
    "RANK() OVER (ORDER BY {int} DESC)",
    "DENSE_RANK() OVER (ORDER BY {text})",
    "SUM({int}) OVER (ORDER BY {order})",
    "SUM({int}) OVER (PARTITION BY {bool})",
    "MAX({int}) OVER (PARTITION BY {text} ORDER BY {order} ROWS 1 PRECEDING)",
    "COUNT({text}) OVER (ORDER BY {order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "LAG({int}) OVER (ORDER BY {order})",
    "LEAD({int}, 2) OVER (ORDER BY {order})",
    "FIRST_VALUE({int}) OVER (PARTITION BY {bool} ORDER BY {order})",
    "NTILE(2) OVER (ORDER BY {order})",
)
"""Windows over results; `order` is a total order of the rows."""

SUMMARIES = ("COUNT(*)", "MAX({int})", "SUM({int})", "MIN({text})", "AVG({int})", "COUNT({bool})")


def outer(dice: Dice, inner: Released) -> Released:
    """A SELECT over results: everything there is free."""
    scope = [replace(c, text=f"r.{c.text}") for c in inner.solid]

    def fill(word: str) -> str:
        return _qualified(inner) if word == "order" else term(dice, word, scope, 1)

    where = f" WHERE {term(dice, 'bool', scope, 2)}" if dice.chance(30) else ""
    from_ = f"FROM ({inner.written()}) AS r{where}"
    shape = dice.pick(("star", "items", "windows", "windows", "grouped", "distinct"))
    if shape == "star":
        return _ordered(dice, replace(inner, text=f"SELECT * {from_}", ctes=()))
    kinds = [dice.pick(("int", "text", "bool", "dec", "date")) for _ in range(dice.pick((1, 2)))]
    terms = [term(dice, kind, scope, 2) for kind in kinds]
    new = tuple(Column(f"a{n}", kind) for n, kind in enumerate(kinds))
    computed = [f"{text} AS a{n}" for n, text in enumerate(terms)]
    if shape == "distinct":
        return Released(f"SELECT DISTINCT {', '.join(computed)} {from_}", new, new)
    if shape == "grouped":
        summary = filled(dice.pick(SUMMARIES), fill)
        group = ", ".join(str(n + 1) for n in range(len(new)))
        text = f"SELECT {', '.join(computed)}, {summary} AS s {from_} GROUP BY {group}"
        return _ordered(dice, Released(text, new, new))
    passed = [f"r.{c.text}" for c in (*inner.keys, *inner.others)]
    if shape == "windows" and inner.keys and inner.unique:
        computed.append(f"{filled(dice.pick(WINDOWS), fill)} AS w")
    text = f"SELECT {', '.join([*passed, *computed])} {from_}"
    return _ordered(dice, replace(inner, text=text, solid=(*inner.keys, *new), ctes=()))


def _qualified(inner: Released) -> str:
    return ", ".join(f"r.{c.text}" for c in inner.keys)


def combined(dice: Dice, left: Released, right: Released) -> Released:
    """A set operation or a join of two results."""
    shape = dice.pick(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "JOIN", "LEFT JOIN"))
    if "JOIN" not in shape:
        kind = dice.pick(("int", "text"))
        sides = (
            f"SELECT {term(dice, kind, [replace(c, text=f'r.{c.text}') for c in side.solid], 1)}"
            f" AS a FROM ({side.written()}) AS r"
            for side in (left, right)
        )
        new = (Column("a", kind),)
        return Released(f" {shape} ".join(sides), new, new, unique=False)
    shared = [(a, b) for a in left.keys for b in right.keys if a.kind == b.kind]
    on = "TRUE" if not shared else "x.{} = y.{}".format(*(c.text for c in dice.pick(shared)))
    ones = tuple(replace(c, text=f"x.{c.text}") for c in left.solid)
    others = tuple(replace(c, text=f"y.{c.text}") for c in right.solid)
    kept = (*ones, *others)
    items = ", ".join(f"{c.text} AS j{n}" for n, c in enumerate(kept))
    text = f"SELECT {items} FROM ({left.written()}) AS x {shape} ({right.written()}) AS y ON {on}"
    named = tuple(replace(c, text=f"j{n}") for n, c in enumerate(kept))
    return Released(text, named, named, unique=False)


def query(source: bytes) -> str:
    """The query that these bytes choose; most of them ought to be accepted."""
    dice = Dice(source)
    result = aggregated(dice)
    if dice.chance(8):
        result = combined(dice, result, aggregated(dice))
    for _ in range(dice.pick((0, 0, 1, 1, 2))):
        result = outer(dice, result)
    return result.written()


def swayed_query(drawn: bytes) -> str:
    """A query of aggregates that law 2 is about and law 1 is not."""
    dice = Dice(drawn)
    rows = source(dice)
    keys = [_key(dice, rows.scope) for _ in range(dice.pick((0, 1, 1, 2)))]
    first = _measure(dice, rows, grouped=bool(keys)).text
    measures = [f"{first} AS m0", f"{swayed(dice, rows.scope)} AS m1"][: 1 + dice.pick((1, 1, 0))]
    conditions = [*rows.conditions, *([condition(dice, rows.scope, 2)] * dice.chance(30))]
    text = ", ".join([*(f"{key.text} AS k{n}" for n, key in enumerate(keys)), *measures])
    text = f"SELECT {text} FROM {rows.text}"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    named = [Column(f"k{n}", key.kind) for n, key in enumerate(keys)]
    text += _group_by(dice, keys) + ends(dice, named, ["m0"])
    return f"WITH {', '.join(rows.ctes)} {text}" if rows.ctes else text


QUERIES = BYTES.map(query)
"""Random queries."""

SWAYED = BYTES.map(swayed_query)
"""Random queries of choices, samples, tests and moments."""
