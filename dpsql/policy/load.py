"""load: dpsql.toml → Draft. Every mistake is an error with its line and a fix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.accountants import Accountant, get, get_for, is_affordable
from dpsql.engines.postgres.whereabouts import objection
from dpsql.ledgers import CUBES, LedgerPlace
from dpsql.model.errors import PolicyError
from dpsql.model.installed import Unusable
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
from dpsql.policy.draft import (
    BY_TOKEN,
    Draft,
    DraftColumn,
    DraftTable,
    OidcSettings,
    ServerSettings,
)
from dpsql.policy.file_sections import with_formats
from dpsql.policy.limit_values import OF_ONE_UNIT, ROWS_PER_KEY, limit_of, limits_by
from dpsql.policy.local_laws import law_of
from dpsql.policy.other_releases import read_releases
from dpsql.policy.policy_keys import KEYS, only_keys, read_values
from dpsql.policy.renewals import read_renewal
from dpsql.policy.role_sections import read_roles
from dpsql.policy.unit_links import check_links, linked_to_values, unit_columns, unit_of
from dpsql.policy.unit_periods import check_periods, read_periods
from dpsql.policy.value_reader import UNDECIDED, Lines, Reader

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
        why, fix = _unreadable(file)
        raise PolicyError(path, None, why, fix) from None
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


def _unreadable(file: Path) -> tuple[str, str]:
    """Return what a policy is that is no text, and what to do: a database is no policy."""
    with suppress(OSError), file.open("rb") as opened:
        start = opened.read(64)
        if start[8:12] == b"DUCK":
            return "This is a DuckDB file.", "Name the TOML that has its path in [database]."
        if b"\0" in start:
            fix = "If it is the database, name the TOML that has its path in [database]."
            return "It cannot be read.", fix
    return "It cannot be read.", "Save it as UTF-8 text."


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
    reader.only(*dict.fromkeys(section.partition(".")[0] for section in KEYS))
    budgets = tuple(_budget(r, name) for name, r in reader.table("budgets", required=True).tables())
    persons = _analysts(reader.table("analysts", required=True), budgets)
    analysts = tuple((name, each["budget"]) for name, each in persons.items())
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
        ledger=_ledger(reader.table("ledger")),
        limits=Limits(**read_values(reader.table("limits"), "limits")),
        server=replace(_server(reader.table("server"), persons), oidc=_oidc(reader, persons)),
        empty_rows=frozenset(n for n, each in persons.items() if each.get("raw_rows") == "empty"),
        caps=caps_of(reader, budgets, analysts),
        accepted=accepted_findings(reader.table("check")),
        roles=read_roles(reader, tuple(persons)),
        releases=read_releases(reader),
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
        schema, own = named
        if (shorter := full_name(schema, own)) != table.name:
            place.fail(None, f"{table.name} has a shorter name.", f"Write {shorter}.")
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
    common = {key.name for key in KEYS["database"]}
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
    limits = read_values(reader, "tables.T")
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
    for key in (*OF_ONE_UNIT, "max_public_groups", "times", ROWS_PER_KEY):
        if not private and key in reader.values:
            reader.fail(key, f"{name} is public and needs no {key}.", "Remove it.")
    return DraftTable(
        name,
        private,
        _key(reader),
        link,
        **limits,
        columns=columns,
        several=several,
        unprotected=unprotected,
        groups_by=limits_by(reader, "max_groups_per_unit"),
        rows_by=limits_by(reader, "max_rows_per_group"),
        determining=_determining(reader),
        same_unit=_same_unit(reader),
    )


def _key(reader: Reader) -> tuple[str, ...]:
    key = reader.values.get("key", [])
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        reader.fail("key", "key must name a column, or list some.", 'Write key = "id".')
    reader.distinct(tuple(names), "key")
    return tuple(names)


def _column(reader: Reader, name: str) -> DraftColumn:
    values = read_values(reader, "tables.T.columns")
    return DraftColumn(
        name,
        **values,
        bounds=_bounds(reader),
        values=_values(reader),
        values_from=_values_from(reader),
        private_bounds=_private_bounds(reader),
        randomized=law_of(reader),
        remember_days=reader.table("randomized").count("remember_days"),
    )


def _values_from(reader: Reader) -> tuple[str, str] | None:
    if "values_from" not in reader.values:
        return None
    table, dot, column = reader.text("values_from").rpartition(".")
    if not dot or "values" in reader.values:
        reader.fail("values_from", "values_from names a public column.", 'Write "table.column".')
    return table, column


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
            number = isinstance(end, str) and end.removeprefix("-").replace(".", "", 1).isdigit()
            fix = f"Write {end}, without quotes." if number else _ENDS
            reader.fail("bounds", f"{'The text ' * isinstance(end, str)}{end} is no bound.", fix)
    try:
        reversed_bounds = bounds[1] < bounds[0]
    except TypeError:
        reader.fail("bounds", "The bounds differ in type.", "Write two of one type.")
    if reversed_bounds:
        reader.fail("bounds", "The lower bound is above the upper.", "Swap them.")
    return bounds[0], bounds[1]


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


def _budget(reader: Reader, name: str) -> Budget:
    values = read_values(reader, "budgets.B")
    values["accountant"] = _accountant(reader, values["epsilon"], values["delta"]).name
    budget = Budget(name, **values, renews=read_renewal(reader))
    _consistent(reader, budget)
    return budget


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
    if reader.values.get("query_delta") and not accountant.supports_selection:
        why = f"The {accountant.name} accountant has no δ: query_delta has no effect."
        reader.fail("query_delta", why, "Leave it out.")
    if 0 < budget.delta < budget.query_delta:
        reader.fail("query_delta", "query_delta is above delta.", "Lower it: queries share delta.")
    if accountant.needs_delta and not (budget.delta > 0 and budget.query_delta > 0):
        why = f"The {accountant.name} accountant needs delta and query_delta."
        reader.fail("delta", why, "Write delta = 1e-6.")
    if budget.only_public_keys and not accountant.needs_delta:
        why = f"Under {accountant.name} a δ is charged where it is needed: it saves nothing."
        reader.fail("only_public_keys", why, "Leave it out.")
    if budget.min_query_charge is not None and not is_affordable(budget):
        why = "min_query_charge is more than a question of query_epsilon is charged."
        fix = "Lower it, or leave it out: then it is a tenth of that."
        reader.fail("min_query_charge", why, fix)


def _analysts(reader: Reader, budgets: tuple[Budget, ...]) -> dict[str, dict[str, Any]]:
    """Return the keys of each analyst."""
    result = {}
    for name, analyst in reader.tables():
        if name.startswith(CUBES):
            why = f"No analyst is called {name}: so are cubes."
            analyst.fail(None, why, "Choose another name.")
        result[name] = read_values(analyst, "analysts.A")
        names, budget = [b.name for b in budgets], result[name]["budget"]
        if budget not in names:
            fix = name_budget(budget, names)
            analyst.fail("budget", f"There is no budget {budget}.", fix)
    if not result:
        reader.fail(None, "There is no analyst.", "Add [analysts.NAME].")
    return result


def _server(reader: Reader, analysts: Mapping[str, Mapping[str, Any]]) -> ServerSettings:
    values = read_values(reader, "server")
    if ("certificate" in values) != ("key" in values):
        reader.fail(None, "A certificate needs its key.", "Give both certificate and key.")
    if "client_ca" in values and "certificate" not in values:
        reader.fail("client_ca", "Client certificates need TLS.", "Give certificate and key, too.")
    if "metrics_host" in values and "metrics_port" not in values:
        reader.fail("metrics_host", "Counters need a port.", "Give metrics_port, too.")
    own = tuple((name, each["errors"]) for name, each in analysts.items() if "errors" in each)
    return ServerSettings(**values, analyst_errors=own)


def _oidc(reader: Reader, analysts: Mapping[str, Mapping[str, Any]]) -> OidcSettings | None:
    """Return the provider of tokens with the subjects of analysts; None without one."""
    subjects = [(each["subject"], name) for name, each in analysts.items() if "subject" in each]
    places = reader.table("analysts")
    for n, (subject, name) in enumerate(subjects):
        if "oidc" not in reader.values:
            why, fix = "A subject needs its provider.", "Add [oidc] with issuer and audience."
            places.table(name).fail("subject", why, fix)
        if subject in dict(subjects[:n]):
            fix = "Give each analyst another subject."
            places.table(name).fail("subject", f"Two analysts are {subject}.", fix)
    if "oidc" not in reader.values:
        return None
    if BY_TOKEN in analysts:
        why = f"No analyst is called {BY_TOKEN}: so is the user of tokens."
        places.table(BY_TOKEN).fail(None, why, "Choose another name.")
    return OidcSettings(**read_values(reader.table("oidc"), "oidc"), subjects=tuple(subjects))


def _ledger(reader: Reader) -> LedgerPlace:
    values = read_values(reader, "ledger")
    url = values.get("url", "")
    wrong = objection({"dsn": url}) if url else None
    if url and not url.startswith(("postgresql://", "postgres://")):
        wrong = "A ledger on a server has an address postgresql://HOST/DATABASE."
    if wrong is not None:
        reader.fail("url", wrong, "See dpsql help ledger.")
    return LedgerPlace(values["path"], url, values.get("id", ""))


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
        (protected if others == "protected" else unprotected).append(_link(each, "tables.T.links"))
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


def _link(reader: Reader, section: str = "tables.T.link") -> Link:
    """Return one link: by one column, or by a list of columns with a list of referenced ones."""
    only_keys(reader, section)
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
        why = "same_unit leads by one column each, and this key has several."
        reader.fail(name, why, "Leave it out, and join these tables by their links as well.")
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
