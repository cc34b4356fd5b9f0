"""The policy as written: read and checked, but not yet bound to a database."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from dpsql.ledgers import LedgerPlace
from dpsql.model.dataclass import dataclass
from dpsql.model.local_reports import Randomized
from dpsql.model.other_release import OtherRelease
from dpsql.model.periods import PeriodRule
from dpsql.model.resources import Database, Limits
from dpsql.model.tree import Value
from dpsql.model.vocabulary import BoundsMethod, Budget, Cap, GroupingLimit, Link, PrivacyUnit
from dpsql.policy.value_reader import Lines


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A declared column; `type` is SQL text, `values_from` a (table, column) with its values.

    `published` means that the owner of a public column knows how much it reveals about people.
    """

    name: str
    type: str | None = None
    bounds: tuple[Any, Any] | None = None
    values: tuple[Value, ...] | None = None
    values_from: tuple[str, str] | None = None
    nullable: bool = False
    hidden: bool = False
    private_bounds: BoundsMethod | None = None
    max_per_unit: Decimal | None = None
    max_length: int | None = None
    randomized: Randomized | None = None
    remember_days: int | None = None
    published: bool = False


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A declared table."""

    name: str
    private: bool
    key: tuple[str, ...]
    link: Link | None
    max_rows_per_unit: int | None = None
    max_groups_per_unit: int | None = None
    max_rows_per_group: int | None = None
    max_public_groups: int | None = None
    columns: tuple[DraftColumn, ...] = ()
    expected_rows: int | None = None
    several: tuple[Link, ...] = ()
    unprotected: tuple[Link, ...] = ()
    groups_by: tuple[GroupingLimit, ...] = ()
    rows_by: tuple[GroupingLimit, ...] = ()
    determining: tuple[tuple[str, ...], ...] = ()
    rollups: tuple[tuple[str, ...], ...] = ()
    same_unit: tuple[Link, ...] = ()
    times: tuple[date, date] | None = None
    max_rows_per_key: tuple[tuple[str, int], ...] = ()

    @property
    def alike(self) -> tuple[tuple[str, str], ...]:
        """Columns that facts compare by their stored values, besides the key and the links, each
        with the policy's key that names it.
        """
        named = {"determines_unit": [name for columns in self.determining for name in columns]}
        named["max_rows_per_key"] = [name for name, _ in self.max_rows_per_key]
        return tuple((name, place) for place, names in named.items() for name in names)

    @property
    def named_links(self) -> tuple[Link, ...]:
        """All links to people: of the unit, unprotected, and of the same unit."""
        return (*self.links, *self.unprotected, *self.same_unit)

    @property
    def links(self) -> tuple[Link, ...]:
        """Links to the privacy units that own the rows."""
        return self.several if self.link is None else (self.link,)


ERRORS = ("none", "columns", "superset", "text")
"""Forms in which intervals are shown over the wire."""


BY_TOKEN = "oidc"  # noqa: S105 - a name
"""Name of the user who logs in with a token as the password; its analyst is in the token."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """A provider of tokens, by the keys of [oidc] (`policy_keys`), and the analyst of each
    subject.
    """

    issuer: str
    audience: str
    roles_claim: str = ""
    subjects: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of `dpsql serve`, by the keys of [server] (`policy_keys`).

    `analyst_errors` are the forms in which sessions of some analysts show intervals at first. With
    `oidc` the tokens of a provider are logins.
    """

    database: str = ""
    host: str = "127.0.0.1"
    port: int = 5439
    users: str = "dpsql.users"
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    log_statements: bool = False
    max_connections: int = 100
    max_connections_per_analyst: int | None = None
    max_message_bytes: int = 1 << 20
    login_seconds: float = 15.0
    idle_seconds: float = 3600.0
    idle_in_transaction_seconds: float = 60.0
    session_memory: str = "32MB"
    analyst_memory: str = "256MB"
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    workers: int = 2
    answer_seconds: float = 6.4
    max_late: int = 20
    memory: str = "2GB"
    errors: str = "none"
    analyst_errors: tuple[tuple[str, str], ...] = ()
    oidc: OidcSettings | None = None


@dataclass(frozen=True, slots=True)
class AcceptedFinding:
    """A finding of `dpsql check` that an owner accepts: its id, the most rows or units in one data
    version, and the reason.
    """

    finding: str
    data_version: int
    at_most: int
    reason: str
    line: int


@dataclass(frozen=True, slots=True)
class DraftGrant:
    """A grant as written: `columns` is None for all columns, `rows` for all rows."""

    table: str
    columns: tuple[str, ...] | None = None
    rows: str | None = None

    def __str__(self) -> str:
        columns = "" if self.columns is None else f" ({', '.join(self.columns)})"
        return f"{self.table}{columns}" + ("" if self.rows is None else f" where {self.rows}")


@dataclass(frozen=True, slots=True)
class DraftRole:
    """A role as written: `grants` is None for all tables."""

    name: str
    analysts: frozenset[str]
    grants: tuple[DraftGrant, ...] | None

    def __str__(self) -> str:
        granted = "all tables" if self.grants is None else "; ".join(map(str, self.grants))
        return f"{self.name} ({', '.join(sorted(self.analysts))}): {granted}"


@dataclass(frozen=True, slots=True)
class Draft:
    """The whole policy as written. `lines` finds a key's line; paths are absolute. `empty_rows`
    lists the analysts who get no rows, instead of a refusal, when they ask for single rows.
    """

    path: str
    lines: Lines
    database: Database
    unit: PrivacyUnit
    tables: tuple[DraftTable, ...]
    budgets: tuple[Budget, ...]
    analysts: tuple[tuple[str, str], ...]
    ledger: LedgerPlace
    limits: Limits
    server: ServerSettings
    empty_rows: frozenset[str] = frozenset()
    caps: tuple[Cap, ...] = ()
    accepted: tuple[AcceptedFinding, ...] = ()
    roles: tuple[DraftRole, ...] = ()
    releases: tuple[OtherRelease, ...] = ()
    period: PeriodRule | None = None

    def is_column(self, link: Link) -> bool:
        """Test whether a link leads to the unit if people have no table: its values are the
        units.
        """
        return link.table == self.unit.table and self.table(self.unit.table) is None

    def table(self, name: str) -> DraftTable | None:
        """Return the table called `name`, ignoring case; None if there is none."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)
