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
        PolicyKey("prepared", "DuckDB: where `dpsql prepare` puts its copy of the data (`dpsql help databases`)"),
        PolicyKey("spill_unencrypted", "DuckDB: a folder, the owner's alone, where statements that need more than `memory` put private rows as they are, until they end (`dpsql help deployment`); default none: they fail"),
        PolicyKey("public", "PostgreSQL, Spark: `[database.public]`: another database with public tables, declared as here (`dpsql help databases`)"),
    ),
    "privacy_unit": (
        PolicyKey("table"), PolicyKey("key", "one key of one private table; or, where people have no table:"),
        PolicyKey("column", '`"events.user_id"`: each value of it is a person; other tables link to it (`references = "events.user_id"`); rows with NULL are unowned'),
        PolicyKey("columns", "the same of several tables that hold the same ids"),
        PolicyKey("period", '`{ every = "month", from = "2024-01", of = { events = "occurred_at" } }`: a unit is what one person did in one month, with a budget for each (`dpsql help periods`)'),
        PolicyKey("neighbours", '`"add_remove"` (default) or `"replace"`'),
        PolicyKey("epsilon", draft="The most that all budgets below spend together. A number limits them further."), PolicyKey("delta", "the most that all analysts spend of all budgets together (below: groups)"),
        *AS_OF_A_POT,
    ),
    "defaults": (
        PolicyKey("access", '`"private"`; what anybody may see is said of each table', one_of("private"), draft='What holds for every table and column that does not say otherwise. How much one unit adds, and how large numbers are, is found for each question, privately. What you know costs less noise: max_groups_per_unit = 20, max_rows_per_group = 50; of columns bounds = [0, 100] instead of private_bounds; and what is listed is shown without a threshold: values = ["a", "b"]. All of it is public. Answers over the wire wait where expected_rows of a table is undeclared. If nobody knows it, dpsql tune TABLE finds it.'),
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
        PolicyKey("rollups", '`[[], ["country"], ["country", "month"]]`: by which columns `dpsql prepare` sums up the rows of each person; `[]` by nothing else', rollups_of),
        PolicyKey("determines_unit", "`[\"ticket\"]`: rows with one value of it are of one unit, or of a list of columns, `[[\"shop\", \"receipt\"]]`; of use once `dpsql check --record` has found that it holds: such rows then join and group as one person's"),
        PolicyKey("max_rows_per_key", "`{ question_id = 50 }`: most rows, of all people together, with one value of a column; of use once `dpsql check --record` has found that it holds: [rows of two people](sql.md#rows-of-two-people) that meet by it are then counted", rows_per_key),
        PolicyKey("same_unit", '`[{ column = "order_id", references = "orders.order_id" }]`: other columns that lead to the same unit: [Several paths to one person](#several-paths-to-one-person)'),
        PolicyKey("times", "`[1900-01-01, 2199-12-31]`: aggregates clip dates and times without `bounds` to these days; no key is listed by them", times_of),
        PolicyKey("links", "a list of links: a row belongs to each person that one of them names"),
        PolicyKey("columns", "`[tables.T.columns]`, below"),
        PolicyKey("max_rows_per_unit", "most rows of one unit that count", limit_of),
        PolicyKey("max_groups_per_unit", "most groups of one query that one unit may touch", limit_of),
        PolicyKey("max_rows_per_group", "most rows of one unit that count in one group", limit_of),
        PolicyKey("max_public_groups", "most groups of this table that are answered as public keys", up_to()),
        PolicyKey("expected_rows", "about how many rows there are, as anybody may know or as `dpsql tune` finds privately: when `dpsql serve` answers, and whether an answer can be of use", up_to()),
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
        PolicyKey("type", "checked against the database; of text files and of Parquet files that differ, what values are read as", Reader.text),
        PolicyKey("format", 'of dates and times in text files: the forms that fit, as `["%d.%m.%Y", "%Y-%m-%d"]`'),
        PolicyKey("bounds", "`[low, high]`: what SUM and AVG need"),
        PolicyKey("values", "all its values"),
        PolicyKey("values_from", 'the public column `"table.column"` that lists them; of more than `max_public_groups` it lists none, and their keys are private'),
        PolicyKey("private_bounds", '`true`, `"log_histogram"`, `"quantile"` or `"sparse_vector"`: nothing is known of this number; queries find its bounds (`dpsql help answers`)'),
        PolicyKey("max_per_unit", "the most that one unit's values of this number add up to, without their signs, over all rows: what `SUM` of it is clipped to", most_in_all),
        PolicyKey("max_length", "the most characters of this text that count: what `SUM(LENGTH(c))` needs", up_to()),
        PolicyKey("randomized", '`{ mechanism = "grr", epsilon = 1.0 }`: people drew what they reported, and answers are estimates (`dpsql help local`)'),
        PolicyKey("nullable", "whether NULL is one of its values; `dpsql check` counts NULL where it is not", Reader.flag),
        PolicyKey("hidden", "it exists and may not be used", Reader.flag),
        PolicyKey("published", "of a public column: `true` says that anybody may know the keys, names, birth dates or identity numbers in it; `check` does not report it", Reader.flag),
    ),
    "budgets.B": (
        PolicyKey("epsilon", read=_epsilon, needed=True), PolicyKey("delta", "the pot", _delta, needed=True, draft="δ is a chance that this does not hold: well below 1 / number of people."),
        PolicyKey("accountant", '`"zcdp"` (default), `"pure"` (δ = 0), `"approximate"`, `"tight"`, or one of another package (entry point `dpsql.accountants`); never changed later', Reader.text),
        PolicyKey("query_epsilon", "the price of one query, unless it asks for another; default <query_epsilon>", _epsilon),
        PolicyKey("max_query_epsilon", "the most one query may ask for; default <max_query_epsilon>", _epsilon),
        PolicyKey("query_delta", "the δ of one query for publishing private keys, and for Gaussian noise under `approximate`; default <query_delta>", _delta),
        PolicyKey("min_query_charge", "the least that a question is charged, in ρ under `zcdp` and else in ε; default a tenth of what `query_epsilon` is charged", _not_negative),
        PolicyKey("confirm_above", "above this ε, a question that cannot be of use has to be confirmed, where dpsql cannot ask on a terminal; default never", _not_negative),
        PolicyKey("only_public_keys", "`true`: no question may show private keys, so that none of δ is kept for them (`zcdp`): about 5 % more questions", Reader.flag),
        PolicyKey("memory", '`"slice"` (default): what is asked is measured, and the same question is free; `"wide"`: what is measured for one question answers others too (`dpsql help answers`)', one_of(*Memory)),
        PolicyKey("share_answers", "`true`: answers that the pot paid for one analyst are free for the others; default `false`", Reader.flag),
        PolicyKey("renews"), PolicyKey("time_zone", 'the pot is filled again each `"day"`, `"week"`, `"month"`, `"quarter"` or `"year"` of this time zone (`dpsql help renewals`); default never, `"UTC"`'),
        PolicyKey("lifetime_epsilon"), PolicyKey("lifetime_delta"), PolicyKey("lifetime", 'the most over all windows of a pot that renews; or `lifetime = "unbounded"`'),
    ),
    "analysts.A": (
        PolicyKey("budget", "which pot pays for what A asks", Reader.text, needed=True),
        PolicyKey("epsilon"), PolicyKey("delta", "the most that A may spend of it (δ: the pot's)"),
        *AS_OF_A_POT,
        PolicyKey("errors", "how this analyst's sessions over the wire show intervals at first, instead of `[server] errors`", one_of(*ERRORS)),
        PolicyKey("subject", "who A is for the provider of `[oidc]`: `sub` of the tokens with which A may log in (`dpsql help http`)", Reader.text),
        PolicyKey("raw_rows", '`"refused"` (default), or `"empty"` for tools that look at one row to learn the columns: a statement over rows of people with `LIMIT 0` or `LIMIT 1` returns its columns, no rows, and a notice', one_of("refused", "empty")),
    ),
    "oidc": (
        PolicyKey("issuer", "the provider of tokens (OpenID Connect), as it calls itself in `iss`; its keys are asked for there, and kept for an hour", _url, needed=True),
        PolicyKey("audience", "what tokens for this server name in `aud`", Reader.text, needed=True),
        PolicyKey("roles_claim", "a claim that lists roles: a token that lacks one of the analyst's roles is refused; default none", Reader.text),
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
        PolicyKey("tables", '`"all"`, a list of tables, or a table `[roles.R.tables.T]` for each', draft="Each analyst may use all of this. Uncomment this to grant a part; for columns and rows see dpsql help policy. Then each analyst needs a role."),
    ),
    "roles.R.tables.T": (
        PolicyKey("columns", "of `[roles.R.tables.T]`: the columns; without it all that are not hidden"),
        PolicyKey("rows", "of a private table: the condition that rows meet; without it all rows"),
    ),
    "ledger": (
        PolicyKey("path", "where spending is recorded; default `<path>`", Reader.place, needed=True),
        PolicyKey("url", "a PostgreSQL that keeps it instead, for several hosts: `postgresql://HOST/DATABASE`, without a password; the host's mark is `PATH.mark` (`dpsql help ledger`)", Reader.text),
        PolicyKey("clock", "`\"trusted\"`: nobody but the owner sets this machine's clock, as `lifetime = \"unbounded\"` requires", one_of("trusted")),
    ),
    "check": (
        PolicyKey("accept", 'findings of `dpsql check` that you accept: a list of `{ finding = "bounds:orders.amount", data_version = 1, at_most = 1000, reason = "…" }`'),
    ),
    "limits": (
        PolicyKey("max_public_groups", "most groups answered as public keys, of tables that do not say; default <max_public_groups>", up_to()),
        PolicyKey("statement_seconds", read=Reader.seconds), PolicyKey("memory", "bounds on one query; default <statement_seconds> and <memory>", Reader.memory),
        PolicyKey("free_seconds", "how long compiling a query, or answering one over public data alone, may take; default <free_seconds>", Reader.seconds),
        PolicyKey("max_result_cells", "most values of one answer over public data that are kept in memory at once: for a table on a terminal, `markdown`, `dpsql.ask` and `executemany`; elsewhere rows are passed on as they come, or wait in a temporary file; default <max_result_cells>", up_to()),
        PolicyKey("max_result_files", "most bytes in temporary files of all such answers that are fetched in parts: by cursors, portals, the DB-API, and Parquet; half of it for one analyst if there are several; default <max_result_files>", Reader.memory),
        PolicyKey("max_spill_files", "most bytes of the statements of one worker in `spill_unencrypted` at once; default <max_spill_files>", Reader.memory),
        PolicyKey("max_fanout", "most public rows that one private row may be joined to or compared with; default <max_fanout>", up_to()),
        PolicyKey("time_resolution", '`"day"` (default), `"hour"` or `"minute"`: the grid on which `NOW()` is read, in UTC', one_of(*Resolution)),
        PolicyKey("round_recent_times", "`true`: constants with a time in the last 35 days are read on that grid, too, because tools write them; a notice says so", Reader.flag),
        PolicyKey("max_text_length", "texts are read up to this number of characters; default <max_text_length>. `dpsql check` counts longer ones (`long`)", up_to()),
        PolicyKey("min_units_per_group", "no private key of fewer units is shown, by its noisy count of them", up_to()),
    ),
    "server": (
        PolicyKey("database", "where one `dpsql serve` has several policies: the name of this one's database, of letters, digits, `.`, `_` and `-`; default the name of its file (`dpsql help postgres`)", _database_name),
        PolicyKey("host", read=Reader.text), PolicyKey("port", "where `dpsql serve` listens; default <host>, <port>", up_to(65_535)),
        PolicyKey("users", "the file of those who may log in; default `<users>`", Reader.place, needed=True),
        PolicyKey("certificate", read=Reader.place), PolicyKey("key", "PEM files for TLS; hosts other than this machine need them", Reader.place),
        PolicyKey("client_ca", "PEM file of the authorities for client certificates", Reader.place),
        PolicyKey("max_connections", read=up_to(10_000)), PolicyKey("max_message_bytes", "limits on clients; default <max_connections> and <max_message_bytes> bytes", up_to(1 << 26, 1 << 16)),
        PolicyKey("max_connections_per_analyst", "default: all of them for a single analyst, a quarter where there are four or more", up_to(10_000)),
        PolicyKey("login_seconds", read=Reader.seconds), PolicyKey("idle_seconds", "how long a login and a silent client may last; default <login_seconds> and <idle_seconds>", Reader.seconds),
        PolicyKey("idle_in_transaction_seconds", "how long a client may be silent within a transaction; default <idle_in_transaction_seconds>", Reader.seconds),
        PolicyKey("session_memory", read=Reader.memory), PolicyKey("analyst_memory", "most bytes that one session, and all sessions of an analyst, keep between messages: prepared statements, bound values and rows; default <session_memory> and <analyst_memory>", Reader.memory),
        PolicyKey("workers", "how many statements run at once, each in a process with `memory` of its own, and how many compile, at least two; default <workers>", up_to(64)),
        PolicyKey("memory", "most memory of the server itself, without its workers, above that at its start; default <memory>", Reader.memory),
        PolicyKey("answer_seconds", "when answers appear where sizes of tables are not declared; default <answer_seconds>", Reader.seconds),
        PolicyKey("max_late", "the number of late answers after which an analyst is stopped; default <max_late>", up_to(1_000_000)),
        PolicyKey("errors", 'how sessions show intervals at first: `"none"` (default), `"columns"`, `"superset"` or `"text"` (`dpsql help postgres`); `errors` of an analyst and `SET dpsql.errors` override it', one_of(*ERRORS)),
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
