"""Types of PostgreSQL 15 that occur in catalogue queries (pg_type.dat of its sources)."""

from __future__ import annotations

BOOL, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 18, 19, 20, 21, 23, 25, 26
INT2VECTOR, REGPROC, OIDVECTOR = 22, 24, 30
TID, XID, CID, XID8 = 27, 28, 29, 5069
PG_LSN, TXID_SNAPSHOT, PG_SNAPSHOT = 3220, 2970, 5038
FLOAT4, FLOAT8, UNKNOWN, NUMERIC = 700, 701, 705, 1700
BPCHAR, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ = 1042, 1043, 1082, 1114, 1184
REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE = 2202, 2203, 2204, 2205, 2206
REGNAMESPACE, REGROLE, JSON, JSONB, RECORD = 4089, 4096, 114, 3802, 2249
ACLITEM, VOID = 1033, 2278
_NAMES, _TEXTS, _OIDS, _INT2S, _INT4S, _ACLITEMS = 1003, 1009, 1028, 1005, 1007, 1034

REGS = frozenset(
    (REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE, REGNAMESPACE, REGROLE)
)
"""Types stored as numbers and shown as names."""

TEXTS = frozenset((CHAR, NAME, TEXT, UNKNOWN, BPCHAR, VARCHAR))
INTEGERS = (INT2, INT4, INT8)
NUMBERS = (*INTEGERS, NUMERIC, FLOAT4, FLOAT8)
"""Numeric types from narrowest to widest. Two of them together have the wider type."""

ELEMENTS = {
    1000: BOOL,
    1002: CHAR,
    _NAMES: NAME,
    _INT2S: INT2,
    _INT4S: INT4,
    1008: REGPROC,
    _TEXTS: TEXT,
    1015: VARCHAR,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    _OIDS: OID,
    _ACLITEMS: ACLITEM,
    1231: NUMERIC,
    2210: REGCLASS,
    2211: REGTYPE,
    INT2VECTOR: INT2,
    OIDVECTOR: OID,
}
"""Element type of each array type."""

ARRAYS = {e: a for a, e in ELEMENTS.items() if a not in (INT2VECTOR, OIDVECTOR)}
"""Array type of each element type."""

_SHADOW = {
    BOOL: "BOOLEAN",
    INT2: "SMALLINT",
    INT4: "INTEGER",
    INT8: "BIGINT",
    OID: "BIGINT",
    XID: "BIGINT",
    CID: "BIGINT",
    FLOAT4: "FLOAT",
    FLOAT8: "DOUBLE",
    NUMERIC: "DECIMAL(38, 0)",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMPTZ",
}


def shadow_type(oid: int) -> str:
    """Return the DuckDB type for a PostgreSQL type; text for opaque types.

    >>> shadow_type(INT2VECTOR)
    'SMALLINT[]'
    """
    if oid in ELEMENTS:
        return shadow_type(ELEMENTS[oid]) + "[]"
    return _SHADOW.get(oid, "BIGINT" if oid in REGS else "VARCHAR")


def common(*types: int) -> int:
    """Return the common type in CASE, COALESCE and UNION, by the needed part of PostgreSQL's
    rules.

    >>> common(UNKNOWN, NAME) == NAME and common(NAME, TEXT) == TEXT and common(INT2, INT8) == INT8
    True
    """
    typed = [t for t in dict.fromkeys(types) if t != UNKNOWN]
    match typed:
        case []:
            return TEXT
        case [one]:
            return one
    if all(t in TEXTS for t in typed):
        return TEXT
    if all(t in NUMBERS for t in typed):
        return max(typed, key=NUMBERS.index)
    return next((t for t in typed if t not in NUMBERS), typed[0])
