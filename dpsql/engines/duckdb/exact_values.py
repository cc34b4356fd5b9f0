"""Exact columns, engine side: a value leaves DuckDB as int64, double, boolean or text.

numpy has no HUGEINT, no DECIMAL and no infinite date. DuckDB's own conversion rounds the first two,
and merges the third with the last day of year 9999. Two groups would then share a key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

INFINITE = -(2**63) + 1
"""Microseconds that stand for an infinite timestamp; no finite one of DuckDB reaches them."""

_EPOCH, _DAY = date(1970, 1, 1), 86_400 * 10**6
_NARROW = "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER".split()
_WIDE = "UBIGINT HUGEINT UHUGEINT".split()
_MOMENT = f"CASE WHEN isinf({{0}}) THEN {INFINITE} ELSE epoch_us({{0}}) END"
_KEYS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_NARROW, ("plain", "{0}::BIGINT")),
    **dict.fromkeys(_WIDE, ("integer", "{0}::VARCHAR")),
    '"NULL"': ("plain", "{0}::BIGINT"),
    "BOOLEAN": ("plain", "{0}"),
    "FLOAT": ("plain", "{0}::DOUBLE"),
    "DOUBLE": ("plain", "{0}"),
    "DECIMAL": ("decimal", "{0}::VARCHAR"),
    "VARCHAR": ("plain", "{0}"),
    "UUID": ("uuid", "{0}::VARCHAR"),
    "TIME": ("time", "epoch_us({0})"),
    "ENUM": ("plain", "{0}::VARCHAR"),
    "DATE": ("date", "({0} - DATE '1970-01-01')::BIGINT"),
    "TIMESTAMP": ("timestamp", _MOMENT),
    "TIMESTAMP WITH TIME ZONE": ("timestamptz", _MOMENT),
}
"""DuckDB type → the name of the decoder, and the SQL that encodes column {0}."""

_DAYS = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_MOMENTS = _DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1
_PYTHON = {"date": _DAYS, "timestamp": _MOMENTS, "timestamptz": _MOMENTS, "time": (0, _DAY - 1)}
"""Least and greatest value that Python can hold, in days or microseconds."""


def encoded(sql: str, types: Sequence[object], keys: int) -> tuple[str, list[str]]:
    r"""Return the statement that yields encoded columns, and the decoder of each key.

    `types` are the types of the columns of `sql`: first `keys` keys, then integers. A key is one
    encoded column. An integer is an int64 column (0 for NULL) and a text column for values that do
    not fit. Raises `KeyError` for a type without an exact encoding.

    >>> encoded("SELECT 1", ["INTEGER"], 1)[0]
    'SELECT c0::BIGINT AS e0 FROM (SELECT 1\n) AS t(c0)'
    """
    names = [base_type(kind) for kind in types]
    rules = [_KEYS[name] for name in names[:keys]]
    listed = [text.format(f"c{n}") for n, (_decoder, text) in enumerate(rules)]
    for n, kind in enumerate(map(str, types[keys:]), keys):
        if names[n] not in (*_NARROW, *_WIDE, '"NULL"') and not kind.endswith(",0)"):
            raise KeyError(kind)
        listed.append(f"COALESCE(TRY_CAST(c{n} AS BIGINT), 0)")
        listed.append(f"CASE WHEN TRY_CAST(c{n} AS BIGINT) IS NULL THEN c{n}::VARCHAR END")
    # The newline ends a comment in which `sql` may end.
    return f"SELECT {_named(listed, 'e')} FROM ({sql}\n) AS t({_names(names)})", [
        decoder for decoder, _text in rules
    ]


def with_moments(sql: str, types: Sequence[object]) -> str:
    """Return a statement for the same rows, with each TIMESTAMPTZ as microseconds since 1970.

    DuckDB needs pytz to convert one to a Python value, and this project does not use pytz.
    """
    listed = [f"epoch_us(c{n})" if is_moment(kind) else f"c{n}" for n, kind in enumerate(types)]
    return f"SELECT {_named(listed, 'e')} FROM ({sql}\n) AS t({_names(types)})"


def is_encodable(kind: object) -> bool:
    """Test whether every value of a type in years 1 to 9999 can be encoded."""
    return base_type(kind) in _KEYS


def is_beyond(decoder: str, column: Any) -> bool:
    """Test whether a NumPy column of dates or times has a value that Python cannot hold."""
    if decoder not in _PYTHON:
        return False
    least, most = _PYTHON[decoder]
    return bool(((column < least) | (column > most)).any())


def is_moment(kind: object) -> bool:
    """Test whether a type is TIMESTAMPTZ."""
    return str(kind) == "TIMESTAMP WITH TIME ZONE"


def base_type(kind: object) -> str:
    """Return a type's name without its parameters.

    >>> base_type("DECIMAL(12,2)")
    'DECIMAL'
    """
    return re.sub(r"\(.*\)", "", str(kind), flags=re.DOTALL)


def _named(expressions: Sequence[str], prefix: str) -> str:
    return ", ".join(f"{text} AS {prefix}{n}" for n, text in enumerate(expressions))


def _names(columns: Sequence[object]) -> str:
    return ", ".join(f"c{n}" for n in range(len(columns)))
