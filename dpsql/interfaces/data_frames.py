"""Rows as NumPy arrays, Arrow tables, and frames of pandas and polars.

Types follow the declared columns, even for empty results. Repeated names get numbers, since frames
need unique names. Each library is an extra, imported on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from dpsql.model.errors import MissingExtra
from dpsql.model.tree import UUID, Kind, SqlType
from dpsql.model.vocabulary import Column

if TYPE_CHECKING:
    from polars import DataFrame as PolarsFrame

Rows: TypeAlias = Sequence[tuple[Any, ...]]
_INT64 = range(-(2**63), 2**63)
_MAX_PRECISION = 38
_FRAMES = {
    Kind.BOOLEAN: ("bool_", "Boolean"),
    Kind.DOUBLE: ("float64", "Float64"),
    Kind.VARCHAR: ("string", "String"),
    Kind.LIST: ("string", "String"),
    Kind.DATE: ("date32", "Date"),
    Kind.UUID: ("string", "String"),
    Kind.NULL: ("null", "Null"),
}
"""Names of types in Arrow and polars, for types without parameters."""


def module(name: str, extra: str, what: str) -> Any:
    """Import a library. Raises MissingExtra, with the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        message = f"{what} needs the extra: pip install 'dpsql[{extra}]'."
        raise MissingExtra(message) from None


def unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken, and add it to `taken`.

    >>> unique("n", {"n", "n_2"})
    'n_3'
    """
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free)
    return free


def _labelled(columns: Sequence[Column], rows: Rows) -> list[tuple[str, SqlType, list[Any]]]:
    """Return the unique name, type and cells of each column."""
    cells = zip(*rows, strict=True) if rows else ((),) * len(columns)
    taken: set[str] = set()
    return [
        (unique(column.name, taken), column.type, list(values))
        for column, values in zip(columns, cells, strict=True)
    ]


def plain(kind: SqlType, cells: list[Any]) -> list[Any]:
    """Return UUIDs as text, since Arrow and polars have no such type; other cells unchanged."""
    return [None if cell is None else str(cell) for cell in cells] if kind == UUID else cells


# --- Arrow ---


def arrow(columns: Sequence[Column], rows: Rows) -> Any:
    """Return a pyarrow.Table."""
    pa = module("pyarrow", "arrow", "An Arrow table")
    labelled = _labelled(columns, rows)
    arrays = [
        pa.array(plain(kind, cells), type=arrow_type(pa, kind, cells))
        for _, kind, cells in labelled
    ]
    return pa.table(arrays, names=[name for name, _, _ in labelled])


def arrow_type(pa: Any, kind: SqlType, cells: Sequence[Any]) -> Any:
    """Return the Arrow type: int64 for INTEGER, decimal128(38, s) for DECIMAL(p, s), else by
    name.

    An INTEGER column with a value beyond 64 bits is decimal128(38, 0).
    """
    match kind.kind:
        case Kind.INTEGER:
            return pa.int64() if _fit(cells) else pa.decimal128(_MAX_PRECISION, 0)
        case Kind.DECIMAL:
            return pa.decimal128(_MAX_PRECISION, kind.scale)
        case Kind.TIMESTAMPTZ:
            return pa.timestamp("us", tz="UTC")
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.INTERVAL:
            return pa.duration("us")
        case Kind.TIME:
            return pa.time64("us")
        case _:
            return getattr(pa, _FRAMES[kind.kind][0])()


def _fit(cells: Sequence[Any]) -> bool:
    return all(v is None or v in _INT64 for v in cells)


# --- NumPy and pandas ---

_NUMPY = {
    Kind.BOOLEAN: ("bool", False),
    Kind.INTEGER: ("int64", 0),
    Kind.DECIMAL: ("float64", 0.0),
    Kind.DOUBLE: ("float64", 0.0),
    Kind.DATE: ("datetime64[D]", "NaT"),
    Kind.TIMESTAMP: ("datetime64[us]", "NaT"),
    Kind.TIMESTAMPTZ: ("datetime64[us]", "NaT"),
    Kind.INTERVAL: ("timedelta64[us]", "NaT"),
}
"""The dtype of a type, and the filler of masked cells. Other types are objects."""


def numpy_arrays(columns: Sequence[Column], rows: Rows) -> dict[str, Any]:
    """Return a masked array per column. Times with a zone are in UTC.

    >>> from dpsql.model.tree import INTEGER
    >>> numpy_arrays([Column("n", INTEGER)], [(1,), (None,)])["n"].sum()
    np.int64(1)
    """
    return {name: _masked(kind, cells) for name, kind, cells in _labelled(columns, rows)}


def _masked(kind: SqlType, cells: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - `import dpsql` is light

    dtype, filler = _NUMPY.get(kind.kind, ("object", None))
    if kind.kind is Kind.INTEGER and not _fit(cells):
        dtype, filler = "object", None
    if kind.kind is Kind.TIMESTAMPTZ:
        cells = [
            None if cell is None else cell.astimezone(UTC).replace(tzinfo=None) for cell in cells
        ]
    values = np.array([filler if cell is None else cell for cell in cells], dtype=dtype)
    return np.ma.MaskedArray(values, mask=[cell is None for cell in cells])


def pandas(columns: Sequence[Column], rows: Rows) -> Any:
    """Return a pandas.DataFrame: DECIMAL as float64, DATE as datetime64.

    NULL is NaN, NaT or None. INTEGER and BOOLEAN with a NULL are Int64 and boolean.
    """
    pd = module("pandas", "pandas", "A pandas frame")
    labelled = _labelled(columns, rows)
    series = {name: _series(pd, kind, cells) for name, kind, cells in labelled}
    return pd.DataFrame(series, index=range(len(rows)))


def _series(pd: Any, kind: SqlType, cells: list[Any]) -> Any:
    array = _masked(kind, cells)
    missing = array.mask.any()
    match kind.kind:
        case Kind.INTEGER | Kind.BOOLEAN if missing and array.dtype != object:
            dtype = "Int64" if kind.kind is Kind.INTEGER else "boolean"
            return pd.array(cells, dtype=dtype)
        case Kind.DECIMAL | Kind.DOUBLE:
            return array.filled(float("nan"))
        case Kind.DATE:
            return array.data.astype("datetime64[s]")
        case Kind.TIMESTAMPTZ:
            return pd.DatetimeIndex(array.data, tz="UTC")
        case _:
            return array.data


# --- polars ---


def polars(columns: Sequence[Column], rows: Rows) -> PolarsFrame:
    """Return a polars.DataFrame. An INTEGER column with a value beyond 64 bits is Int128."""
    pl = module("polars", "polars", "A polars frame")
    labelled = _labelled(columns, rows)
    schema = {name: _polars_type(pl, kind, cells) for name, kind, cells in labelled}
    cells = {name: plain(kind, cells) for name, kind, cells in labelled}
    frame: PolarsFrame = pl.DataFrame(cells, schema=schema)
    return frame


def _polars_type(pl: Any, kind: SqlType, cells: list[Any]) -> Any:
    match kind.kind:
        case Kind.INTEGER:
            return pl.Int64 if _fit(cells) else pl.Int128
        case Kind.DECIMAL:
            return pl.Decimal(_MAX_PRECISION, kind.scale)
        case Kind.TIMESTAMPTZ:
            return pl.Datetime("us", "UTC")
        case Kind.TIMESTAMP:
            return pl.Datetime("us")
        case Kind.INTERVAL:
            return pl.Duration("us")
        case Kind.TIME:
            return pl.Time
        case _:
            return getattr(pl, _FRAMES[kind.kind][1])
