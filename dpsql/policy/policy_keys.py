"""Keys of a policy, one row each: the table, the name, the sentence on the page, and how to read it.

The page `docs/policy.md` prints these rows; defaults are those of the classes in `DEFAULTS`. A key
without a sentence shares that of the next one. A key without `read` is read together with others.
"""

# ruff: noqa: E501  one key, one row

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from textwrap import wrap
from typing import Any, NamedTuple

from dpsql.ledgers import LedgerPlace
from dpsql.model.file_formats import ENCODINGS, FileFormat
from dpsql.model.public_times import Resolution
from dpsql.model.query_options import Memory
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Budget
from dpsql.policy.draft import ERRORS, ServerSettings
from dpsql.policy.limit_values import limit_of, most_in_all, rollups_of, rows_per_key, times_of
from dpsql.policy.safe_urls import is_safe_url
from dpsql.policy.value_reader import Reader

LEAST_EPSILON, MOST_EPSILON = Decimal("1e-9"), Decimal("1e6")
"""Least ε, the step of the ledger's count; and the largest ε with any guarantee."""
LEAST_DELTA = Decimal("1e-18")

DATABASE_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""Names of databases, also as parts of addresses."""

Read = Callable[[Reader, str, Any], Any]


class PolicyKey(NamedTuple):
    """A key of one table; a `needed` one is also read where it is absent. `draft` is the comment
    above it in the drafts of `dpsql init`.
    """

    name: str
    says: str = ""
    read: Read | None = None
    needed: bool = False
    draft: str = ""


def one_of(*options: str) -> Read:
    """Return how to read one of a few words; those of an enumeration become its members."""
    return lambda reader, key, default: options[options.index(reader.choice(key, options, default))]


def up_to(most: int | None = None, least: int = 1) -> Read:
    """Return how to read a whole number between bounds."""
    return lambda reader, key, _: reader.count(key, most, least)


def _epsilon(reader: Reader, key: str, default: Decimal | None) -> Decimal:
    epsilon = reader.amount(key, default)
    if epsilon <= 0:
        reader.fail(key, f"{key} must be above zero.", f"Write {key} = 0.1.")
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        reader.fail(key, f"{key} is no useful amount.", f"Write {key} = 0.1.")
    return epsilon


def _delta(reader: Reader, key: str, default: Decimal) -> Decimal:
    delta = reader.amount(key, default)
    if not 0 <= delta < 1:
        reader.fail(key, f"{key} must be in [0, 1).", f"Write {key} = 1e-6.")
    if 0 < delta < LEAST_DELTA:
        reader.fail(key, f"{key} is below what the ledger counts.", f"Write {key} = 1e-6.")
    return delta


def _not_negative(reader: Reader, key: str, _: None) -> Decimal:
    amount = reader.amount(key)
    if amount < 0:
        reader.fail(key, f"{key} is below zero.", f"Write {key} = 0.0, or leave it out.")
    return amount


def _url(reader: Reader, key: str, _: None) -> str:
    url = reader.text(key)
    if not is_safe_url(url):
        reader.fail(key, f"The {key} is not reached by https.", f'Write {key} = "https://…".')
    return url


def _database_name(reader: Reader, key: str, default: str) -> str:
    name = reader.text(key, default)
    if not DATABASE_NAME.fullmatch(name):
        reader.fail(key, f"{name!r} names no database.", f'Write {key} = "clinic".')
    return name


def _delimiter(reader: Reader, key: str, default: str) -> str:
    sign = reader.text(key, default)
    if len(sign) != 1 or sign in "\r\n\x1f\x00" or sign.isalnum():
        reader.fail(key, f"{sign!r} divides no fields.", f'Write {key} = ";".')
    return sign


def _inline(names: str) -> tuple[PolicyKey, ...]:
    """Return the keys of a table that the sentence of its own key shows."""
    return tuple(map(PolicyKey, names.split()))


DEFAULTS = {
    "budgets.B": Budget("", Decimal(1), Decimal(0)),
    "ledger": LedgerPlace("dpsql.ledger"),
    "limits": Limits(),
    "server": ServerSettings(),
    "tables.T.file": FileFormat(),
}

AS_OF_A_POT = (
    *map(PolicyKey, ("renews", "time_zone", "lifetime", "lifetime_epsilon")),
    PolicyKey("lifetime_delta", "as of a pot"),
)

# fmt: off
KEYS: dict[str, tuple[PolicyKey, ...]] = {
    "database": (
        PolicyKey("engine", '`"duckdb"`, `"postgres"`, `"spark"`, or one of another package (entry point `dpsql.engines`)'),
        PolicyKey("path", "DuckDB: its file; or"),
        PolicyKey("files", "DuckDB: `[database.files]`: a table name for each Parquet or CSV file or glob; Spark: for each Parquet file or folder"),
        PolicyKey("prepared", "DuckDB: where `dpsql prepare` puts its copy of the data"),
        PolicyKey("spill_unencrypted", "DuckDB: the owner's folder where statements that need more than `memory` put private rows, unencrypted, until they end (`dpsql help deployment`); default none: they fail"),
        PolicyKey("public", "PostgreSQL, Spark: `[database.public]`: another database with public tables, declared as here"),
    ),
    "privacy_unit": (
        PolicyKey("table"), PolicyKey("key", "one key of one private table; or, where people have no table:"),
        PolicyKey("column", '`"events.user_id"`: each value is a person; other tables link to it; rows with NULL are unowned'),
        PolicyKey("columns", "the same of several tables that hold the same ids"),
        PolicyKey("period", '`{ every = "month", from = "2024-01", of = { events = "occurred_at" } }`: what one person did in one month is a unit (`dpsql help periods`)'),
        PolicyKey("neighbours", '`"add_remove"` (default) or `"replace"`'),
        PolicyKey("epsilon", draft="The most that all budgets below spend together. A number limits them further."), PolicyKey("delta", "the most that all budgets spend together (below: groups)"),
        *AS_OF_A_POT,
    ),
    "defaults": (
        PolicyKey("access", '`"private"`; public tables say so', one_of("private"), draft='What holds for every table and column that does not say otherwise. How much one unit adds, and how large numbers are, is found for each question, privately. What you know costs less noise: max_groups_per_unit = 20, max_rows_per_group = 50; of columns bounds = [0, 100] instead of private_bounds; and what is listed is shown without a threshold: values = ["a", "b"]. All of it is public. Answers over the wire wait where expected_rows of a table is undeclared. If nobody knows it, dpsql tune TABLE finds it.'),
        PolicyKey("nullable", "of every column", Reader.flag),
        PolicyKey("times", "of every private table", times_of, draft="Averages and extremes of dates and times clip them to these days, unless a column has bounds. Keys are not listed by them. Nothing of it is read from rows."),
        PolicyKey("max_rows_per_unit", read=limit_of), PolicyKey("max_groups_per_unit", read=limit_of), PolicyKey("max_rows_per_group", "of every private table with one `link`", limit_of),
        PolicyKey("other_people", "of every one of `links` but the first", one_of("protected", "unprotected"), draft='Some rows name several people: they belong to all of them if the others are "protected", too, and then need max_rows_per_unit over all links. If they are "unprotected", nothing is promised to them about these rows.'),
    ),
    "tables.T": (
        PolicyKey("access", '`"private"` or `"public"`; a table not named does not exist'),
        PolicyKey("key", "the table's own key: a column or a list of columns"),
        PolicyKey("link", "`{ column = \"…\", references = \"table.key\" }`: one hop towards the unit; hops chain; of several columns `{ column = [\"item\", \"ticket\"], references = \"sales.(item, ticket)\" }`, all of that table's `key`"),
        PolicyKey("file", "how the lines of text files are read: [Text files](#text-files)"),
        PolicyKey("rollups", '`[[], ["country"], ["country", "month"]]`: by which columns `dpsql prepare` sums up the rows of each person', rollups_of),
        PolicyKey("determines_unit", "`[\"ticket\"]`: rows with one value of it, or of a list of columns, `[[\"shop\", \"receipt\"]]`, are of one unit: once `dpsql check --record` confirms it, they join and group as one person's"),
        PolicyKey("max_rows_per_key", "`{ question_id = 50 }`: most rows, of all people together, with one value of a column: once `dpsql check --record` confirms it, [rows of two people](sql.md#rows-of-two-people) join by it", rows_per_key),
        PolicyKey("same_unit", '`[{ column = "order_id", references = "orders.order_id" }]`: other columns that lead to the same unit: [Several paths to one person](#several-paths-to-one-person)'),
        PolicyKey("times", "`[1900-01-01, 2199-12-31]`: aggregates clip dates and times without `bounds` to these days; they list no key", times_of),
        PolicyKey("links", "a list of links: a row belongs to each person that one of them names"),
        PolicyKey("columns", "`[tables.T.columns]`, below"),
        PolicyKey("max_rows_per_unit", "most rows of one unit that count", limit_of),
        PolicyKey("max_groups_per_unit", "most groups of one query that one unit may touch", limit_of),
        PolicyKey("max_rows_per_group", "most rows of one unit that count in one group", limit_of),
        PolicyKey("max_public_groups", "most groups of this table that are answered as public keys", up_to()),
        PolicyKey("expected_rows", "about how many rows there are, as anybody may know or `dpsql tune` finds privately: decides when `dpsql serve` answers", up_to()),
    ),
    "tables.T.file": (
        PolicyKey("delimiter", read=_delimiter), PolicyKey("quote", "the sign between fields, and around them (`\"\"`: none); default `\",\"`, `'\"'`", one_of('"', "'", "")),
        PolicyKey("header", read=Reader.flag), PolicyKey("names", read=Reader.texts), PolicyKey("skip", "whether a line names the columns; their names; how many lines stand before; default true, by the header, 0", up_to()),
        PolicyKey("encoding", "`utf-8` (default), `utf-16`, `latin-1` or `windows-1252`", one_of(*ENCODINGS)),
        PolicyKey("null_words", 'fields without quotes that are NULL; default `[""]`', lambda reader, key, _: reader.texts(key, empty=True)),
        PolicyKey("decimal", read=one_of(".", ",")), PolicyKey("thousands", 'the signs in numbers; default `"."`, none', one_of("", ",", ".", "'", " ", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}")),
        PolicyKey("dates", "forms of dates, the first that fits; a column's `format` is its own; default `\"%Y-%m-%d\"`", Reader.texts),
        PolicyKey("multiline", "fields in quotes may hold line ends; default false", Reader.flag),
    ),
    "tables.T.columns": (
        PolicyKey("type", "checked against the database; text files, and Parquet files that differ, are read as it", Reader.text),
        PolicyKey("format", 'of dates and times in text files: the forms that fit, as `["%d.%m.%Y", "%Y-%m-%d"]`'),
        PolicyKey("bounds", "`[low, high]`: what SUM and AVG need"),
        PolicyKey("values", "all its values"),
        PolicyKey("values_from", 'the public column `"table.column"` that lists them; beyond `max_public_groups` its keys are private'),
        PolicyKey("private_bounds", '`true`, `"log_histogram"`, `"quantile"` or `"sparse_vector"`: queries find its bounds (`dpsql help methods`)'),
        PolicyKey("max_per_unit", "the most that one unit's values add up to, without signs, over all rows: what `SUM` is clipped to", most_in_all),
        PolicyKey("max_length", "the most characters of this text that count: what `SUM(LENGTH(c))` needs", up_to()),
        PolicyKey("randomized", '`{ mechanism = "grr", epsilon = 1.0 }`: people drew what they reported (`dpsql help local`)'),
        PolicyKey("nullable", "whether NULL is one of its values; `dpsql check` counts NULL where it is not", Reader.flag),
        PolicyKey("hidden", "it exists and may not be used", Reader.flag),
        PolicyKey("published", "of a public column: `true`: anybody may know the keys, names, birth dates or identity numbers in it", Reader.flag),
    ),
    "budgets.B": (
        PolicyKey("epsilon", read=_epsilon, needed=True), PolicyKey("delta", "the pot", _delta, needed=True, draft="δ is a chance that this does not hold: well below 1 / number of people."),
        PolicyKey("accountant", '`"zcdp"` (default), `"pure"` (δ = 0), `"approximate"`, `"tight"`, or one of another package (entry point `dpsql.accountants`); never changed later', Reader.text),
        PolicyKey("query_epsilon", "the price of one query that names none; default <query_epsilon>", _epsilon),
        PolicyKey("max_query_epsilon", "the most one query may ask for; default <max_query_epsilon>", _epsilon),
        PolicyKey("query_delta", "the δ of one query for publishing private keys, and for Gaussian noise under `approximate`; default <query_delta>", _delta),
        PolicyKey("min_query_charge", "the least that a question is charged, in ρ under `zcdp` and else in ε; default a tenth of what `query_epsilon` is charged", _not_negative),
        PolicyKey("confirm_above", "above this ε, useless questions have to be confirmed, where dpsql cannot ask on a terminal; default never", _not_negative),
        PolicyKey("only_public_keys", "`true`: no private keys, so that no δ is kept for them (`zcdp`): about 5 % more questions", Reader.flag),
        PolicyKey("memory", '`"slice"` (default): the same question is free; `"wide"`: what is measured for one question answers others too (`dpsql help reuse`)', one_of(*Memory)),
        PolicyKey("share_answers", "`true`: answers that the pot paid for one analyst are free for the others; default `false`", Reader.flag),
        PolicyKey("renews"), PolicyKey("time_zone", 'the pot is filled again each `"day"`, `"week"`, `"month"`, `"quarter"` or `"year"` of this time zone (`dpsql help renewals`); default never, `"UTC"`'),
        PolicyKey("lifetime_epsilon"), PolicyKey("lifetime_delta"), PolicyKey("lifetime", 'the most over all windows of a pot that renews; or `lifetime = "unbounded"`'),
    ),
    "analysts.A": (
        PolicyKey("budget", "which pot pays for what A asks", Reader.text, needed=True),
        PolicyKey("epsilon"), PolicyKey("delta", "the most that A may spend of it (δ: the pot's)"),
        *AS_OF_A_POT,
        PolicyKey("errors", "as `[server] errors`, for this analyst", one_of(*ERRORS)),
        PolicyKey("subject", "who A is for the provider of `[oidc]`: the `sub` of tokens", Reader.text),
        PolicyKey("raw_rows", '`"refused"` (default), or `"empty"` for tools that look at one row to learn the columns: rows of people with `LIMIT 0` or `LIMIT 1` return columns, no rows, and a notice', one_of("refused", "empty")),
    ),
    "oidc": (
        PolicyKey("issuer", "the provider of tokens (OpenID Connect), as in `iss`; it is asked for keys", _url, needed=True),
        PolicyKey("audience", "what tokens for this server name in `aud`", Reader.text, needed=True),
        PolicyKey("roles_claim", "a claim that must list all roles of the analyst; default none", Reader.text),
    ),
    "groups.G": (
        PolicyKey("analysts", "who they are"),
        PolicyKey("budget", "the pot; without it all their pots, which need one accountant"),
        PolicyKey("epsilon"), PolicyKey("delta", "the most"),
        *AS_OF_A_POT,
    ),
    "releases.R": (
        PolicyKey("epsilon", read=_epsilon, needed=True), PolicyKey("delta", "the guarantee of that release; δ by default 0", _delta),
        PolicyKey("about", "what was released, and where it stands", Reader.text),
    ),
    "roles.R": (
        PolicyKey("analysts"), PolicyKey("groups", "who has the role: analysts of this policy, and all analysts of a `[groups.G]`"),
        PolicyKey("tables", '`"all"`, a list of tables, or a table `[roles.R.tables.T]` for each', draft="Each analyst may use all of this. Uncomment this to grant a part; for columns and rows see dpsql help roles. Then each analyst needs a role."),
    ),
    "roles.R.tables.T": (
        PolicyKey("columns", "of `[roles.R.tables.T]`: the columns; without it all that are not hidden"),
        PolicyKey("rows", "of a private table: the condition that rows meet; without it all rows"),
    ),
    "ledger": (
        PolicyKey("path", "where spending is recorded; default `<path>`", Reader.place, needed=True),
        PolicyKey("url", "a PostgreSQL that keeps it, for several hosts: `postgresql://HOST/DATABASE`, without a password; the mark is `PATH.mark` (`dpsql help ledger`)", Reader.text),
        PolicyKey("id", "the id of the ledger, from `dpsql ledger verify`: an empty folder, or another ledger, is then refused", Reader.text),
        PolicyKey("clock", "`\"trusted\"`: nobody but the owner sets this machine's clock, as `lifetime = \"unbounded\"` requires", one_of("trusted")),
    ),
    "check": (
        PolicyKey("accept", 'accepted findings: a list of `{ finding = "bounds:orders.amount", data_version = 1, at_most = 1000, reason = "…" }`'),
    ),
    "limits": (
        PolicyKey("max_public_groups", "most groups answered as public keys, of tables that do not say; default <max_public_groups>", up_to()),
        PolicyKey("statement_seconds", read=Reader.seconds), PolicyKey("memory", "bounds on one query; default <statement_seconds> and <memory>", Reader.memory),
        PolicyKey("free_seconds", "how long compiling a query, or answering one over public data alone, may take; default <free_seconds>", Reader.seconds),
        PolicyKey("max_result_cells", "most values of one answer over public data in memory at once: for tables on a terminal, `markdown`, `dpsql.ask` and `executemany`; elsewhere rows stream, or wait in a temporary file; default <max_result_cells>", up_to()),
        PolicyKey("max_result_files", "most bytes in temporary files of all such answers that are fetched in parts; half for one analyst of several; default <max_result_files>", Reader.memory),
        PolicyKey("max_spill_files", "most bytes of the statements of one worker in `spill_unencrypted` at once; default <max_spill_files>", Reader.memory),
        PolicyKey("max_fanout", "most public rows that one private row may join or be compared with; default <max_fanout>", up_to()),
        PolicyKey("time_resolution", '`"day"` (default), `"hour"` or `"minute"`: the grid on which `NOW()` is read, in UTC', one_of(*Resolution)),
        PolicyKey("round_recent_times", "`true`: constants with a time in the last 35 days, as tools write them, are read on that grid too", Reader.flag),
        PolicyKey("max_text_length", "most characters of a text that are read; default <max_text_length>. `dpsql check` counts longer ones (`long`)", up_to()),
        PolicyKey("min_units_per_group", "no private key with a lower noisy count of units is shown", up_to()),
    ),
    "server": (
        PolicyKey("database", "the name of the database, of letters, digits, `.`, `_` and `-`, where one `dpsql serve` has several policies; default the name of the file", _database_name),
        PolicyKey("host", read=Reader.text), PolicyKey("port", "where `dpsql serve` listens; default <host>, <port>", up_to(65_535)),
        PolicyKey("users", "the file of those who may log in; default `<users>`", Reader.place, needed=True),
        PolicyKey("certificate", read=Reader.place), PolicyKey("key", "PEM files for TLS, needed to listen on other addresses than loopback", Reader.place),
        PolicyKey("client_ca", "PEM file of the authorities for client certificates", Reader.place),
        PolicyKey("max_connections", read=up_to(10_000)), PolicyKey("max_message_bytes", "limits on clients; default <max_connections> and <max_message_bytes> bytes", up_to(1 << 26, 1 << 16)),
        PolicyKey("max_connections_per_analyst", "default: all for one analyst, a quarter for four or more", up_to(10_000)),
        PolicyKey("login_seconds", read=Reader.seconds), PolicyKey("idle_seconds", "how long a login and a silent client may last; default <login_seconds> and <idle_seconds>", Reader.seconds),
        PolicyKey("idle_in_transaction_seconds", "how long a client may be silent within a transaction; default <idle_in_transaction_seconds>", Reader.seconds),
        PolicyKey("session_memory", read=Reader.memory), PolicyKey("analyst_memory", "most bytes that one session, and all sessions of an analyst, keep between messages; default <session_memory> and <analyst_memory>", Reader.memory),
        PolicyKey("workers", "how many statements run at once, each in a process with `[limits] memory`, and how many compile, at least two; default <workers>", up_to(64)),
        PolicyKey("memory", "most memory of the server without workers, above that at its start; default <memory>", Reader.memory),
        PolicyKey("answer_seconds", "when answers appear over tables without `expected_rows`; default <answer_seconds>", Reader.seconds),
        PolicyKey("max_late", "late answers after which an analyst is stopped; default <max_late>", up_to(1_000_000)),
        PolicyKey("errors", 'how sessions show intervals at first: `"none"` (default), `"columns"`, `"superset"` or `"text"` (`dpsql help postgres`); an analyst and `SET dpsql.errors` override it', one_of(*ERRORS)),
        PolicyKey("metrics_port", "where counters are served to Prometheus, as `/metrics`; default none", up_to(65_535)),
        PolicyKey("metrics_host", 'the address for that; default `"<metrics_host>"`', Reader.text),
        PolicyKey("log_statements", "whether the log holds the statements, without their constants; default no", Reader.flag),
    ),
    "tables.T.link": _inline("column references"),
    "tables.T.links": _inline("column references other_people"),
    "tables.T.columns.C.randomized": _inline("mechanism epsilon p q remember_days"),
    "privacy_unit.period": _inline("every from of"),
    "check.accept": _inline("finding data_version at_most reason"),
}
# fmt: on


def only_keys(reader: Reader, section: str) -> None:
    """Refuse keys of a table that have no row."""
    reader.only(*(key.name for key in KEYS[section]))


def draft_comment(section: str, name: str) -> list[str]:
    """Return the comment above a key in drafts, in lines."""
    (said,) = (key.draft for key in KEYS[section] if key.name == name)
    return [f"# {line}" for line in wrap(said, 96, break_long_words=False, break_on_hyphens=False)]


def read_values(reader: Reader, section: str) -> dict[str, Any]:
    """Return the values in a table of the policy, by key; without keys that have no `read`.

    A key that the policy does not have is left out, unless it is `needed`.

    Raises `PolicyError` for unknown keys and wrong values.
    """
    only_keys(reader, section)
    default = DEFAULTS.get(section)
    return {
        key.name: key.read(reader, key.name, getattr(default, key.name, None))
        for key in KEYS[section]
        if key.read is not None and (key.needed or key.name in reader.values)
    }
