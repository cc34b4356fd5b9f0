"""Types of constants from their context, and casts between PostgreSQL's types."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import oids, pg_terms
from dpsql.model.errors import Reason, Refused

_NUMBER = re.compile(r"\s*[+-]?\d{1,18}(\.\d{1,18})?\s*\Z")
_WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*\Z")
_TRUE, _FALSE = ("t", "true", "y", "yes", "on", "1"), ("f", "false", "n", "no", "off", "0")
_PARAMETERS = re.compile(r"\(\s*(\d+)\s*(?:,\s*\d+\s*)?\)")
_HEADER = 4


def target(node: exp.Expression, names: pg_terms.Names) -> tuple[int, int]:
    """Return the type that a cast names, with its modifier."""
    text = node.sql("postgres").lower()
    size = _PARAMETERS.search(text)
    text = _PARAMETERS.sub("", text)
    schema, dot, name = text.partition(".")
    base = names.base(schema, name) if dot else None
    oid = base or names.number(oids.REGTYPE, text)
    if oid is None:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, construct="this type over the catalogue")
    sized = size is not None and oid in (oids.VARCHAR, oids.BPCHAR)
    return oid, int(size[1]) + _HEADER if size is not None and sized else -1


def cast(item: pg_terms.Term, oid: int, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Return an expression cast to type `oid`. Its column keeps its name."""
    reading = scope.reading
    if item.parameter is not None:
        return parameter(item.parameter, oid, reading)
    if item.literal is not None:
        return pg_terms.Term(_constant(item.literal, oid, reading.names), oid, item.name)
    return pg_terms.Term(_converted(item, oid), oid, item.name, zero=item.zero)


def typed(item: pg_terms.Term, oid: int, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Return an untyped constant or parameter as `oid`; other expressions unchanged."""
    if item.parameter is None and item.literal is None:
        return item
    return cast(item, oid, scope)


def agreed(items: list[pg_terms.Term], scope: pg_terms.PgScope) -> tuple[list[pg_terms.Term], int]:
    """Return expressions and the number of their common type, to which constants and parameters
    without a type are cast.

    Expressions with a type of their own stay as they are.
    """
    oid = oids.common(*(item.oid for item in items))
    return [typed(item, oid, scope) for item in items], oid


def parameter(number: int, oid: int, reading: pg_terms.Reading) -> pg_terms.Term:
    """Return the value of a parameter as a constant of type `oid`; NULL before values are given."""
    reading.types.setdefault(number, oid)
    if reading.values is None:
        return pg_terms.Term(f"CAST(NULL AS {oids.shadow_type(oid)})", oid)
    if not 0 < number <= len(reading.values):
        raise Refused(Reason.BAD_PARAMETER, expected=number, given=len(reading.values))
    return pg_terms.Term(_value(reading.values[number - 1], oid, reading.names), oid)


def untyped(number: int, reading: pg_terms.Reading) -> pg_terms.Term:
    """Return a parameter with a type from its context, or text by default."""
    if reading.values is None:
        return pg_terms.Term("NULL", oids.UNKNOWN, parameter=number)
    if not 0 < number <= len(reading.values):
        raise Refused(Reason.BAD_PARAMETER, expected=number, given=len(reading.values))
    value = _value(reading.values[number - 1], oids.TEXT, reading.names)
    return pg_terms.Term(value, oids.UNKNOWN, parameter=number)


def _value(value: Any, oid: int, names: pg_terms.Names) -> str:
    match value:
        case None:
            return f"CAST(NULL AS {oids.shadow_type(oid)})"
        case bool() | int() | float() | Decimal() | str() | date():
            return _constant(str(value), oid, names)
        case list() | tuple():
            element = oids.ELEMENTS.get(oid, oids.TEXT)
            inner = ", ".join(_value(v, element, names) for v in value)
            return f"CAST([{inner}] AS {oids.shadow_type(oid)})"
    raise Refused(Reason.BAD_PARAMETER, why="one of them is not a value")


def _constant(text: str, oid: int, names: pg_terms.Names) -> str:
    """Return a constant of type `oid` from its text. Raises `Refused` for invalid texts."""
    literal = pg_terms.unknown_literal(text).sql
    if oid == oids.BOOL:
        word = text.strip().lower()
        if word not in _TRUE + _FALSE:
            raise Refused(Reason.TYPE_MISMATCH)
        return "TRUE" if word in _TRUE else "FALSE"
    if oid in oids.REGS and not _WHOLE.match(text):
        return _object(text, oid, names)
    if oid in oids.ELEMENTS:
        return _array(text, oid, names)
    if oid in oids.TEXTS:
        return literal
    if oid in (*oids.INTEGERS, oids.OID, oids.XID, oids.CID, *oids.REGS):
        if not _WHOLE.match(text):
            raise Refused(Reason.TYPE_MISMATCH)
        return f"CAST({int(text)} AS {oids.shadow_type(oid)})"
    if oid == oids.NUMERIC and _NUMBER.match(text):
        return text.strip()  # with the digits it has
    return f"TRY_CAST({literal} AS {oids.shadow_type(oid)})"


def _object(text: str, oid: int, names: pg_terms.Names) -> str:
    if text == "-":
        return "0"
    number = names.number(oid, text)
    if number is None:
        if oid == oids.REGCLASS:
            raise Refused(Reason.UNKNOWN_TABLE, table=text, known=())
        raise Refused(Reason.UNSUPPORTED_SYNTAX, construct="an object that is not there")
    return str(number)


def _array(text: str, oid: int, names: pg_terms.Names) -> str:
    """Return a constant like '{a,b}', or '1 2' for vectors."""
    if oid in (oids.INT2VECTOR, oids.OIDVECTOR):
        parts = text.split()
    else:
        body = text.strip()
        if not (body.startswith("{") and body.endswith("}")):
            raise Refused(Reason.TYPE_MISMATCH)
        parts = [p.strip().strip('"') for p in body[1:-1].split(",")] if body != "{}" else []
    inner = ", ".join(_constant(p, oids.ELEMENTS[oid], names) for p in parts)
    return f"CAST([{inner}] AS {oids.shadow_type(oid)})"


def _converted(item: pg_terms.Term, oid: int) -> str:
    """Return `item` as another type. Reg-types convert between numbers and names."""
    source = item.oid
    if source == oid:
        return item.sql
    if item is pg_terms.NULL or item.sql == "NULL":
        return f"CAST(NULL AS {oids.shadow_type(oid)})"
    if source in oids.REGS and oid in oids.TEXTS:
        return f"pg_reg_text({source}, {item.sql})"
    if oid in oids.REGS and source in oids.TEXTS:
        return f"pg_reg_number({oid}, {item.sql})"
    if oids.ELEMENTS.get(source) in oids.REGS and oids.ELEMENTS.get(oid) in oids.TEXTS:
        return f"pg_reg_texts({oids.ELEMENTS[source]}, {item.sql})"
    if oid in oids.ELEMENTS and source in oids.ELEMENTS:
        inner = _converted(pg_terms.Term("e", oids.ELEMENTS[source]), oids.ELEMENTS[oid])
        return item.sql if inner == "e" else f"list_transform({item.sql}, lambda e: {inner})"
    if source in oids.ELEMENTS and oid in oids.TEXTS:
        inner = _converted(pg_terms.Term("e", oids.ELEMENTS[source]), oids.TEXT)
        texts = f"list_transform({item.sql}, lambda e: {inner})"
        if source in (oids.INT2VECTOR, oids.OIDVECTOR):
            return f"array_to_string({texts}, ' ')"
        return f"pg_array_text({texts})"
    if oid in oids.ELEMENTS and source in oids.TEXTS:
        inner = _converted(pg_terms.Term("e", oids.TEXT), oids.ELEMENTS[oid])
        parts = f"list_transform(pg_array_of({item.sql}), lambda e: {inner})"
        return f"CAST({parts} AS {oids.shadow_type(oid)})"
    if oid in oids.ELEMENTS:
        return pg_terms.refuse("this cast")
    if oids.shadow_type(source) == oids.shadow_type(oid) and oid != oids.NUMERIC:
        return item.sql
    if oid == oids.INT4 and source == oids.CHAR:
        return f"ascii({item.sql})"
    return f"CAST({item.sql} AS {oids.shadow_type(oid)})"
