"""Settings for SET, SHOW and RESET, each with its default and its rule.

`_ALL` are those with a rule of their own. PostgreSQL 15's other settings have no effect on a
read-only server. They are kept because clients set them by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

from dpsql.interfaces.pgwire.catalogue.naming import searched
from dpsql.interfaces.pgwire.catalogue.recorded import rows
from dpsql.interfaces.pgwire.time_zones import zone_name
from dpsql.interfaces.shown_intervals import errors_setting
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.query_options import requested_precision, sensible
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import Request

VERSION = "15.0"
"""Version of PostgreSQL that the catalogue and the behaviour follow."""


class BadSetting(Exception):
    """Raised if a setting is unknown, has a bad value, or may not be set; see `sqlstate`.

    `hint` is a statement that works.
    """

    def __init__(self, sqlstate: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.sqlstate, self.hint = sqlstate, hint


MOST_CHARACTERS, MOST_UNREAD = 4096, 128
"""Maximum length of a setting, and of one without effect. Savepoints keep copies of them."""

Rule = Callable[[str], str]
"""Function that returns the value to keep. Raises ValueError for invalid values."""

_TRUTH = {"on": "on", "true": "on", "yes": "on", "1": "on", "t": "on"}
_TRUTH |= {"off": "off", "false": "off", "no": "off", "0": "off", "f": "off"}
_DURATION = re.compile(r"(\d{1,10})\s*(us|ms|s|min|h|d|)\Z")
_MILLISECONDS = {"us": 0.001, "": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3.6e6, "d": 8.64e7}


def _any(value: str) -> str:
    return value


def _short(value: str) -> str:
    """Check the length of a value for a setting without effect."""
    return value if len(value) <= MOST_UNREAD else _fail()


def _truth(value: str) -> str:
    return _TRUTH.get(value.lower()) or _fail()


def _fail() -> str:
    raise ValueError


def _only(*allowed: str) -> Rule:
    """Return a rule that allows these words in any case, and keeps the first of them."""

    def rule(value: str) -> str:
        return allowed[0] if value.lower() in {a.lower() for a in allowed} else _fail()

    return rule


def _encoding(value: str) -> str:
    """Return the encoding UTF8. Only letters and digits of its name count, as in PostgreSQL."""
    name = "".join(c for c in value.lower() if c.isalnum())
    return "UTF8" if name in ("utf8", "unicode") else _fail()


def _one_of(*allowed: str) -> Rule:
    def rule(value: str) -> str:
        return value.lower() if value.lower() in allowed else _fail()

    return rule


def _duration(value: str) -> str:
    return f"{int(milliseconds(value))}ms" if milliseconds(value) else "0"


def milliseconds(value: str) -> float:
    """Parse a duration of PostgreSQL's settings, in milliseconds. Raises ValueError.

    >>> milliseconds("5s"), milliseconds("250"), milliseconds("2min")
    (5000, 250, 120000)
    """
    match = _DURATION.match(value.strip())
    if match is None:
        raise ValueError
    return int(match[1]) * _MILLISECONDS[match[2]]


def _epsilon(value: str) -> str:
    try:
        epsilon = Decimal(value) if value else Decimal(1)
    except InvalidOperation:
        return _fail()
    return value if sensible(epsilon) else _fail()


def _within(value: str) -> str:
    """Return an error that answers may have, such as 25 or 5%; empty for none."""
    try:
        requested_precision(None, value or None, None)
    except Refused:
        return _fail()
    return value


def _date_style(value: str) -> str:
    parts = [part.strip().lower() for part in value.split(",")]
    return "ISO, MDY" if "iso" in parts else _fail()


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. `rule` None means read-only; changes of `reported` settings are sent to
    clients.
    """

    name: str
    default: str
    rule: Rule | None = _any
    reported: bool = False


_INTERVAL_STYLES = ("postgres", "iso_8601", "sql_standard", "postgres_verbose")
"""Values of IntervalStyle, which have no effect."""
_LEVELS = ("serializable", "repeatable read", "read committed", "read uncommitted")

_ALL = (
    Setting("application_name", "", reported=True),
    Setting("bytea_output", "hex", _only("hex")),
    Setting("client_encoding", "UTF8", _encoding, reported=True),
    Setting("client_min_messages", "notice", _one_of("notice", "warning", "error", "log", "debug")),
    Setting("DateStyle", "ISO, MDY", _date_style, reported=True),
    Setting("default_transaction_deferrable", "off", _truth),
    Setting("default_transaction_isolation", "read committed", _one_of(*_LEVELS)),
    Setting("default_transaction_read_only", "on", _truth, reported=True),
    Setting("dpsql.confirm", "off", _truth),
    Setting("dpsql.digits", "all", _one_of("all", "interval")),
    Setting("dpsql.epsilon", "", _epsilon),
    Setting("dpsql.errors", "none", errors_setting),
    Setting("dpsql.nonnegative", "off", _truth),
    Setting("dpsql.notices", "off", _truth),
    Setting("dpsql.within", "", _within),
    Setting("escape_string_warning", "on", _truth),
    Setting("extra_float_digits", "1", lambda value: str(int(value))),
    Setting("idle_in_transaction_session_timeout", "0", _duration),
    Setting("idle_session_timeout", "0", _duration),
    Setting("in_hot_standby", "off", None, reported=True),
    Setting("integer_datetimes", "on", None, reported=True),
    Setting("IntervalStyle", "postgres", _one_of(*_INTERVAL_STYLES), reported=True),
    Setting("is_superuser", "off", None, reported=True),
    Setting("jit", "off", _truth),
    Setting("lc_collate", "C", None),
    Setting("lc_ctype", "C", None),
    Setting("lc_messages", "C", _any),
    Setting("lock_timeout", "0", _duration),
    Setting("max_identifier_length", "63", None),
    Setting("role", "none", _only("none")),
    Setting("row_security", "on", _truth),
    Setting("search_path", '"$user", public'),
    Setting("server_encoding", "UTF8", None, reported=True),
    Setting("server_version", VERSION, None, reported=True),
    Setting("server_version_num", "150000", None),
    Setting("session_authorization", "", _only(), reported=True),
    Setting("ssl", "off", None),
    Setting("standard_conforming_strings", "on", _only("on", "true", "1"), reported=True),
    Setting("statement_timeout", "0", _duration),
    Setting("synchronous_commit", "on", _any),
    Setting("TimeZone", "UTC", zone_name, reported=True),
    Setting("transaction_deferrable", "off", _truth),
    Setting("transaction_isolation", "read committed", _one_of(*_LEVELS)),
    Setting("transaction_read_only", "on", _truth),
)


def _recorded() -> Iterator[Setting]:
    """Yield all other settings of PostgreSQL. User settings are kept, without effect.

    Settings that would change answers keep their default.
    """
    for row in rows("pg_settings"):
        default = "" if row["setting"] == "\\N" else row["setting"]
        rule = _RULES[row["vartype"]] if row["context"] == "user" else None
        if row["name"] in _CHANGING:
            rule = _only(default)
        elif row["vartype"] == "enum":
            rule = rule and _one_of(*row["enumvals"].strip("{}").split(","))
        yield Setting(row["name"], default, rule)


_HINTS = {
    "dpsql.digits": "SET dpsql.digits = interval, or all.",
    "dpsql.errors": (
        "SET dpsql.errors = columns, superset, text or none, or a pattern such as '*_low, *_high'."
    ),
    "dpsql.within": "SET dpsql.within = '5%', or 100.",
}
_CHANGING = frozenset(
    """array_nulls backslash_quote lc_monetary lc_numeric lc_time quote_all_identifiers
    transform_null_equals xmlbinary""".split()
)
"""Settings that change answers in PostgreSQL if they are not the default."""
_RULES: Mapping[str, Rule] = {
    "bool": _truth, "integer": _short, "real": _short, "string": _short, "enum": _any,
}  # fmt: skip
_BY_NAME = {s.name.lower(): s for s in (*_recorded(), *_ALL)}


class SessionSettings(Mapping[str, str]):
    """Settings of one session: a mapping of the present values by name in lower case.

    `fixed` are values from the login.
    """

    def __init__(self, fixed: Mapping[str, str]) -> None:
        self._defaults = {name: setting.default for name, setting in _BY_NAME.items()}
        self._defaults.update(fixed)
        self._values: dict[str, str] = {}
        self._local: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        for values in (self._local, self._values):
            if name in values:
                return values[name]
        default = f"default_{name}"
        return self[default] if default in self._defaults else self._defaults[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._defaults)

    def __len__(self) -> int:
        return len(self._defaults)

    def show(self, name: str) -> str:
        """Return the present value. Raises `BadSetting`."""
        return self[_setting(name)]

    def all(self) -> tuple[tuple[str, str], ...]:
        """Return every setting with its value, sorted by name."""
        return tuple((setting.name, self[name]) for name, setting in sorted(_BY_NAME.items()))

    def set(self, name: str, value: str | None, *, local: bool) -> None:
        """Set a value; None sets the default. Raises `BadSetting`."""
        key = _setting(name)
        rule = _BY_NAME[key].rule
        if rule is None:
            raise BadSetting("55P02", f'parameter "{key}" cannot be changed')
        if value is not None and len(value) > MOST_CHARACTERS:
            raise BadSetting("22023", f'value for parameter "{key}" is too long')
        try:
            setting = self._defaults[key] if value is None else rule(value)
        except (ValueError, OverflowError):
            message = f'invalid value for parameter "{key}": "{value}"'
            raise BadSetting("22023", message, _HINTS.get(key, "")) from None
        (self._local if local else self._values)[key] = setting
        if not local:
            self._local.pop(key, None)

    def start_with(self, name: str, value: str) -> None:
        """Set a value of the startup message as the session's default."""
        self.set(name, value, local=False)
        self._defaults[_setting(name)] = self._values.pop(_setting(name))

    def change_default(self, name: str, value: str) -> None:
        """Change the default of a setting; a value that was set before is dropped."""
        if self._defaults[name] != value:
            self._defaults[name] = value
            self._values.pop(name, None)
            self._local.pop(name, None)

    def reset(self, name: str | None) -> None:
        """Reset one setting, or all. Raises `BadSetting`."""
        for key in list(self._values) if name is None else [_setting(name)]:
            self._values.pop(key, None)
            self._local.pop(key, None)

    def saved(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the values for a later `restore`."""
        return dict(self._values), dict(self._local)

    def key(self) -> object:
        """Return a key that is equal as long as all values are."""
        return tuple(self._values.items()), tuple(self._local.items())

    def restore(self, saved: tuple[dict[str, str], dict[str, str]]) -> None:
        """Restore saved values."""
        self._values, self._local = dict(saved[0]), dict(saved[1])

    def forget_local(self) -> None:
        """Drop the values that were set for the transaction."""
        self._local.clear()

    def reported(self) -> dict[str, str]:
        """Return the settings that are sent to clients."""
        return {s.name: self[name] for name, s in _BY_NAME.items() if s.reported}


def with_settings(request: Request, settings: Mapping[str, str]) -> Request:
    """Return a request with the settings of its session. A price of its own takes precedence."""
    epsilon, within = settings["dpsql.epsilon"], settings["dpsql.within"]
    if request.epsilon is None and request.precision is None:
        precision = requested_precision(None, within or None, None)
        price = Decimal(epsilon) if epsilon and not within else None
        request = replace(request, epsilon=price, precision=precision)
    return replace(
        request,
        nonnegative=settings["dpsql.nonnegative"] == "on",
        confirmed=settings["dpsql.confirm"] == "on",
        search_path=searched(settings["search_path"]),
        client=settings["application_name"] or request.client,
    )


def spelled(name: str) -> str:
    """Return the official spelling of a setting; unknown names unchanged."""
    setting = _BY_NAME.get(name.lower())
    return name if setting is None else setting.name


def _setting(name: str) -> str:
    if name.lower() not in _BY_NAME:
        near = nearest(name, _BY_NAME)
        hint = "" if near is None else f"; did you mean {near}?"
        raise BadSetting("42704", f'unrecognized configuration parameter "{name}"{hint}')
    return name.lower()
