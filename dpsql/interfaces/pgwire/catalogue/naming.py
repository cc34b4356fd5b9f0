"""Rules of PostgreSQL for names: quoting, parsing, and names of constraints."""

from __future__ import annotations

import re
from functools import cache

from dpsql.interfaces.pgwire.catalogue.recorded import body

MOST_BYTES = 63
"""Maximum length of an identifier in PostgreSQL, in bytes."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")
_LISTED = re.compile(r'"((?:[^"]|"")+)"|([^\s",][^",]*?)(?=\s*(?:,|\Z))')
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s."]+))\s*(\.|\Z)')


@cache
def keywords() -> frozenset[str]:
    """Return the keywords that must be quoted as names: all except unreserved ones."""
    fields = (line.split("\t") for line in body("pg_get_keywords").splitlines())
    return frozenset(word for word, category, *_ in fields if category != "U")


def quote(name: str) -> str:
    """Return a name as quote_ident writes it.

    >>> quote("orders"), quote("Orders"), quote("select")
    ('orders', '"Orders"', '"select"')
    """
    if _PLAIN.match(name) and name not in keywords():
        return name
    return '"' + name.replace('"', '""') + '"'


def parts(text: str) -> list[str] | None:
    """Return the parts of a qualified name, lower-cased unless quoted; None if invalid.

    >>> parts('public."Orders"')
    ['public', 'Orders']
    """
    names, start = [], 0
    while True:
        match = _PART.match(text, start)
        if match is None:
            return None
        exact, plain, end = match.groups()
        names.append(exact.replace('""', '"') if exact is not None else plain.lower())
        if not end:
            return names
        start = match.end()


def searched(path: str) -> tuple[str, ...]:
    """Return the schemas of a search_path. "$user" has no schema here.

    >>> searched('"$user", public'), searched('Analytics,"Odd, one"')
    (('public',), ('analytics', 'Odd, one'))
    """
    listed = _LISTED.findall(path)
    names = (exact.replace('""', '"') if exact else plain.lower() for exact, plain in listed)
    return tuple(name for name in names if name != "$user")


def constraint_name(table: str, columns: tuple[str, ...], label: str) -> str:
    """Return PostgreSQL's name of a constraint: table, columns and kind, cut to 63 bytes.

    >>> constraint_name("orders", ("customer_id",), "fkey")
    'orders_customer_id_fkey'
    """
    first, second = table, "_".join(columns)
    room = MOST_BYTES - len(label) - 1 - (1 if columns else 0)
    while len(first.encode()) + len(second.encode()) > room:
        if len(first.encode()) > len(second.encode()):
            first = first[:-1]
        else:
            second = second[:-1]
    return "_".join(filter(None, (first, second, label)))
