"""Encoder of whole columns if their values allow it, with the same bytes as one by one.

>>> from datetime import UTC
>>> cells([1, -20], 20, TEXT_FORMAT, UTC), cells([0.5, 3.0], FLOAT8, TEXT_FORMAT, UTC)
([b'1', b'-20'], [b'0.5', b'3'])
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Any

import numpy as np

from dpsql.interfaces.pgwire.values import wire_encoding
from dpsql.interfaces.pgwire.values.type_oids import ELEMENTS, FLOAT8, INTEGERS, NUMERIC
from dpsql.interfaces.pgwire.values.wire_encoding import TEXT_FORMAT
from dpsql.interfaces.pgwire.values.wire_parameters import parameter


def cells(column: Sequence[Any], oid: int, form: int, zone: tzinfo) -> list[bytes]:
    """Return the values of a column in text (0) or binary (1); empty for NULL.

    Raises `OutOfRange`.
    """
    write, kinds = wire_encoding.encoder(oid, form, zone), set(map(type, column))
    if oid in ELEMENTS and str in kinds:
        column = [parameter(v.encode(), oid, 0) if isinstance(v, str) else v for v in column]
    written: list[bytes] | None = None
    if kinds == {str} and write is wire_encoding.as_text:
        written = _texts(column)
    elif form == TEXT_FORMAT and kinds == {int} and oid in INTEGERS:
        least, end = wire_encoding.range_of(oid)
        if min(column) < least or max(column) >= end:
            raise wire_encoding.OutOfRange
        written = _listed(column).encode().split(b", ")
    elif form == TEXT_FORMAT and kinds == {float} and oid == FLOAT8:
        written = _doubles(column)
    elif form == TEXT_FORMAT and kinds == {Decimal} and oid == NUMERIC:
        texts = ",".join(map(str, column))
        written = texts.encode().split(b",") if not any(map(str.isalpha, set(texts))) else None
    return written or [b"" if value is None else write(value) for value in column]


def _texts(column: Sequence[str]) -> list[bytes] | None:
    try:
        texts = "\0".join(column).encode().split(b"\0")
    except UnicodeEncodeError:
        return None
    return texts if len(texts) == len(column) else list(map(str.encode, column))


def _doubles(column: Sequence[float]) -> list[bytes] | None:
    """Return the texts of numbers; None if one of them needs an exponent or is not finite."""
    sizes = np.abs(np.array(column))
    if not (
        (sizes >= wire_encoding.PLAIN_FROM) & (sizes < wire_encoding.PLAIN_TO) | (sizes == 0)
    ).all():
        return None
    return f"{_listed(column)}, ".replace(".0, ", ", ").encode().split(b", ")[:-1]


def _listed(column: Sequence[float]) -> str:
    """Return numbers as in Python's list, separated by a comma and a blank."""
    return repr(list(column))[1:-1]
