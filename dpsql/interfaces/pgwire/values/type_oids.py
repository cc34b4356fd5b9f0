"""OIDs of PostgreSQL's types (catalogue pg_type), and their mapping to our types.

>>> oid_of(tree.INTEGER), kind_of(NUMERIC).kind.value
(20, 'DECIMAL')
"""

from __future__ import annotations

from typing import assert_never

from dpsql.model import tree

BOOL, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4, REGPROC, TEXT = 16, 18, 19, 20, 21, 22, 23, 24, 25
OID, TID, XID, CID, OIDVECTOR = 26, 27, 28, 29, 30
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR_OID = 700, 701, 705, 1042, 1043
DATE_OID, TIME_OID, TIMESTAMP_OID, TIMESTAMPTZ_OID, NUMERIC = 1082, 1083, 1114, 1184, 1700
REGCLASS, REGTYPE, UUID_OID, BYTEA, VOID = 2205, 2206, 2950, 17, 2278
INTERVAL_OID = 1186

ELEMENTS = {
    1000: BOOL,
    1002: CHAR,
    1003: NAME,
    1005: INT2,
    1007: INT4,
    1009: TEXT,
    1014: BPCHAR,
    1015: VARCHAR_OID,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    1028: OID,
    1034: 1033,
    1115: TIMESTAMP_OID,
    1182: DATE_OID,
    1183: TIME_OID,
    1185: TIMESTAMPTZ_OID,
    1187: INTERVAL_OID,
    1231: NUMERIC,
    2210: REGCLASS,
    2211: REGTYPE,
    2951: UUID_OID,
    INT2VECTOR: INT2,
    OIDVECTOR: OID,
}
"""Element type of each array type."""

INTEGERS = {INT2: 2, INT4: 4, INT8: 8, OID: 4, XID: 4, CID: 4}
"""Widths of integer types, in bytes."""

UNSIGNED = frozenset({OID, XID, CID, REGPROC, REGCLASS, REGTYPE})

_SIZES = {
    BOOL: 1,
    CHAR: 1,
    NAME: 64,
    FLOAT4: 4,
    FLOAT8: 8,
    DATE_OID: 4,
    TIME_OID: 8,
    TIMESTAMP_OID: 8,
    TIMESTAMPTZ_OID: 8,
    UUID_OID: 16,
    INTERVAL_OID: 16,
    UNKNOWN: -2,
    REGPROC: 4,
    REGCLASS: 4,
    REGTYPE: 4,
    TID: 6,
    **INTEGERS,
}

_NAMES = {
    "bool": BOOL,
    "boolean": BOOL,
    "char": BPCHAR,
    "character": BPCHAR,
    "character varying": VARCHAR_OID,
    "varchar": VARCHAR_OID,
    "text": TEXT,
    "name": NAME,
    "smallint": INT2,
    "int2": INT2,
    "int": INT4,
    "integer": INT4,
    "int4": INT4,
    "bigint": INT8,
    "int8": INT8,
    "oid": OID,
    "regclass": REGCLASS,
    "regtype": REGTYPE,
    "real": FLOAT4,
    "float4": FLOAT4,
    "float": FLOAT8,
    "double precision": FLOAT8,
    "float8": FLOAT8,
    "numeric": NUMERIC,
    "decimal": NUMERIC,
    "date": DATE_OID,
    "time": TIME_OID,
    "time without time zone": TIME_OID,
    "timestamp": TIMESTAMP_OID,
    "timestamp without time zone": TIMESTAMP_OID,
    "timestamptz": TIMESTAMPTZ_OID,
    "timestamp with time zone": TIMESTAMPTZ_OID,
    "uuid": UUID_OID,
    "interval": INTERVAL_OID,
}
_ARRAYS = {element: array for array, element in ELEMENTS.items() if array > OIDVECTOR}


def is_narrow(oid: int) -> bool:
    """Test whether a type is an integer of fixed width, or a list of such."""
    return ELEMENTS.get(oid, oid) in INTEGERS


def oid_of(kind: tree.SqlType, *, wide: bool = False, small: bool = False) -> int:
    """Return the OID of one of our types. INTEGER is int8, numeric if `wide`, int4 if `small`.

    >>> oid_of(tree.SqlType(tree.Kind.DOUBLE, width=tree.NUMERIC_WIDTH)) == NUMERIC
    True
    """
    if kind.width == tree.NUMERIC_WIDTH and kind.is_numeric:
        return NUMERIC
    match kind.kind:
        case tree.Kind.BOOLEAN:
            return BOOL
        case tree.Kind.INTEGER:
            return NUMERIC if wide else INT4 if small else INT8
        case tree.Kind.DECIMAL:
            return NUMERIC
        case tree.Kind.DOUBLE:
            return FLOAT8
        case tree.Kind.VARCHAR | tree.Kind.NULL:
            return TEXT
        case tree.Kind.DATE:
            return DATE_OID
        case tree.Kind.TIMESTAMP:
            return TIMESTAMP_OID
        case tree.Kind.TIMESTAMPTZ:
            return TIMESTAMPTZ_OID
        case tree.Kind.INTERVAL:
            return INTERVAL_OID
        case tree.Kind.LIST:
            return _ARRAYS[oid_of(kind.member, wide=wide)]
        case tree.Kind.TIME:
            return TIME_OID
        case tree.Kind.UUID:
            return UUID_OID
        case _:
            assert_never(kind.kind)


_HEADER = 4
"""Size that PostgreSQL adds to the modifiers of numeric."""


def typmod_of(kind: tree.SqlType) -> int:
    """Return the modifier of a type: precision and scale of a decimal, else -1.

    >>> typmod_of(tree.decimal(10, 2))
    655366
    """
    if kind.kind is not tree.Kind.DECIMAL:
        return -1
    return (kind.precision << 16 | kind.scale) + _HEADER


_KINDS = {
    BOOL: tree.BOOLEAN,
    INT2: tree.INTEGER,
    INT4: tree.INTEGER,
    INT8: tree.INTEGER,
    OID: tree.INTEGER,
    FLOAT4: tree.DOUBLE,
    FLOAT8: tree.DOUBLE,
    NUMERIC: tree.decimal(38, 10),
    TEXT: tree.VARCHAR,
    VARCHAR_OID: tree.VARCHAR,
    BPCHAR: tree.VARCHAR,
    NAME: tree.VARCHAR,
    CHAR: tree.VARCHAR,
    UUID_OID: tree.UUID,
    DATE_OID: tree.DATE,
    TIME_OID: tree.TIME,
    TIMESTAMP_OID: tree.TIMESTAMP,
    TIMESTAMPTZ_OID: tree.TIMESTAMPTZ,
    INTERVAL_OID: tree.INTERVAL,
}


def kind_of(oid: int) -> tree.SqlType | None:
    """Return our type for a client's parameter type; None if open or unknown."""
    member = _KINDS.get(ELEMENTS.get(oid, 0))
    return _KINDS.get(oid) if member is None else tree.list_of(member)


def size_of(oid: int) -> int:
    """Return pg_type.typlen: the bytes of a value, or -1 if variable."""
    return _SIZES.get(oid, -1)


def named(name: str) -> int | None:
    """Return the OID of an SQL type name, maybe followed by []; None if unknown.

    >>> named("integer"), named("oid[]"), named("money")
    (23, 1028, None)
    """
    element = _NAMES.get(name.removesuffix("[]").strip())
    return _ARRAYS.get(element or 0) if name.endswith("[]") else element
