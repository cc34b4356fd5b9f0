"""Address of the owner's PostgreSQL in a policy, never with a password (SECURITY.md S25).

A password comes from PGPASSWORD, or from a file for libpq that only its owner may read: PGPASSFILE,
~/.pgpass, or the file of the service.
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
"""Mode bits of the group and of others."""
_HIDDEN = "A password stands in no policy: give it in PGPASSWORD, or in ~/.pgpass with mode 0600."


def objection(settings: Mapping[str, str]) -> str | None:
    """Return the error in the policy's [database]; None if there is none.

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
    """Test whether a file contains a password and others may read it."""
    try:
        return bool(services.stat().st_mode & _OTHERS and _PASSWORD.search(services.read_text()))
    except OSError:
        return False


def named(source: str) -> tuple[tuple[str, str], ...]:
    """Return the policy's [database] for a PostgreSQL that is named as for libpq; else ().

    >>> named("postgresql://ana@db/shop"), named("service=shop"), named("orders=a.csv")
    ((('dsn', 'postgresql://ana@db/shop'),), (('service', 'shop'),), ())
    """
    if match := _SERVICE.fullmatch(source):
        return (("service", match[1]),)
    return (("dsn", source),) if _DSN.match(source) else ()


def conninfo(settings: Mapping[str, str]) -> str:
    """Return the connection string for libpq. Raises `MissingExtra`."""
    if find_spec("psycopg") is None:
        raise MissingExtra("The engine postgres needs psycopg: pip install 'dpsql[postgres]'.")
    return settings["dsn"] if "dsn" in settings else f"service={_in_quotes(settings['service'])}"


def shown(settings: Mapping[str, str]) -> str:
    """Return the name of the database in messages of errors."""
    return f"The PostgreSQL at {settings.get('dsn') or settings.get('service')}"


def _in_quotes(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
