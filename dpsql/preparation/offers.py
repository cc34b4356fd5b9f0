"""offers: for a refused text, a similar one that is accepted, and how it differs.

A maker yields candidates for one reason. A candidate is offered only if it compiles under the
asker's rights, which reads the policy, public data and recorded facts alone, and is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from time import monotonic, thread_time

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Offer, Reason, Refused
from dpsql.model.periods import condition_within
from dpsql.model.tree import Kind, Span, identifier
from dpsql.model.vocabulary import ColumnPolicy, Policy, Request
from dpsql.preparation import written_groups, written_selects
from dpsql.preparation.written_series import with_constant_series

SECONDS = 0.25
"""Longest time to look for an offer, in seconds of work: other programs do not count.

The first query of a process needs about a third of it, as its modules are loaded.
"""
_LONGEST = 4_000
_TRIED = 16
_STEPS = 3
_BARE = re.compile(r"[A-Za-z_]\w*|\d+")
_COLUMN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


@dataclass(frozen=True, slots=True)
class RefusedText:
    """A text, its refusal, and the policy."""

    text: str
    refused: Refused
    policy: Policy

    @property
    def span(self) -> Span:
        return self.refused.span

    @property
    def shown(self) -> str:
        """Refused part of the text."""
        return self.text[self.span.start : self.span.stop]

    def fact(self, name: str) -> str:
        """Return a fact of the refusal; empty if there is none."""
        return str(self.refused.facts.get(name) or "")

    @property
    def selects(self) -> tuple[written_selects.WrittenSelect, ...]:
        """SELECTs around the refused place, the innermost first."""
        return tuple(written_selects.enclosing(self.text, self.span.start))

    def columns(self, name: str) -> list[ColumnPolicy]:
        """Return the columns with a name in the tables that the text names."""
        named = {word.value for word in words(self.text)}
        tables = (table for table in self.policy.tables if table.name.lower() in named)
        return [column for table in tables if (column := table.column(name))]


def work_clock() -> Callable[[], float]:
    """Return a clock of the work of this thread. Waiting, as for an engine, counts a tenth."""
    worked, since = thread_time(), monotonic()
    return lambda: max(thread_time() - worked, (monotonic() - since) / 10)


Maker = Callable[[RefusedText], Iterator[Offer]]


def find_offer(
    request: Request, refused: Refused, policy: Policy, require: Callable[[Request], object]
) -> Offer | None:
    """Return the first candidate that `require` accepts; it raises `Refused` for others.

    A refused candidate is the base of others, up to three changes. Long texts get no offer.
    """
    if len(request.sql) > _LONGEST:
        return None
    bases, tried = [(Offer(request.sql, ()), refused)], {request.sql}
    for _ in range(_STEPS):
        further = []
        for base, refusal in bases:
            for offer in _candidates(RefusedText(base.sql, refusal, policy)):
                if offer.sql in tried or len(tried) > _TRIED:
                    continue
                tried.add(offer.sql)
                changes = dict.fromkeys((*base.changes, *offer.changes))
                whole = replace(offer, changes=tuple(changes))
                try:
                    require(replace(request, sql=offer.sql))
                except Refused as again:
                    further.append((whole, again))
                else:
                    return whole
        bases = further
    return None


def _offer(text: str, change: str) -> Offer:
    return Offer(text, (change,))


def _candidates(case: RefusedText) -> Iterator[Offer]:
    for maker in MAKERS.get(case.refused.reason, ()):
        with suppress(Refused, ValueError, IndexError):
            yield from maker(case)


# --- names


def _nearest_name(case: RefusedText) -> Iterator[Offer]:
    """Replace an unknown name by the near one, or an unknown qualifier by the one that is meant."""
    near, alias = case.fact("near"), case.fact("alias")
    sources = case.refused.facts.get("sources")
    parts = [w for w in words(case.shown) if w.kind in (WordKind.NAME, WordKind.QUOTED)]
    qualifier = bool(case.fact("qualifier"))
    if qualifier and isinstance(sources, tuple) and len(sources) == 1:
        near = str(sources[0])
    new = alias if qualifier and alias else near
    if not new or not parts:
        return
    called = case.refused.reason is Reason.UNKNOWN_FUNCTION
    old = parts[0] if qualifier or called else parts[-1]
    span = Span(case.span.start + old.start, case.span.start + old.stop)
    written = new if _BARE.fullmatch(new) else identifier(new)
    text = case.text[: span.start] + written + case.text[span.stop :]
    yield _offer(text, f"{written} instead of {old.text}")


def _qualify(case: RefusedText) -> Iterator[Offer]:
    """Name the table of a column that several have; the first is tried first."""
    column = case.fact("column")
    for alias, table in _table_names(case, case.selects[0]):
        if case.shown.strip('"').lower() == column.lower() and table in _tables_with(case, column):
            text = case.text[: case.span.start] + f"{alias}." + case.text[case.span.start :]
            yield _offer(text, f"{alias}.{column} instead of {column}")


# --- rows and groups


def _aggregate_rows(case: RefusedText) -> Iterator[Offer]:
    """Count the rows that the outermost SELECTs would return, by their listed columns."""
    for select in reversed(case.selects):
        keys, numbers = [], []
        for item in select.items:
            column = select.text[item.start : item.stop]
            columns = case.columns(column.rpartition(".")[2].strip('"'))
            if columns and all(
                (each.values is not None or each.type.kind is Kind.BOOLEAN) for each in columns
            ):
                keys.append(column)
            elif columns and all(each.bounds and each.type.is_numeric for each in columns):
                numbers.append(column)
        plain = select.drop("group", "having", "qualify", "order", "limit", "offset", "fetch")
        whole = Span(plain.words[plain.first + 1].start, plain.items[-1].stop)
        names = {column: column.rpartition(".")[2] for column in numbers}
        shown = [*keys, *(f"AVG({column}) AS {name}" for column, name in names.items())]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        at = Span(plain.insertion("group"), plain.insertion("group"))
        says = f"counts rows by {', '.join(keys)}" if keys else "counts rows"
        if shown:
            averages = f" and averages {', '.join(names.values())}" if numbers else ""
            counted = ", ".join([*shown, "COUNT(*) AS n"])
            yield _offer(plain.edit((whole, counted), (at, grouped)).sql, says + averages)
        yield _offer(plain.edit((whole, "COUNT(*) AS n")).sql, "counts rows")


def _add_key(case: RefusedText) -> Iterator[Offer]:
    """Add the column that is not grouped to GROUP BY."""
    select, column = case.selects[0], case.shown
    if "*" in column or "(" in column:
        return
    body, at = select.body("group"), select.insertion("group")
    edit = (Span(at, at), f" GROUP BY {column}")
    if body is not None:
        edit = (Span(body.stop, body.stop), f", {column}")
    yield _offer(select.edit(edit).sql, f"also groups by {column}")


def _average_units(case: RefusedText) -> Iterator[Offer]:
    """Average over the units what the text would say of each."""
    select = case.selects[-1]
    inner = select.drop("order", "limit", "offset", "fetch")
    values, edits = [], []
    for number, item in enumerate(inner.items, 1):
        parts = [w for w in inner.words if item.start <= w.start < item.stop]
        if len(parts) <= 1 or parts[1].text != "(":
            continue
        name = parts[-1].text if parts[-2].value == "as" else f"n{number}"
        if parts[-2].value != "as":
            edits.append((Span(item.stop, item.stop), f" AS {name}"))
        values.append(name)
    if not values:
        return
    named = inner.edit(*edits)
    start, stop = named.words[named.first].start, named.words[named.after - 1].stop
    averages = ", ".join(f"AVG({name}) AS {name}" for name in values)
    text = f"SELECT {averages} FROM ({named.text[start:stop]}) AS t"
    words_of = case.policy.unit.table
    yield _offer(named.text[:start] + text + named.text[stop:], f"averages over {words_of}")


# --- parts that are left out


def _without_item(case: RefusedText) -> Iterator[Offer]:
    """Leave out the items of the SELECT list that have the refused part, and their keys."""
    for select in case.selects:
        out = [i for i in select.items if i.start <= case.span.start < i.stop]
        keys = select.divided("group", ",")
        shown = {case.shown, *(select.text[i.start : i.stop] for i in out)}
        gone = [k for k in keys if select.text[k.start : k.stop] in shown]
        rest = [i for i in select.items if i not in out]
        orders = select.divided("order", ",")
        ordered = [o for o in orders if o.start <= case.span.start < o.stop]
        if not (out or gone or ordered) or not rest:
            continue
        edits = [(Span(select.items[0].start, select.items[-1].stop), _joined(select, rest))]
        for places, left_out, clause in ((keys, gone, "group"), (orders, ordered, "order")):
            others, place = [p for p in places if p not in left_out], select.place(clause)
            if left_out and place is not None:
                start = places[0].start if others else place.start
                edits.append((Span(start, places[-1].stop), _joined(select, others)))
        left = (*out, *gone, *ordered)[0]
        yield _offer(select.edit(*edits).sql, f"leaves out {select.text[left.start : left.stop]}")


def _joined(select: written_selects.WrittenSelect, parts: list[Span]) -> str:
    return ", ".join(select.text[part.start : part.stop] for part in parts)


def _without_condition(case: RefusedText) -> Iterator[Offer]:
    """Leave out the condition of WHERE that has the refused part."""
    select = case.selects[0]
    conditions = select.divided("where", "and")
    out = [c for c in conditions if c.start <= case.span.start < c.stop]
    if not out or re.search(r"\b(or|between)\b", select.shown("where"), re.IGNORECASE):
        return
    rest = [c for c in conditions if c not in out]
    said = f"leaves out {select.text[out[0].start : out[0].stop]}"
    if not rest:
        yield _offer(select.drop("where").sql, said)
        return
    body = Span(conditions[0].start, conditions[-1].stop)
    other = " AND ".join(select.text[part.start : part.stop] for part in rest)
    yield _offer(select.edit((body, other)).sql, said)


def _without_limit(case: RefusedText) -> Iterator[Offer]:
    """Leave out the LIMIT of private rows."""
    if "LIMIT" not in case.fact("construct"):
        return
    for select in case.selects:
        out = [clause for clause in ("order", "limit", "offset", "fetch") if clause in select.heads]
        if out:
            yield _offer(select.drop(*out).sql, f"leaves out {', '.join(out).upper()}")


def _count_instead(case: RefusedText) -> Iterator[Offer]:
    """Count the values that cannot be aggregated, in the call around the refused part."""
    every = tuple(words(case.text))
    opening, close = written_selects.call_around(every, case.span.start)
    if every[opening].text != "(" or every[opening - 1].kind is not WordKind.NAME:
        return
    commas = (w.start for w in every[opening:close] if w.text == ",")
    end = min(commas, default=every[close].start)
    name, inside = every[opening - 1], case.text[every[opening].stop : end]
    if "(" in inside and end < every[close].start:
        return
    start, stop = name.start, every[close].stop
    hidden = case.refused.reason is Reason.HIDDEN_COLUMN
    new = f"COUNT({'*' if hidden else inside})"
    text = case.text[:start] + new + case.text[stop:]
    yield _offer(text, f"{new} instead of {case.text[start:stop]}")


def _apart_from_released(case: RefusedText) -> Iterator[Offer]:
    """Subtract a released number, which has no bounds, from the aggregate of the other values."""
    select = case.selects[0]
    opening, close = written_selects.call_around(select.words, case.span.start)
    name = select.words[opening - 1]
    sides = (case.text[s.start : s.stop] for s in select.parts(opening + 1, close, "-"))
    value, number = sides  # ValueError: another expression than a difference
    if name.value not in ("sum", "avg") or not _COLUMN.fullmatch(number):
        return
    whole = f"{name.text}({value})"
    times = f"COUNT({value}) * " if name.value == "sum" else ""
    if rows := select.subquery(number.partition(".")[0]):
        call = Span(name.start, select.words[close].stop)
        one = f"(SELECT {number} FROM {rows})"
        edited = select.edit((call, f"({whole} - {times}{one})"))
        yield _offer(edited.sql, f"subtracts {number} behind {whole}")


def _count_by_value(case: RefusedText) -> Iterator[Offer]:
    """Count rows by value instead of taking the most frequent or a list of all, the last item."""
    select = case.selects[0]
    opening, close = written_selects.call_around(select.words, case.span.start)
    name, item = select.words[opening - 1], select.items[-1]
    inside = case.text[select.words[opening].stop : select.words[close].start]
    value = re.sub(r"^distinct\s+([\w.]+).*", r"\1", inside, flags=re.IGNORECASE | re.DOTALL)
    is_list = name.value == "mode" or value != inside
    if is_list and item.start == name.start and _COLUMN.fullmatch(value):
        edited = select.edit((item, f"{value}, COUNT(*) AS n"), select.grouping(value))
        yield _offer(edited.sql, f"counts rows by {value}")


# --- operators over private rows


def _partition_by_unit(case: RefusedText) -> Iterator[Offer]:
    """Add the unit's key to the partition of a window over several people's rows."""
    if "window" not in case.fact("construct"):
        return
    every = tuple(words(case.text))
    later = (n for n, w in enumerate(every) if w.start >= case.span.start)
    over = min(n for n in later if every[n].value == "over")
    key = case.policy.unit.key
    opening, inside = every[over + 1 : over + 3]
    if inside.value == "partition":
        at, new = every[over + 3].stop, f" {key},"
    else:
        at, new = opening.stop, f"PARTITION BY {key}{'' if inside.text == ')' else ' '}"
    text = case.text[:at] + new + case.text[at:]
    yield _offer(text, f"ranks or sums within each {key}")


def _groups_within_units(case: RefusedText) -> Iterator[Offer]:
    """Release the largest group alone, or group or count within each unit."""
    select, groups = case.selects[0], bool(case.refused.facts.get("groups"))
    if not groups and case.refused.reason is not Reason.UNBOUNDED_CONTRIBUTION:
        return
    if groups and (largest := written_groups.largest_group(select)):
        yield _offer(largest, "shows the largest group")
    for alias, name in _table_names(case, select):
        if key := written_groups.unit_column(case.policy, name):
            grouped = written_groups.with_unit_key(select, f"{alias}.{key}")
            if grouped and len(case.selects) > 1:
                yield _offer(grouped, f"has groups for each {key}")


def _ranks_of_values(case: RefusedText) -> Iterator[Offer]:
    """Leave rows without a value out of ranks by it, since NULL has no place in a quantile."""
    if "window" not in case.fact("construct"):
        return
    later = [word for word in words(case.text) if word.start >= case.span.start]
    over = min(n for n, word in enumerate(later) if word.value == "over")
    depth, value = 0, list[Word]()
    begun = False
    for word in later[over + 1 :]:
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if depth == 0 or (begun and depth == 1 and word.value in _ENDS_OF_KEYS):
            break
        if begun and word.value != "by":
            value.append(word)
        begun = begun or (depth == 1 and word.value == "order")
    if value:
        key = case.text[value[0].start : value[-1].stop]
        select = case.selects[0]
        clause = "having" if "group" in select.heads else "where"
        yield from _with_condition(select, f"{key} IS NOT NULL", clause)


def _shares_of_tiles(case: RefusedText) -> Iterator[Offer]:
    """Compare shares of the rows, in which equal values stay together, instead of tiles."""
    window = case.text[case.span.start : case.text.index(")", case.span.stop) + 1]
    if shares := written_groups.shares_of_tiles(window):
        text = case.text.replace(window, shares, 1)
        yield _offer(text, "CUME_DIST instead of NTILE: rows with equal values share a tile")


_ENDS_OF_KEYS = frozenset({"asc", "desc", "nulls", "rows", "range", "groups", ","})


def _same_unit(case: RefusedText) -> Iterator[Offer]:
    """Add that joined rows are of the same unit, unless the text says the opposite."""
    pair = case.refused.facts.get("pair")
    if not isinstance(pair, tuple) or not pair:
        return
    names = list(enumerate(_table_names(case, case.selects[0])))
    left, right = (
        [(n, alias) for n, (alias, table) in names if table in _tables_with(case, column)]
        for column in pair
    )
    for (first, one), (second, other) in product(left, reversed(right)):
        ends = f"{one}.{pair[0]}", f"{other}.{pair[1]}"
        if first < second and not written_selects.are_unequal(case.text, ends):
            yield from _with_condition(case.selects[0], " = ".join(ends))


def _with_condition(
    select: written_selects.WrittenSelect, condition: str, clause: str = "where"
) -> Iterator[Offer]:
    said = f"adds {condition}"
    body, at = select.body(clause), select.insertion(clause)
    if body is None:
        yield _offer(select.edit((Span(at, at), f" {clause.upper()} {condition}")).sql, said)
        return
    old = select.shown(clause)
    old = f"({old})" if re.search(r"\bor\b", old, re.IGNORECASE) else old
    yield _offer(select.edit((body, f"{old} AND {condition}")).sql, said)


def _without_periods(case: RefusedText) -> Iterator[Offer]:
    """Leave out the periods of people that cannot pay."""
    without = case.fact("without")
    if without:
        yield from _with_condition(case.selects[0], without)


def _one_period(case: RefusedText) -> Iterator[Offer]:
    """Ask about the rows of the last period that is over, in each table of FROM."""
    rule = case.policy.period
    if rule is None or "several periods" not in case.fact("construct"):
        return
    for select in case.selects:
        names = _table_names(case, select)
        columns = [(alias, rule.column(table)) for alias, table in names]
        conditions = [
            condition_within(rule, f"{alias}.{column}", rule.names[-2:][:1])
            for alias, column in columns
            if column is not None
        ]
        if conditions:
            yield from _with_condition(select, " AND ".join(conditions))


def _table_names(case: RefusedText, select: written_selects.WrittenSelect) -> list[tuple[str, str]]:
    """Return the names of the tables in FROM with what they are called there."""
    return select.sources(frozenset(table.name.lower() for table in case.policy.tables))


def _tables_with(case: RefusedText, column: str) -> set[str]:
    return {t.name.lower() for t in case.policy.tables if t.private and t.column(column)}


def _not_null(case: RefusedText) -> Iterator[Offer]:
    """Add the condition that a column of `same_unit` is not NULL."""
    if column := case.fact("absent"):
        yield from _with_condition(case.selects[0], f"{column} IS NOT NULL")


# --- types, places and statements


def _quote_number(case: RefusedText) -> Iterator[Offer]:
    """Write a number that is compared with a text as a text."""
    kinds = case.refused.facts.get("types")
    numbers = [w for w in words(case.shown) if w.kind is WordKind.NUMBER]
    if not isinstance(kinds, tuple) or "VARCHAR" not in map(str, kinds) or len(numbers) != 1:
        return
    start = case.span.start + numbers[0].start
    text = case.text[:start] + f"'{numbers[0].text}'" + case.text[start + len(numbers[0].text) :]
    yield _offer(text, f"writes {numbers[0].text} as a text")


def _quote_texts(case: RefusedText) -> Iterator[Offer]:
    """Write texts in double quotes, which name columns, in single quotes."""
    before, texts = "", list[Word]()
    for word in words(case.text):
        is_value = before in _BEFORE_VALUES or case.refused.reason is not Reason.UNKNOWN_COLUMN
        if word.kind is WordKind.QUOTED and is_value and not case.columns(word.value):
            texts.append(word)
        before = word.value
    text = case.text
    for word in reversed(texts):
        constant = "'" + word.value.replace("'", "''") + "'"
        text = text[: word.start] + constant + text[word.stop :]
    if texts:
        yield _offer(text, "writes texts in 'single quotes'")


_BEFORE_VALUES = frozenset("= <> != < <= > >= ( , in like ilike and between then else".split())


def _cast_side(case: RefusedText) -> Iterator[Offer]:
    """Cast one side of a comparison: beside a text to a text, else as the refusal says."""
    inside, types = tuple(words(case.shown)), case.refused.facts.get("types")
    at = [n for n, word in enumerate(inside) if word.text in _COMPARED]
    if len(at) != 1 or "(" in case.shown or not isinstance(types, tuple):
        return
    fix = re.fullmatch(r"CAST argument ([12]), as in CAST\(x AS (\w+)\)\.", case.fact("fix"))
    side, kind = (int(fix[1]), fix[2]) if fix else (0, "")
    if inside[at[0]].text in ("=", "<>", "!=") and "VARCHAR" in types:
        side, kind = 2 - types.index("VARCHAR"), "VARCHAR"
    if side:
        part = inside[: at[0]] if side == 1 else inside[at[0] + 1 :]
        start, stop = (case.span.start + place for place in (part[0].start, part[-1].stop))
        new = f"CAST({case.text[start:stop]} AS {kind})"
        yield _offer(case.text[:start] + new + case.text[stop:], f"compares {new}")


_COMPARED = frozenset("= <> != < <= > >=".split())


def _constant_series(case: RefusedText) -> Iterator[Offer]:
    """Generate a series between the bounds of a column, and keep the part that a row asks for."""
    limits = {c.name.lower(): c.bounds for t in case.policy.tables for c in t.columns if c.bounds}
    edited = with_constant_series(case.selects[0], case.span.start, limits)
    if edited is not None:
        for offer in _with_condition(edited.select, edited.condition):
            yield _offer(offer.sql, f"takes {edited.series} with {edited.condition}")


def _without_comma(case: RefusedText) -> Iterator[Offer]:
    """Leave out a comma before FROM."""
    commas = [w for w in words(case.text) if w.text == "," and w.start <= case.span.start]
    if "comma" in case.fact("why") and commas:
        text = case.text[: commas[-1].start] + case.text[commas[-1].stop :]
        yield _offer(text, "leaves out a comma")


def _to_having(case: RefusedText) -> Iterator[Offer]:
    """Move a condition with an aggregate from WHERE to HAVING."""
    select = case.selects[0]
    conditions = select.divided("where", "and")
    moved = [c for c in conditions if c.start <= case.span.start < c.stop]
    if not moved or re.search(r"\b(or|between)\b", select.shown("where"), re.IGNORECASE):
        return
    rest = " AND ".join(select.text[c.start : c.stop] for c in conditions if c not in moved)
    condition = select.text[moved[0].start : moved[0].stop]
    place = select.place("where")
    assert place is not None
    having, at = select.body("having"), select.insertion("having")
    edit = (Span(at, at), f" HAVING {condition}")
    if having is not None:
        edit = (Span(having.stop, having.stop), f" AND {condition}")
    where = (place, f"WHERE {rest}" if rest else "")
    yield _offer(select.edit(where, edit).sql, "HAVING instead of WHERE")


def _only_select(case: RefusedText) -> Iterator[Offer]:
    """Ask the query of a statement that would write."""
    every = tuple(words(case.text))
    start = min(w.start for w in every[1:] if w.value in ("select", "with"))
    text = case.text[start:].rstrip().rstrip(";")
    if ";" in case.text[: start + len(text)]:
        return
    yield _offer(text, "asks the query alone")


def _top(case: RefusedText) -> Iterator[Offer]:
    """Write TOP n as LIMIT n, and backticks as double quotes. Constants stay as they are."""
    if renamed := written_selects.without_backticks(case.text):
        yield _offer(renamed, 'writes names in "double quotes"')
    text, limit = written_selects.without_top(case.text)
    if limit:
        yield _offer(text, f"{limit} instead of TOP")


MAKERS: dict[Reason, tuple[Maker, ...]] = {
    Reason.UNKNOWN_TABLE: (_nearest_name,),
    Reason.UNKNOWN_COLUMN: (_quote_texts, _nearest_name, _without_item, _without_condition),
    Reason.AMBIGUOUS_COLUMN: (_qualify, _without_item),
    Reason.UNKNOWN_FUNCTION: (_top, _nearest_name, _without_item),
    Reason.RAW_ROWS: (_aggregate_rows,),
    Reason.NOT_GROUPED: (_add_key, _without_item),
    Reason.HIDDEN_COLUMN: (_count_instead, _without_item, _without_condition),
    Reason.UNBOUNDED_INPUT: (_apart_from_released, _count_instead, _without_item),
    Reason.TYPE_MISMATCH: (
        _quote_number,
        _cast_side,
        _count_instead,
        _without_item,
        _without_condition,
    ),
    Reason.UNSUPPORTED_AGGREGATE: (_count_by_value, _count_instead, _without_item),
    Reason.UNSUPPORTED_FUNCTION: (_without_item,),
    Reason.UNSUPPORTED_SYNTAX: (_constant_series, _top, _quote_texts, _without_item),
    Reason.SYNTAX: (_top, _without_comma, _quote_texts),
    Reason.UNSUPPORTED_STATEMENT: (_only_select,),
    Reason.MISPLACED_AGGREGATE: (_to_having,),
    Reason.UNEQUAL_UNITS: (_same_unit,),
    Reason.UNIT_KEY_EXPOSED: (_average_units, _without_item),
    Reason.PRIVATE_KEYS_NEED_DELTA: (_without_item,),
    Reason.UNBOUNDED_CONTRIBUTION: (_groups_within_units,),
    Reason.BUDGET_EXHAUSTED: (_without_periods,),
    Reason.UNSUPPORTED_PRIVATE_OPERATOR: (
        _one_period,
        _not_null,
        _groups_within_units,
        _ranks_of_values,
        _shares_of_tiles,
        _partition_by_unit,
        _without_limit,
        _without_item,
    ),
}
"""Makers of candidates by the reason of the refusal, the best first."""
