"""Owners of a schema's rows, guessed from keys, names and types: proposals, not facts.

Nothing here is trusted: the owner reads the drafted policy, and `dpsql check` compares it with the
data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.tree import Kind
from dpsql.policy import column_words as naming
from dpsql.policy.column_words import column_words, is_surrogate, words


@dataclass(frozen=True, slots=True)
class UnitColumns:
    """The unit: the key of a table of people, or the columns of tables with people as values."""

    columns: tuple[tuple[str, str], ...]
    has_table: bool

    @property
    def name(self) -> str:
        """Name of the unit for an owner.

        >>> UnitColumns((("users", "id"),), has_table=True).name
        'users.id'
        """
        table, column = self.columns[0]
        return f"{table}.{column}" if self.has_table or len(self.columns) == 1 else column

    def column(self, table: str) -> str | None:
        """Return the unit's column in a table; None if it has none."""
        return dict(self.columns).get(table)


@dataclass(frozen=True, slots=True)
class Routes:
    """The links of a table towards the unit. `links[0]` is the way; each further one may name
    another person. `beside` may lead there too, by its name alone. The columns of `same` lead to
    the same unit by another path.
    """

    links: tuple[ForeignKey, ...]
    beside: tuple[ForeignKey, ...] = ()
    same: tuple[ForeignKey, ...] = ()


def key_of(table: SchemaTable) -> tuple[str, ...]:
    """Return the declared key, or the column that is named like a key of the table.

    >>> from dpsql.model.tree import INTEGER
    >>> columns = tuple(SchemaColumn(name, INTEGER, "INTEGER") for name in ("order_id", "day"))
    >>> key_of(SchemaTable("orders", columns)), key_of(SchemaTable("visits", columns))
    (('order_id',), ())
    """
    if table.primary_key:
        return table.primary_key
    own = naming.table_words(table)
    names = [column_words(table, column.name) for column in table.columns]
    if len(names) > 1 and all(map(naming.names_rows, names)):  # pairs of what has a table elsewhere
        return ()
    for column, name in zip(table.columns, names, strict=True):
        alone = len(name) == 1 or name[:-1] in (own, own[-1:])
        first = column is table.columns[0] or name[-1] not in naming.WEAK_ROW_WORDS
        if _can_identify(column) and naming.names_rows(name) and alone and first:
            return (column.name,)
    return ()


def unit_called(schema: Schema, name: str) -> UnitColumns | None:
    """Return the unit that an owner names by a table, a column, or both; None if there is none.

    A column that is not a key of its table is the unit in all tables with a column of its name and
    type.
    """
    table = schema.table(name)
    if table is not None:
        return (
            UnitColumns(((table.name, *key),), has_table=True) if (key := _one_key(table)) else None
        )
    before, dot, column = name.rpartition(".")
    if not dot:
        return _values(schema, column, None)
    table = schema.table(before)
    here = None if table is None else _column(table, column)
    if table is None or here is None or not _can_identify(here):
        return None
    if key_of(table) == (here.name,):
        return UnitColumns(((table.name, here.name),), has_table=True)
    return _values(schema, here.name, (table, here))


def _one_key(table: SchemaTable) -> tuple[str] | None:
    key = key_of(table)
    return (key[0],) if len(key) == 1 else None


def _values(
    schema: Schema, name: str, first: tuple[SchemaTable, SchemaColumn] | None
) -> UnitColumns | None:
    """Return the columns of a name in all tables, of one type: that of the first, or of most."""
    there = [
        (table, column)
        for table in schema.tables
        for column in table.columns
        if not table.is_derived and column.name.lower() == name.lower() and _can_identify(column)
    ]
    if first is not None:
        there = [first, *(each for each in there if each != first)]
    if not there:
        return None
    kinds = Counter(column.type for _, column in there)
    kind = there[0][1].type if first is not None else kinds.most_common(1)[0][0]
    columns = tuple((t.name, column.name) for t, column in there if column.type == kind)
    return UnitColumns(columns, has_table=False)


def proposals(schema: Schema) -> list[UnitColumns]:
    """Return units by names for people: keys of tables, and columns with people as values.

    Units that most tables lead to come first.
    """
    units = dict.fromkeys(_candidates(schema))
    reach = {unit: len(paths(schema, unit)) for unit in units}
    return sorted(reach, key=lambda unit: (-reach[unit], not unit.has_table, unit.name))


def _candidates(schema: Schema) -> Iterator[UnitColumns]:
    # A column of the name of a key is no unit of its own: the table of that key has the people.
    keys = {key[0].lower() for table in schema.tables if (key := _one_key(table)) is not None}
    for table in schema.tables:
        if table.is_derived:
            continue
        if naming.is_of_people(table) and (key := _one_key(table)) is not None:
            yield UnitColumns(((table.name, *key),), has_table=True)
            continue
        for column in table.columns:
            own = column_words(table, column.name)
            if _can_identify(column) and naming.names_rows(own) and naming.PEOPLE & {*own}:
                unit = _values(schema, column.name, (table, column))
                if unit is not None and column.name.lower() not in keys:
                    yield UnitColumns(tuple(sorted(unit.columns)), has_table=False)


def paths(schema: Schema, unit: UnitColumns) -> dict[str, Routes]:
    """Return the tables that lead to the unit, each with its links; the unit's own have none.

    Nearest first: a table is linked to tables that were reached before it. Views lead nowhere,
    because their rows may reveal others than the people that they name.
    """
    reached, keys = {name: Routes(()) for name, _ in unit.columns}, _NamedKeys(schema)
    while True:
        tables = [t for t in schema.tables if t.name not in reached and not t.is_derived]
        by_table = {t.name: _routes(t, schema, unit, reached, keys) for t in tables}
        further = {name: routes for name, routes in by_table.items() if routes}
        if not further:
            return {name: _meeting(name, schema, unit, reached, keys) for name in reached}
        reached |= further


def _meeting(
    name: str, schema: Schema, unit: UnitColumns, reached: dict[str, Routes], keys: _NamedKeys
) -> Routes:
    """Return the routes of a table, with those to one unit separated from those to other people.

    A second link to the target of the first one probably names somebody else.
    """
    routes, table = reached[name], schema.table(name)
    assert table is not None
    people = [k for n, k in enumerate(routes.links) if n == 0 or k.table == routes.links[0].table]
    if len(people) > 1:
        return routes
    taken = {column for link in people for column in link.columns} | {unit.column(name)}
    is_unit = unit.has_table and unit.column(name) is not None
    named = () if is_unit else (key for key in keys.links[name] if key.table in reached)
    declared = [k for k in table.foreign_keys if k.table in reached and _fits(table, k, schema)]
    others = {key.columns: key for key in (*named, *declared, *routes.links[1:])}
    same = tuple(
        key
        for columns, key in others.items()
        if len(columns) == 1 and taken.isdisjoint(columns) and not (is_unit and key.table == name)
    )
    beside = tuple(key for key in routes.beside if key.columns not in others)
    links = tuple(k for k in routes.links if k in people or len(k.columns) > 1)
    return Routes(links, beside, same)


def _routes(
    table: SchemaTable,
    schema: Schema,
    unit: UnitColumns,
    reached: dict[str, Routes],
    keys: _NamedKeys,
) -> Routes | None:
    """Return the links of a table to reached tables, the way first; None if there are none."""
    declared = [k for k in table.foreign_keys if k.table in reached and _fits(table, k, schema)]
    links = {key.columns: key for key in declared}
    for key in keys.links[table.name]:
        if key.table in reached:
            links.setdefault(key.columns, key)
    straight = [k for k in links.values() if unit.has_table and unit.column(k.table)]
    others = [key for key in links.values() if key not in straight]
    if not links:
        return None
    first, *rest = (*straight, *others)
    certain = [key for key in rest if key in straight or key in declared]
    beside = tuple(key for key in rest if key not in certain)
    return Routes((first, *certain), beside)


def _fits(table: SchemaTable, link: ForeignKey, schema: Schema) -> bool:
    """Test whether a foreign key leads to the key of its table, type for type."""
    target = schema.table(link.table)
    if target is None or sorted(key_of(target)) != sorted(link.referenced):
        return False
    pairs = zip(link.columns, link.referenced, strict=True)
    ends = [(_column(table, here), _column(target, there)) for here, there in pairs]
    return all(a is not None and b is not None and a.type == b.type for a, b in ends)


@dataclass(frozen=True, slots=True)
class _NamedKey:
    """The key of one column of a table, by which others may name its rows."""

    place: int
    target: SchemaTable
    column: SchemaColumn
    is_surrogate: bool

    def link_of(self, table: SchemaTable, column: SchemaColumn) -> ForeignKey | None:
        """Return the link by a column that is called like this key; None for the table's own."""
        name, first = column.name.lower(), table.columns[0]
        if table is self.target or column.type != self.column.type:
            return None
        if name in {each.lower() for each in key_of(table)}:
            return None  # only a foreign key says that it leads elsewhere
        if column is first and name == self.column.name.lower() and self.is_surrogate:
            return None
        return ForeignKey((column.name,), self.target.name, (self.column.name,))


class _NamedKeys:
    """Keys of the tables of a schema by the words that may name them: one pass over all columns."""

    def __init__(self, schema: Schema) -> None:
        self._called = defaultdict[naming.Words, list[_NamedKey]](list)
        self._alone = defaultdict[naming.Words, list[_NamedKey]](list)
        self._joined = defaultdict[str, list[_NamedKey]](list)
        for place, target in enumerate(schema.tables):
            self._add(place, target)
        self.links = {table.name: tuple(self._links(table)) for table in schema.tables}

    def _add(self, place: int, target: SchemaTable) -> None:
        key = _one_key(target)
        there = None if key is None else _column(target, key[0])
        if there is None:
            return
        called = column_words(target, there.name)
        named = _NamedKey(place, target, there, is_surrogate(target, there.name))
        by_table = naming.is_of_people(target) or len(called) == 1
        if len(called) == 1 and naming.names_rows(called):
            called = (*naming.table_words(target), *called)
        elif not naming.names_rows(called) and not target.primary_key:
            return
        self._called[_one(called)].append(named)
        self._joined["".join(called)].append(named)
        if by_table:
            self._alone[_one(naming.table_words(target))].append(named)

    def _links(self, table: SchemaTable) -> Iterator[ForeignKey]:
        """Yield links by columns that are named like keys, by target and column."""
        links: dict[tuple[int, int], ForeignKey] = {}
        for n, column in enumerate(table.columns):
            if not _can_identify(column):
                continue
            own = tuple(w for w in _one(column_words(table, column.name)) if w != "row")
            keys = [*self._alone.get(own, ()), *self._joined.get("".join(own), ())]
            for begin in range(len(own)):
                keys += self._called.get(own[begin:], ())
            for key in keys:
                if (link := key.link_of(table, column)) is not None:
                    links[key.place, n] = link
        yield from (links[place] for place in sorted(links))


def _one(named: naming.Words) -> naming.Words:
    return tuple(map(naming.singular, named))


def names_another(table: SchemaTable, column: SchemaColumn, unit: UnitColumns) -> bool:
    """Test whether another column may name another person: `referrer_user_id`."""
    own = unit.column(table.name)
    name = own or unit.columns[0][1]
    if column.name == own or unit.has_table:
        return False
    called = words(name)
    return words(column.name)[-len(called) :] == called


def _column(table: SchemaTable, name: str) -> SchemaColumn | None:
    return next((c for c in table.columns if c.name.lower() == name.lower()), None)


def _can_identify(column: SchemaColumn) -> bool:
    """Test whether equal values of a column's type are identical."""
    whole = column.reading is None
    return whole and column.type is not None and column.type.kind not in (Kind.DOUBLE, Kind.BOOLEAN)


def with_referenced_keys(schema: Schema) -> Schema:
    """Return the schema in which the key of a table is what all foreign keys to it reference.

    Other tables know its rows by these columns, even if its primary key is another one.
    """

    def keyed(table: SchemaTable) -> SchemaTable:
        keys = {
            key.referenced
            for other in schema.tables
            for key in other.foreign_keys
            if key.table == table.name and other is not table
        }
        (key, *more) = keys or {table.primary_key}
        return table if more or key == table.primary_key else replace(table, primary_key=key)

    return replace(schema, tables=tuple(map(keyed, schema.tables)))


def dictionaries(schema: Schema, reached: Mapping[str, Routes]) -> list[str]:
    """Return tables that may be public: others refer to them, and nothing in them is of people.

    Only keys, names and types are looked at. The owner has to confirm each of them.
    """
    referred = {
        key.table
        for table in schema.tables
        for key in table.foreign_keys
        if key.exact and key.table != table.name
    }
    if not any(table.foreign_keys for table in schema.tables):
        referred = _called_alike(schema, reached)
    return [
        table.name
        for table in schema.tables
        if table.name in referred - reached.keys() and not table.is_derived
        if not naming.is_of_people(table)
        if not any(_is_of_people(table, column.name) for column in table.columns)
    ]


def _called_alike(schema: Schema, reached: Mapping[str, Routes]) -> set[str]:
    """Return tables whose first column is called as one of a table that leads to people.

    Data files declare no keys: this is a guess by names.
    """
    names = {c.name.lower() for t in schema.tables if t.name in reached for c in t.columns}
    return {t.name for t in schema.tables if t.columns and t.columns[0].name.lower() in names}


def _is_of_people(table: SchemaTable, column: str) -> bool:
    """Test whether a column is called like a person, or like what tells who it is."""
    named = bool(naming.PEOPLE & {*map(naming.singular, words(column))})
    return (
        named or naming.identifies(table, column) or naming.personal_data(table, column) is not None
    )
