"""Where the owner's PostgreSQL is, as a policy says it: never with a password (SECURITY.md S25).

A password comes from PGPASSWORD, or from a file that libpq reads and nobody else may: PGPASSFILE,
~/.pgpass, or that of the service.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from dpsql.model.errors import MissingExtra

_PASSWORD = re.compile(r"\b(?:ssl)?password\s*=|//[^/@]*:[^/@]*@", re.IGNORECASE)
_SERVICE = re.compile(r"service=([\w-]+)")
_DSN = re.compile(r"postgres(?:ql)?://|.*\bdbname\s*=")
_OTHERS = 0o077
"""What a group and everybody may do with a file."""
_HIDDEN = "A password stands in no policy: give it in PGPASSWORD, or in ~/.pgpass with mode 0600."


def objection(settings: Mapping[str, str]) -> str | None:
    """What is wrong with the policy's [database], None where nothing is.

    >>> objection({"dsn": "postgresql://ana:secret@db/shop"}) == _HIDDEN
    True
    >>> objection({"dsn": "postgresql://ana@db/shop"})
    """
    if ("dsn" in settings) == ("service" in settings):
        return "The data is at a dsn or in a service."
    if _PASSWORD.search(settings.get("dsn", "")):
        return _HIDDEN
    services = Path(os.environ.get("PGSERVICEFILE", "~/.pg_service.conf")).expanduser()
    if "service" in settings and _is_open(services):
        return "The file of services holds a password that others may read: chmod 600."
    return None


def _is_open(services: Path) -> bool:
    """Whether a file has a password and others may read it."""
    try:
        return bool(services.stat().st_mode & _OTHERS and _PASSWORD.search(services.read_text()))
    except OSError:
        return False


def named(source: str) -> tuple[tuple[str, str], ...]:
    """The policy's [database], where an owner names a PostgreSQL as libpq does; () for all else.

    >>> named("postgresql://ana@db/shop"), named("service=shop"), named("orders=a.csv")
    ((('dsn', 'postgresql://ana@db/shop'),), (('service', 'shop'),), ())
    """
    if match := _SERVICE.fullmatch(source):
        return (("service", match[1]),)
    return (("dsn", source),) if _DSN.match(source) else ()


def conninfo(settings: Mapping[str, str]) -> str:
    """What libpq connects by. Raises `MissingExtra`."""
    if find_spec("psycopg") is None:
        raise MissingExtra("The engine postgres needs psycopg: pip install 'dpsql[postgres]'.")
    return settings["dsn"] if "dsn" in settings else f"service={_in_quotes(settings['service'])}"


def shown(settings: Mapping[str, str]) -> str:
    """What the owner calls it, in the sentences of errors."""
    return f"The PostgreSQL at {settings.get('dsn') or settings.get('service')}"


def _in_quotes(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
