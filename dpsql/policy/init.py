"""init: draft a policy from a schema, never from data; undecided values are DECIDE."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.file_formats import is_text
from dpsql.model.resources import Database
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.tree import Kind, identifier
from dpsql.policy import unit_paths
from dpsql.policy.budget_choices import ANALYST, BudgetChoice, budget_lines
from dpsql.policy.caps import SUM
from dpsql.policy.check_constraints import NUMBERS, Check, checks
from dpsql.policy.column_words import column_words, identifies, is_amount
from dpsql.policy.edit import toml_key
from dpsql.policy.file_drafts import TypesFrom, section_lines, type_part
from dpsql.policy.policy_keys import draft_comment
from dpsql.policy.private_views import materialize
from dpsql.policy.unit_paths import dictionaries
from dpsql.policy.value_reader import UNDECIDED

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
PLAUSIBLE = (date(1900, 1, 1), date(2199, 12, 31))
"""Days in which dates of people lie, also those that a hospital shifts to hide people."""
_FRACTIONS = (Kind.DECIMAL, Kind.DOUBLE)
"""Types that are summed more often than they name anything."""


LOOKED = "# With one exception: types and formats of text files were read from the data."
"""Line of a draft that depends on rows."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The owner's decisions; None or `UNDECIDED` is left open.

    `public` lists tables with rows that everybody may see. `shown` lists columns (table.column)
    that look as if they named people and do not. `units` is a public estimate of their number, and
    `rows` of the rows of other tables.
    `types` is the source of the types of text files.
    """

    unit: unit_paths.UnitColumns | None = None
    public: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    other_people: str = UNDECIDED
    units: int | None = None
    rows: tuple[tuple[str, int], ...] = ()
    types: TypesFrom = TypesFrom.NOBODY
    budget: BudgetChoice = field(default_factory=BudgetChoice)


def draft(
    schema: Schema,
    database: Database,
    decisions: Decisions = Decisions(),  # noqa: B008 - frozen
) -> str:
    """Return the TOML text of a policy over these tables, with a comment on every open decision.

    `database` has paths as they are to be written. If no unit is decided, the draft follows the
    first proposal.
    """
    drafter = replace(Drafter.of(schema, decisions), database=database)
    lines = [
        "# Drafted from the schema, never from data. Replace every DECIDE; then: dpsql check",
        *([LOOKED] if decisions.types is TypesFrom.DATA else ()),
        *_database(database),
        "",
        *drafter.unit_lines(),
        "",
        *drafter.defaults(),
    ]
    for table in drafter.schema.tables:
        if drafter.is_drafted(table):
            lines += ["", *drafter.table(table)]
    lines += drafter.left_out()
    lines += ["", *budget_lines(decisions.budget, decisions.units), *drafter.role_example()]
    return "".join(f"{line}\n" for line in lines)


def _database(database: Database) -> Iterator[str]:
    yield "[database]"
    yield f"engine = {_text(database.engine)}"
    yield from (f"{toml_key(key)} = {_text(value)}" for key, value in database.settings)
    if database.path is not None:
        yield f"path = {_text(database.path)}"
    if database.files:
        yield "[database.files]"
        yield from (f"{toml_key(name)} = {_text(path)}" for name, path in database.files)


@dataclass(frozen=True, slots=True)
class Drafter:
    """Data for a draft: `unit` is the privacy unit, decided or proposed, and `routes` lead there.
    `nullable` is the default for columns.
    """

    schema: Schema
    decisions: Decisions
    unit: unit_paths.UnitColumns | None
    routes: dict[str, unit_paths.Routes]
    nullable: bool
    database: Database = Database("")

    @staticmethod
    def of(schema: Schema, decisions: Decisions) -> Drafter:
        """Return a drafter for the owner's decisions."""
        schema = unit_paths.with_referenced_keys(schema)
        likely = unit_paths.proposals(schema) if decisions.unit is None else [decisions.unit]
        unit = likely[0] if likely else None
        proposed = {} if unit is None else unit_paths.paths(schema, unit)
        routes = {
            name: replace(r, same=tuple(k for k in r.same if k.table not in decisions.public))
            for name, r in proposed.items()
        }
        private = [t for t in schema.tables if t.name in routes and t.name not in decisions.public]
        columns = [c for t in private for c in t.columns if c.type]
        optional = sum(not column.is_never_null for column in columns)
        return Drafter(schema, decisions, unit, routes, nullable=2 * optional > len(columns))

    def is_drafted(self, table: SchemaTable) -> bool:
        """Test whether a table has lines in the draft; other tables are invisible to analysts."""
        return table.name in self.routes or table.name in self.decisions.public

    def is_private(self, table: SchemaTable) -> bool:
        """Test whether a table leads to the unit and is not declared public."""
        return table.name in self.routes and table.name not in self.decisions.public

    def holds_unit(self, name: str) -> bool:
        """Test whether a table is the one whose rows are the units."""
        return self.unit is not None and self.unit.has_table and self.unit.column(name) is not None

    def names_people(self, name: str, routes: unit_paths.Routes) -> bool:
        """Test whether a table holds the unit, or leads to it by a declared key, not by a guess."""
        unit = self.unit
        if unit is None or unit.column(name):
            return True
        targets = [self.schema.table(link.table) for link in routes.links]
        declared = any(target is not None and target.primary_key for target in targets)
        return declared or (unit.has_table and any(unit.column(k.table) for k in routes.links))

    def dictionaries(self) -> list[str]:
        """Return tables that may be public, as far as keys and names tell."""
        return dictionaries(self.schema, self.routes)

    def hidden(self) -> list[str]:
        """Return the columns that look as if they named people, as table.column."""
        return [
            f"{table.name}.{column}"
            for table in self.schema.tables
            if self.is_private(table)
            for column in hidden_columns(table, self.unit, self.routes[table.name])
        ]

    def unit_lines(self) -> Iterator[str]:
        """Yield the lines of the privacy unit."""
        yield "# Whose privacy is protected: one key of one table, with all rows that lead to it."
        unit = self.decisions.unit
        if unit is None:
            proposed = "nothing is called as people are" if self.unit is None else self.unit.name
            yield f"# Proposed: {_comment(proposed)}; the rest of this draft follows from it. If it"
            yield "# is another one, draft anew and say so."
        yield "[privacy_unit]"
        if unit is None or unit.has_table:
            table, key = (UNDECIDED, UNDECIDED) if unit is None else unit.columns[0]
            yield f"table = {_text(table)}"
            yield f"key = {_text(key)}"
        else:
            named = [_text(f"{table}.{column}") for table, column in unit.columns]
            yield f"columns = [{', '.join(named)}]"
        yield 'neighbours = "add_remove"'
        yield from draft_comment("privacy_unit", "epsilon")
        yield f"epsilon = {_text(SUM)}"

    def defaults(self) -> Iterator[str]:
        """Yield the lines of the defaults for tables."""
        yield from draft_comment("defaults", "access")
        yield "[defaults]"
        yield 'access = "private"'
        if self.nullable:
            yield "nullable = true"
        yield from draft_comment("defaults", "times")
        yield f"times = [{', '.join(map(str, PLAUSIBLE))}]"
        if any(len(routes.links) > 1 for routes in self.routes.values()):
            yield from draft_comment("defaults", "other_people")
            yield f"other_people = {_text(self.decisions.other_people)}"

    def role_example(self) -> Iterator[str]:
        """Yield a role on the first tables, as a comment."""
        drafted = [_text(t.name) for t in self.schema.tables if self.is_drafted(t)][:2]
        if not drafted:
            return
        yield from ("", *draft_comment("roles.R", "tables"))
        yield "# [roles.some]"
        yield f'# analysts = ["{ANALYST}"]'
        yield f"# tables = [{', '.join(drafted)}]"

    def left_out(self) -> Iterator[str]:
        """Yield the tables that are invisible to analysts, as comments."""
        absent = [table for table in self.schema.tables if not self.is_drafted(table)]
        if not absent:
            return
        of = "the privacy unit" if self.unit is None else self.unit.name
        yield ""
        yield f"# No key and no name says where these lead: to {_comment(of)}, or to no person."
        yield "# They do not exist until you decide. Uncomment one and say which column leads to"
        yield "# people. A table in which no row is about a person may be public instead: anybody"
        yield '# then reads every row of it, exactly. Write access = "public" in the place of link.'
        proposed = self.dictionaries()
        refer = "refer" if any(t.foreign_keys for t in self.schema.tables) else "seem to refer"
        for table in absent:
            if table.name in proposed:
                alike = "and no column looks like people"
                yield f"# Proposed as public: others {refer} to it, {alike}."
            yield from (f"# {line}" for line in self.undecided(table))

    def table(self, table: SchemaTable) -> Iterator[str]:
        """Yield the lines of a table."""
        if table.name in self.decisions.public:
            yield from self.public(table)
            return
        yield f"[tables.{toml_key(table.name)}]"
        if key := unit_paths.key_of(table):
            yield _key(key) + ("" if table.primary_key else "  # by its name")
        routes = self.routes[table.name]
        yield from _links(routes)
        if len(routes.links) == 1:
            yield from _hints(table)
        if self.holds_unit(table.name):
            yield from _size(self.decisions.units)
        else:
            yield from _size(dict(self.decisions.rows).get(table.name))
        yield from self._file(table)
        yield f"[tables.{toml_key(table.name)}.columns]"
        constraints = checks(table)
        for column in table.columns:
            yield self.column(table, column, constraints.get(column.name.lower()))

    def undecided(self, table: SchemaTable) -> Iterator[str]:
        """Yield the lines of a table with an unknown link to people."""
        columns = self.unit.columns if self.unit is not None and self.unit.has_table else ()
        target = ".".join(columns[0]) if columns else "people.id"
        for line in self.public(table):
            if line == PUBLIC:
                example = _comment(f'{{ column = "…", references = {_text(target)} }}')
                yield f"link = {_text(UNDECIDED)}  # as {example}"
            else:
                yield line

    def public(self, table: SchemaTable) -> Iterator[str]:
        """Yield the lines of a public table, with column types if its files are texts."""
        yield from public_lines(table)
        section = list(self._file(table))
        typed = [(column.name, self._type(table, column)) for column in table.columns]
        yield from section
        if any(said for _name, said in typed):
            yield f"[tables.{toml_key(_comment(table.name))}.columns]"
            yield from (f"{toml_key(_comment(n))} = {{ {said} }}" for n, said in typed if said)

    def _file(self, table: SchemaTable) -> Iterator[str]:
        header = f"tables.{toml_key(_comment(table.name))}"
        return section_lines(self.database, table.name, header, self.decisions.types)

    def _type(self, table: SchemaTable, column: SchemaColumn) -> str:
        if column.reading is not None:
            return ""
        types, kind = self.decisions.types, column.type_name
        return type_part(self.database, table.name, column.name, kind, types)

    def column(self, table: SchemaTable, column: SchemaColumn, check: Check | None) -> str:
        """Return the line of a column."""
        if column.reading is not None and (column.reading.json or 0 in column.reading.path):
            return _part(column)
        if column.type is None:
            kind = _comment(column.type_name)
            return f"# {_comment(column.name)}: {kind} is {_remark(column, table)}"
        is_shown = f"{table.name}.{column.name}" in self.decisions.shown
        named = hidden_columns(table, self.unit, self.routes[table.name], (column,))
        if named and not is_shown:
            parts = ["hidden = true"]
        else:
            parts = [] if check is None else _declared(check)
            if column.enum_values and not parts:
                parts = [f"values = {json.dumps(list(column.enum_values), ensure_ascii=False)}"]
            if not parts and (listed := self._listed(table, column)):
                parts = [f"values_from = {_text(listed)}"]
            if not parts and self._is_number(table, column):
                parts = ["private_bounds = true"]
        if self.nullable and column.is_never_null:
            parts.append("nullable = false")
        elif not self.nullable and not column.is_never_null:
            parts.append("nullable = true")
        if said := self._type(table, column):
            parts.insert(0, said)
        inner = f"{{ {', '.join(parts)} }}" if parts else "{}"
        remark = _comment(self._remark_of(table, column, said))
        return f"{toml_key(column.name)} = {inner}  # {remark}"

    def _remark_of(self, table: SchemaTable, column: SchemaColumn, said: str) -> str:
        """Return the comment after a column."""
        if not said or self.decisions.types is TypesFrom.NAMES:
            return column.type_name
        is_looked = self.decisions.types is TypesFrom.DATA
        if is_looked and is_text(dict(self.database.files)[table.name]):
            return "read from the data: public"
        return f"{column.type_name}, by its name" if UNDECIDED in said else column.type_name

    def _listed(self, table: SchemaTable, column: SchemaColumn) -> str | None:
        """Return the column of a public table that lists the values, by a foreign key."""
        keys = (key for key in table.foreign_keys if key.columns == (column.name,) and key.exact)
        public = (f"{k.table}.{k.referenced[0]}" for k in keys if k.table in self.decisions.public)
        return next(public, None)

    def _is_number(self, table: SchemaTable, column: SchemaColumn) -> bool:
        """Test whether a column holds amounts with unknown bounds."""
        assert column.type is not None
        routes = self.routes[table.name]
        links = (name for link in (*routes.links, *routes.same) for name in link.columns)
        own = None if self.unit is None else self.unit.column(table.name)
        naming = {*unit_paths.key_of(table), *links, own}
        amount = column.type.kind in NUMBERS and is_amount(column_words(table, column.name))
        return amount and column.name not in naming


def _size(rows: int | None) -> Iterator[str]:
    if rows is not None:
        yield f"expected_rows = {rows}  # as anybody may know"


PUBLIC = 'access = "public"'


def hidden_columns(
    table: SchemaTable,
    unit: unit_paths.UnitColumns | None,
    routes: unit_paths.Routes,
    columns: Sequence[SchemaColumn] | None = None,
) -> list[str]:
    """Return columns of a private table, or some of them, that look as if they named people and
    are not keys or links.
    """
    links = (*routes.links, *routes.same)
    leading = {name for link in links for name in link.columns} | {*unit_paths.key_of(table)}
    if unit is not None:
        leading |= {unit.column(table.name) or ""}
    return [
        column.name
        for column in columns or table.columns
        if column.name not in leading and column.type is not None
        if identifies(table, column.name)
        or (unit is not None and unit_paths.names_another(table, column, unit))
    ]


def public_lines(table: SchemaTable) -> Iterator[str]:
    """Yield the lines of a table with rows that everybody may see, if its owner says so."""
    yield f"[tables.{toml_key(_comment(table.name))}]{_about_view(table)}"
    yield PUBLIC
    if key := unit_paths.key_of(table):
        yield _comment(_key(key))


def _about_view(table: SchemaTable) -> str:
    """Return a comment on a view: whether it may be private, or how to store its rows."""
    if table.rows is not None:
        return "  # a view: give it the link of the rows that it shows"
    if table.view and table.problem:
        store = _comment(f"; its rows may, stored: {materialize(table)}")
        return f"  # a view that cannot be private: {_comment(table.problem)}{store}"
    about = "  # a view: its rows may tell of others than those whom they name"
    return about if table.is_derived else ""


def _key(names: Iterable[str]) -> str:
    first, *more = map(_text, names)
    return f"key = [{', '.join((first, *more))}]" if more else f"key = {first}"


def _hints(table: SchemaTable) -> Iterator[str]:
    """Yield possible limits as comments: per period, and on the sum of numbers."""
    typed = [(column.name, column.type.kind) for column in table.columns if column.type is not None]
    day = next((name for name, kind in typed if kind in _TIMES), None)
    if day is not None:
        name = day if toml_key(day) == day else identifier(day)
        by = _comment(_text(f"date_trunc('month', {name})"))
        yield f"# If you know: max_rows_per_group = {{ {by} = 50 }}"
    if any(kind in _FRACTIONS for _, kind in typed):
        yield "# max_per_unit of a column below: the most that one unit's values of it add up to."


def _link(key: ForeignKey) -> str:
    columns = ", ".join(map(_text, key.columns))
    if len(key.columns) == 1:
        return f"column = {columns}, references = {_text(f'{key.table}.{key.referenced[0]}')}"
    target = f"{key.table}.({', '.join(key.referenced)})"
    return f"column = [{columns}], references = {_text(target)}"


def _links(routes: unit_paths.Routes) -> Iterator[str]:
    """Yield the lines of the link to the unit; each further link may name another person."""
    links = list(map(_link, routes.links))
    if len(links) == 1:
        yield f"link = {{ {links[0]} }}"
    elif links:
        yield "links = ["
        yield from (f"  {{ {link} }}," for link in links)
        yield "]"
    if routes.same:
        yield "same_unit = ["
        yield from (f"  {{ {_link(link)} }}," for link in routes.same)
        yield "]"
    for link in map(_link, routes.beside):
        yield f"# Beside it, by its name: {{ {_comment(link)} }}"


def _remark(column: SchemaColumn, table: SchemaTable) -> str:
    """Return a comment on a column without a type of ours."""
    parts = (c.reading.column for c in table.columns if c.reading is not None and c.reading.path)
    return "read by its parts" if column.name in parts else "not supported"


def _part(column: SchemaColumn) -> str:
    """Return the declaration of a part of JSON, or of one place of a list, as a comment."""
    assert column.reading is not None
    name, type_of = column.name.replace("[]", "[1]"), ""
    if column.reading.json:
        name, type_of = f"{name}.key", 'type = "VARCHAR", '
    declared = f"{_text(name)} = {{ {type_of}nullable = true }}  # a part of {column.type_name}"
    return f"# {_comment(declared)}"


def _declared(check: Check) -> list[str]:
    """Return a CHECK constraint as the policy declares it."""
    if check.bounds is not None:
        return [f"bounds = [{', '.join(check.bounds)}]"]
    if check.length is not None:
        return [f"max_length = {check.length}"]
    return [f"values = {json.dumps(list(check.values), ensure_ascii=False)}"]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    """Return a text of the schema for a one-line comment: a name may contain a line break."""
    return "".join(c if c.isprintable() else " " for c in text)
