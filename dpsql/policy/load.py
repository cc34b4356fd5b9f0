"""load: dpsql.toml → Draft. Every mistake is an error with its line and a fix."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.accountants import Accountant, get, get_for, is_affordable
from dpsql.engines.postgres.whereabouts import objection
from dpsql.ledgers import CUBES, LedgerPlace
from dpsql.model.errors import PolicyError
from dpsql.model.installed import Unusable
from dpsql.model.public_times import Resolution
from dpsql.model.query_options import Memory
from dpsql.model.resources import SPILL, Database, Limits
from dpsql.model.table_names import full_name, parts, shown
from dpsql.model.vocabulary import (
    DEFAULT_ACCOUNTANT,
    BoundsMethod,
    Budget,
    Link,
)
from dpsql.policy.accepted_findings import accepted_findings
from dpsql.policy.caps import caps_of, name_budget
from dpsql.policy.defaults import with_defaults
from dpsql.policy.draft import Draft, DraftColumn, DraftTable
from dpsql.policy.file_sections import with_formats
from dpsql.policy.limit_values import limit_of, limits_by, most_in_all, rollups_of, times_of
from dpsql.policy.local_laws import law_of
from dpsql.policy.renewals import RENEWAL_KEYS, read_renewal
from dpsql.policy.role_sections import read_roles
from dpsql.policy.server_section import seconds_of, server
from dpsql.policy.unit_links import check_links, linked_to_values, unit_columns, unit_of
from dpsql.policy.unit_periods import check_periods, read_periods
from dpsql.policy.value_reader import UNDECIDED, Lines, Reader

LEAST_EPSILON, MOST_EPSILON = Decimal("1e-9"), Decimal("1e6")
"""Least ε, the step of the ledger's count; and the largest ε with any guarantee."""
LEAST_DELTA = Decimal("1e-18")
LIMITS = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group", "max_public_groups")

_TOML = "Correct that place: dates are 2025-12-31, texts stand in quotes."
_ENDS = "Write finite numbers or dates."


def load(path: str = "dpsql.toml") -> Draft:
    """Read a policy file and check it in itself.

    Raises `PolicyError` with file, line and a fix: not TOML, unknown keys, wrong values, links that
    lead nowhere, and open decisions.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        values = tomllib.loads(text, parse_float=Decimal)
    except FileNotFoundError:
        raise PolicyError(
            path, None, "There is no such file.", "Draft one with dpsql init DATA."
        ) from None
    except (OSError, UnicodeDecodeError):
        raise PolicyError(path, None, "It cannot be read.", _readable(file)) from None
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"at line (\d+)", str(error))
        raise PolicyError(
            path, int(match[1]) if match else None, f"This is not TOML: {error}.", _TOML
        ) from None
    except (ValueError, ArithmeticError, RecursionError):
        raise PolicyError(
            path, None, "A number or a nesting is too large.", "Write a smaller one."
        ) from None
    reader = Reader(path, Lines(text), values)
    _decided(reader)
    return _draft(with_defaults(reader), file.resolve().parent)


def _readable(file: Path) -> str:
    """Return what to do about a policy that is no text: a database is no policy."""
    with suppress(OSError), file.open("rb") as opened:
        if b"\0" in opened.read(64):
            return "If it is the database, name the TOML that has its path in [database]."
    return "Save it as UTF-8 text."


def _decided(reader: Reader) -> None:
    """Refuse a policy with open decisions."""
    places = sorted({reader.lines.of(place) for place in _undecided(reader.values, ())})
    if places:
        listed = ", ".join(map(str, places))
        raise PolicyError(
            reader.file,
            places[0],
            f"{len(places)} decisions are open.",
            f"Replace {UNDECIDED} on lines {listed}.",
        )


def _undecided(value: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if value == UNDECIDED:
        return [path]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in (_undecided(v, (*path, k)))]
    if isinstance(value, list):
        return [p for v in value for p in _undecided(v, path)]
    return []


def _draft(reader: Reader, folder: Path) -> Draft:
    reader.only(
        *("database", "privacy_unit", "defaults", "tables", "budgets", "analysts", "groups"),
        *("ledger", "limits", "server", "check", "roles"),
    )
    budgets = tuple(_budget(r, name) for name, r in reader.table("budgets", required=True).tables())
    analysts = _analysts(reader.table("analysts", required=True), budgets)
    tables = tuple(_table(r, name) for name, r in reader.table("tables", required=True).tables())
    public = tuple(table.name for table in tables if not table.private)
    database = _database(reader.table("database", required=True), folder, public)
    draft = Draft(
        path=str(Path(reader.file).resolve()),
        lines=reader.lines,
        database=with_formats(database, reader.table("tables")),
        unit=unit_of(reader.table("privacy_unit", required=True)),
        tables=tables,
        budgets=budgets,
        analysts=analysts,
        ledger=_ledger(reader.table("ledger"), folder),
        limits=_limits(reader.table("limits")),
        server=server(reader.table("server"), folder, reader.table("analysts")),
        empty_rows=_empty_rows(reader.table("analysts", required=True)),
        caps=caps_of(reader, budgets, analysts),
        accepted=accepted_findings(reader.table("check")),
        roles=read_roles(reader, tuple(name for name, _ in analysts)),
        period=read_periods(reader.table("privacy_unit")),
    )
    _check_names(draft, reader)
    columns = unit_columns(reader.table("privacy_unit"))
    if columns:
        draft = linked_to_values(draft, columns, reader)
    check_links(draft, reader)
    check_periods(draft, reader)
    return draft


def _check_names(draft: Draft, reader: Reader) -> None:
    """Refuse names that SQL cannot express, and two tables with the same name for analysts."""
    calls: dict[tuple[str, str], str] = {}
    for table in draft.tables:
        place, named = reader.table("tables").table(table.name), parts(table.name)
        if named is None:
            fix = """Write schema.table, and '"a.b"' for a name with a dot."""
            place.fail(None, f"{table.name} is no name of a table.", fix)
        if full_name(*named) != table.name:
            place.fail(None, f"{table.name} has a shorter name.", f"Write {full_name(*named)}.")
        schema, name = shown(table.name)
        other = calls.setdefault((schema.lower(), name.lower()), table.name)
        if other != table.name:
            why = f"{other} and {table.name} have one name for analysts."
            place.fail(None, why, "Leave one out, or rename it in the database.")


def _database(reader: Reader, folder: Path, public: tuple[str, ...]) -> Database:
    """Return the database settings, which its engine checks. Another engine may hold public
    tables.
    """
    if "public" not in reader.values:
        return _one_database(reader, folder)
    there = replace(_one_database(reader.table("public"), folder), tables=public)
    return replace(_one_database(reader, folder), public=there)


def _one_database(reader: Reader, folder: Path) -> Database:
    files = reader.table("files")
    common = ("engine", "path", "files", "prepared", "public", SPILL)
    files.distinct(tuple(files.values), None)
    return Database(
        reader.text("engine"),
        str(folder / reader.text("path")) if "path" in reader.values else None,
        tuple((name, str(folder / files.text(name))) for name in files.values),
        tuple((key, reader.text(key)) for key in reader.values if key not in common),
        str(folder / reader.text("prepared")) if "prepared" in reader.values else None,
        spill=str(folder / reader.text(SPILL)) if SPILL in reader.values else None,
    )


def _table(reader: Reader, name: str) -> DraftTable:
    reader.only(
        *("access", "key", "link", "links", "determines_unit", "columns", "expected_rows"),
        *("rollups", "file", "same_unit", "times", *LIMITS),
    )
    private = reader.choice("access", ("private", "public")) == "private"
    columns = tuple(_column(r, column) for column, r in reader.table("columns").tables())
    if private and not columns:
        reader.fail(
            None, f"The private table {name} lists no column.", "List those that may be used."
        )
    for key in ("link", "links", "same_unit"):
        if not private and key in reader.values:
            reader.fail(key, f"{name} is public and has a link.", 'Write access = "private".')
    link, several, unprotected = links_of(reader)
    for key in (*LIMITS, "times"):
        if not private and key in reader.values:
            reader.fail(key, f"{name} is public and needs no {key}.", "Remove it.")
    return DraftTable(
        name,
        private,
        _key(reader),
        link,
        columns=columns,
        expected_rows=reader.count("expected_rows"),
        several=several,
        unprotected=unprotected,
        groups_by=limits_by(reader, "max_groups_per_unit"),
        rows_by=limits_by(reader, "max_rows_per_group"),
        determining=_determining(reader),
        rollups=rollups_of(reader),
        same_unit=_same_unit(reader),
        times=times_of(reader),
        **{key: limit_of(reader, key) for key in LIMITS},
    )


def _key(reader: Reader) -> tuple[str, ...]:
    key = reader.values.get("key", [])
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        reader.fail("key", "key must name a column, or list some.", 'Write key = "id".')
    reader.distinct(tuple(names), "key")
    return tuple(names)


def _column(reader: Reader, name: str) -> DraftColumn:
    reader.only(
        *("type", "format", "bounds", "values", "values_from", "nullable", "hidden"),
        *("private_bounds", "max_per_unit", "max_length", "randomized", "published"),
    )
    declared = reader.text("type") if "type" in reader.values else None
    source = None
    if "values_from" in reader.values:
        table, dot, column = reader.text("values_from").rpartition(".")
        if not dot or "values" in reader.values:
            reader.fail(
                "values_from", "values_from names a public column.", 'Write "table.column".'
            )
        source = (table, column)
    return DraftColumn(
        name=name,
        type=declared,
        bounds=_bounds(reader),
        values=_values(reader),
        values_from=source,
        nullable=reader.flag("nullable"),
        hidden=reader.flag("hidden"),
        private_bounds=_private_bounds(reader),
        max_per_unit=most_in_all(reader),
        max_length=reader.count("max_length"),
        randomized=law_of(reader),
        remember_days=reader.table("randomized").count("remember_days"),
        published=reader.flag("published"),
    )


def _private_bounds(reader: Reader) -> BoundsMethod | None:
    """Return the method by which queries find this column's bounds privately; None without one."""
    if not isinstance(reader.values.get("private_bounds", False), str):
        method = BoundsMethod.LOG_HISTOGRAM if reader.flag("private_bounds") else None
    else:
        method = BoundsMethod(reader.choice("private_bounds", tuple(BoundsMethod)))
    if method and ("bounds" in reader.values or "values" in reader.values):
        why = "The column has bounds or values, and private_bounds beside them."
        reader.fail("private_bounds", why, "Keep one.")
    return method


def _bounds(reader: Reader) -> tuple[Any, Any] | None:
    bounds = reader.values.get("bounds")
    if bounds is None:
        return None
    if not isinstance(bounds, list) or len(bounds) != 2:  # noqa: PLR2004
        reader.fail("bounds", "bounds are two values.", "Write bounds = [lower, upper].")
    for end in bounds:
        if isinstance(end, str) and _is_moment(end):
            reader.fail("bounds", f"{end} is text.", "Write dates and times without quotes.")
        if isinstance(end, bool | str | list | dict) or (
            isinstance(end, Decimal) and not end.is_finite()
        ):
            fix = f"Write {end}, without quotes." if _is_number(end) else _ENDS
            reader.fail("bounds", f"{'The text ' * isinstance(end, str)}{end} is no bound.", fix)
    try:
        reversed_bounds = bounds[1] < bounds[0]
    except TypeError:
        reader.fail("bounds", "The bounds differ in type.", "Write two of one type.")
    if reversed_bounds:
        reader.fail("bounds", "The lower bound is above the upper.", "Swap them.")
    return bounds[0], bounds[1]


def _is_number(end: Any) -> bool:
    """Test whether a text would be a number without its quotes."""
    return isinstance(end, str) and end.removeprefix("-").replace(".", "", 1).isdigit()


def _is_moment(text: str) -> bool:
    """Test whether a text would be a date or a time without its quotes."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _values(reader: Reader) -> tuple[Any, ...] | None:
    values = reader.values.get("values")
    if values is None:
        return None
    if (
        not isinstance(values, list)
        or not values
        or any(isinstance(v, list | dict) for v in values)
    ):
        reader.fail("values", "values must list the public values.", 'Write values = ["a", "b"].')
    if len({(type(v), v) for v in values}) < len(values):
        reader.fail("values", "A value is listed twice.", "List each once.")
    return tuple(values)


_BUDGET = (
    *("epsilon", "delta", "accountant", "query_epsilon", "max_query_epsilon", "query_delta"),
    *("min_query_charge", "confirm_above", "only_public_keys", "memory", "share_answers"),
    *RENEWAL_KEYS,
)


def _budget(reader: Reader, name: str) -> Budget:
    reader.only(*_BUDGET)
    epsilon, delta = reader.amount("epsilon"), reader.amount("delta", "0")
    budget = Budget(
        name,
        epsilon,
        delta,
        accountant=_accountant(reader, epsilon, delta).name,
        query_epsilon=reader.amount("query_epsilon", "0.1"),
        max_query_epsilon=reader.amount("max_query_epsilon", "1"),
        query_delta=reader.amount("query_delta", "1e-9"),
        min_query_charge=_optional(reader, "min_query_charge"),
        confirm_above=_optional(reader, "confirm_above"),
        only_public_keys=reader.flag("only_public_keys"),
        memory=Memory(reader.choice("memory", ("slice", "wide"), "slice")),
        share_answers=reader.flag("share_answers"),
        renews=read_renewal(reader),
    )
    for key in ("epsilon", "query_epsilon", "max_query_epsilon"):
        if getattr(budget, key) <= 0:
            reader.fail(key, f"{key} must be above zero.", f"Write {key} = 0.1.")
        if not LEAST_EPSILON <= getattr(budget, key) <= MOST_EPSILON:
            reader.fail(key, f"{key} is no useful amount.", f"Write {key} = 0.1.")
    for key in ("delta", "query_delta"):
        if not 0 <= getattr(budget, key) < 1:
            reader.fail(key, f"{key} must be in [0, 1).", f"Write {key} = 1e-6.")
        if 0 < getattr(budget, key) < LEAST_DELTA:
            reader.fail(key, f"{key} is below what the ledger counts.", f"Write {key} = 1e-6.")
    _consistent(reader, budget)
    if budget.confirm_above is not None and budget.confirm_above < 0:
        reader.fail("confirm_above", "confirm_above is below zero.", "Write confirm_above = 0.0.")
    return budget


def _optional(reader: Reader, key: str) -> Decimal | None:
    return reader.amount(key) if key in reader.values else None


def _accountant(reader: Reader, epsilon: Decimal, delta: Decimal) -> Accountant:
    try:
        return get_for(reader.text("accountant", DEFAULT_ACCOUNTANT), epsilon, delta)
    except Unusable as error:
        reader.fail("accountant", error.message, error.fix)


def _consistent(reader: Reader, budget: Budget) -> None:
    accountant = get(budget.accountant)
    if budget.query_epsilon > budget.max_query_epsilon:
        reader.fail("query_epsilon", "query_epsilon is above max_query_epsilon.", "Lower it.")
    if budget.delta > 0 and not accountant.supports_selection:
        reader.fail("delta", f"The {accountant.name} accountant has no δ.", "Write delta = 0.0.")
    if 0 < budget.delta < budget.query_delta:
        reader.fail("query_delta", "query_delta is above delta.", "Lower it: queries share delta.")
    if accountant.needs_delta and not (budget.delta > 0 and budget.query_delta > 0):
        why = f"The {accountant.name} accountant needs delta and query_delta."
        reader.fail("delta", why, "Write delta = 1e-6.")
    if budget.only_public_keys and not accountant.needs_delta:
        why = f"Under {accountant.name} a δ is charged where it is needed: it saves nothing."
        reader.fail("only_public_keys", why, "Leave it out.")
    _affordable(reader, budget)


def _affordable(reader: Reader, budget: Budget) -> None:
    key, fix = "min_query_charge", "Lower it, or leave it out: then it is a tenth of that."
    if budget.min_query_charge is not None and budget.min_query_charge < 0:
        reader.fail(key, f"{key} is below zero.", fix)
    if budget.min_query_charge is not None and not is_affordable(budget):
        reader.fail(key, f"{key} is more than a question of query_epsilon is charged.", fix)


def _analysts(reader: Reader, budgets: tuple[Budget, ...]) -> tuple[tuple[str, str], ...]:
    result = []
    for name, analyst in reader.tables():
        analyst.only("budget", "epsilon", "delta", "raw_rows", "errors", *RENEWAL_KEYS)
        if name.startswith(CUBES):
            analyst.fail(
                None, f"No analyst is called {name}: so are cubes.", "Choose another name."
            )
        budget = analyst.text("budget")
        if budget not in {b.name for b in budgets}:
            analyst.fail(
                "budget",
                f"There is no budget {budget}.",
                name_budget(budget, [b.name for b in budgets]),
            )
        result.append((name, budget))
    if not result:
        reader.fail(None, "There is no analyst.", "Add [analysts.NAME].")
    return tuple(result)


def _empty_rows(reader: Reader) -> frozenset[str]:
    """Return the analysts for whom a query of single rows is empty instead of refused."""
    choices = ("refused", "empty")
    chosen = ((name, r.choice("raw_rows", choices, choices[0])) for name, r in reader.tables())
    return frozenset(name for name, choice in chosen if choice == "empty")


def _ledger(reader: Reader, folder: Path) -> LedgerPlace:
    reader.only("path", "url", "clock")
    reader.choice("clock", ("trusted",), "trusted")
    url = reader.text("url") if "url" in reader.values else ""
    wrong = objection({"dsn": url}) if url else None
    if url and not url.startswith(("postgresql://", "postgres://")):
        wrong = "A ledger on a server has an address postgresql://HOST/DATABASE."
    if wrong is not None:
        reader.fail("url", wrong, "See dpsql help ledger.")
    return LedgerPlace(str(folder / reader.text("path", "dpsql.ledger")), url)


_OURS = frozenset({"niceness"})
"""Limits that the server sets itself; a policy cannot."""


def _limits(reader: Reader) -> Limits:
    reader.only(*(field.name for field in fields(Limits) if field.name not in _OURS))
    default = Limits()
    return Limits(
        max_public_groups=reader.count("max_public_groups") or default.max_public_groups,
        statement_seconds=seconds_of(reader, "statement_seconds", default.statement_seconds),
        memory=reader.memory("memory", default.memory),
        min_units_per_group=reader.count("min_units_per_group") or default.min_units_per_group,
        max_fanout=reader.count("max_fanout") or default.max_fanout,
        free_seconds=seconds_of(reader, "free_seconds", default.free_seconds),
        max_result_cells=reader.count("max_result_cells") or default.max_result_cells,
        max_result_files=reader.memory("max_result_files", default.max_result_files),
        max_spill_files=reader.memory("max_spill_files", default.max_spill_files),
        time_resolution=Resolution(
            reader.choice("time_resolution", tuple(Resolution), default.time_resolution)
        ),
        round_recent_times=reader.flag("round_recent_times"),
        max_text_length=reader.count("max_text_length") or default.max_text_length,
    )


UNCUT = ("max_groups_per_unit", "max_rows_per_group")
"""Limits that are enforced by dropping a person's rows; rows of several people are not dropped."""


def links_of(reader: Reader) -> tuple[Link | None, tuple[Link, ...], tuple[Link, ...]]:
    """Return a table's one link, its several links, and its links to unprotected people."""
    if "links" not in reader.values:
        return (_link(reader.table("link")) if "link" in reader.values else None), (), ()
    if "link" in reader.values:
        reader.fail("link", "There is link, and links beside it.", "Keep links.")
    protected, unprotected = list[Link](), list[Link]()
    for each in reader.listed("links"):
        others = each.choice("other_people", ("protected", "unprotected"), "protected")
        (protected if others == "protected" else unprotected).append(_link(each, "other_people"))
    links = (*protected, *unprotected)
    reader.distinct(tuple(", ".join(link.columns) for link in links), "links")
    if len(protected) < 2:  # noqa: PLR2004
        return next(iter(protected), None), (), tuple(unprotected)
    for key in UNCUT:
        if limit_of(reader, key) is not None or limits_by(reader, key):
            why = f"Rows of several people are not cut to {key}."
            reader.fail(key, why, "Declare max_rows_per_unit, over all links together.")
    for name, column in reader.table("columns").tables():
        if "max_per_unit" in column.values:
            why = f"Totals of {name} are not cut to max_per_unit: rows belong to several people."
            column.fail("max_per_unit", why, "Declare max_rows_per_unit, over all links together.")
    return None, tuple(protected), tuple(unprotected)


def _link(reader: Reader, *more: str) -> Link:
    """Return one link: by one column, or by a list of columns with a list of referenced ones."""
    reader.only("column", "references", *more)
    table, dot, key = reader.text("references").rpartition(".")
    if not dot:
        reader.fail("references", "references names no column.", 'Write "table.column".')
    inside = key[1:-1] if key.startswith("(") and key.endswith(")") else key
    keys = tuple(name.strip() for name in inside.split(","))
    columns = names_of(reader, "column") or (reader.text("column"),)
    if len(columns) != len(keys) or not all(keys):
        why = f"column names {len(columns)} columns, and references {len(keys)}."
        fix = 'Write column = ["a", "b"], references = "table.(a, b)".'
        reader.fail("references", why, fix)
    reader.distinct(columns, "column")
    reader.distinct(keys, "references")
    return Link(columns[0], table, keys[0], tuple(zip(columns[1:], keys[1:], strict=True)))


def names_of(reader: Reader, key: str) -> tuple[str, ...]:
    """Return the names in a list of texts; () if there is no list."""
    listed = reader.values.get(key)
    if not isinstance(listed, list):
        return ()
    if not listed or not all(isinstance(name, str) and name for name in listed):
        reader.fail(key, f"{key} is no list of columns.", f'Write {key} = ["a", "b"].')
    return tuple(listed)


def _same_unit(reader: Reader) -> tuple[Link, ...]:
    """Parse further columns that lead to the same unit as the link, with their references."""
    name = "same_unit"
    if name not in reader.values:
        return ()
    links = tuple(map(_link, reader.listed(name)))
    if any(link.more for link in links):
        reader.fail(name, "same_unit names several columns together.", "Name each alone.")
    reader.distinct(tuple(link.column for link in links), name)
    return links


def _determining(reader: Reader) -> tuple[tuple[str, ...], ...]:
    """Return the lists of columns that, by the owner's word, determine the unit."""
    name = "determines_unit"
    if name not in reader.values:
        return ()
    listed = reader.values[name]
    if not isinstance(listed, list) or not listed:
        reader.fail(name, f"{name} is no list.", f'Write {name} = ["a", ["b", "c"]].')
    each = tuple((columns,) if isinstance(columns, str) else columns for columns in listed)
    for columns in each:
        if not (isinstance(columns, list | tuple) and columns) or not all(
            isinstance(column, str) and column for column in columns
        ):
            why = f"{columns!r} is no list of columns."
            reader.fail(name, why, f'Write {name} = ["a", ["b", "c"]].')
        reader.distinct(tuple(columns), name)
    return tuple(map(tuple, each))
