"""JSON of the HTTP interface → answers, receipts and errors, as those of a local proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isclose, nan
from typing import Any

from dpsql.interfaces.dbapi import dbapi_errors
from dpsql.interfaces.messages import Message
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.bound_parameters import said
from dpsql.model.durations import PART_US, parts_of
from dpsql.model.errors import Offer, Reason
from dpsql.model.interval_ends import Half
from dpsql.model.row_notices import Relayed
from dpsql.model.tree import Kind, SqlType, decimal, list_of
from dpsql.model.vocabulary import Answer, Column, Loss, Receipt

_UNIT = {"": 9, "_delta": 18}


def read_answer(document: Mapping[str, Any], analyst: str) -> Answer:
    """Return the answer of a document. Its errors are NaN where there is an interval.

    >>> cell = {"estimate": 5, "low": 3, "high": 7}
    >>> document = {"columns": [{"name": "n", "type": "INTEGER"}], "rows": [{"n": cell}]}
    >>> read_answer(document, "ana").margins
    ((2.0,),)
    """
    columns = tuple(Column(c["name"], read_type(c["type"])) for c in document["columns"])
    cells = [
        [_cell(column.type, row[column.name]) for column in columns] for row in document["rows"]
    ]
    halves = tuple(tuple(half for _, _, half in row) for row in cells)
    margins = tuple(tuple(margin for _, margin, _ in row) for row in cells)
    is_skewed = any(half is not None for row in halves for half in row)
    return Answer(
        columns=columns,
        rows=tuple(tuple(value for value, _, _ in row) for row in cells),
        errors=tuple(tuple(m if m is None else nan for m in row) for row in margins),
        margins=margins,
        receipt=read_receipt(document.get("receipt", {}), analyst),
        notices=tuple(Relayed(text) for text in document.get("notices", ())),
        halves=halves if is_skewed else (),
    )


def _cell(kind: SqlType, cell: Any) -> tuple[Any, float | None, Half]:
    """Return a value, its margin, and its halves if they differ. An interval counts in seconds."""
    if not kind.is_measured:
        return read_value(kind, cell), None, None
    value = read_value(kind, cell["estimate"])
    if cell.get("exact"):
        return value, None, None
    low, high = (read_value(kind, cell[end]) for end in ("low", "high"))
    if value is None or low is None or high is None:
        return value, nan, None
    below, above = _length(value, low), _length(high, value)
    even = isclose(below, above, rel_tol=1e-9)
    return value, max(below, above), None if even else (below, above)


def _length(high: Any, low: Any) -> float:
    difference = high - low if isinstance(high, timedelta) else float(high) - float(low)
    return difference.total_seconds() if isinstance(difference, timedelta) else float(difference)


def read_type(text: str) -> SqlType:
    """Return the type of its name.

    >>> str(read_type("DECIMAL(10, 2)[]"))
    'DECIMAL(10, 2)[]'
    """
    if text.endswith("[]"):
        return list_of(read_type(text.removesuffix("[]")))
    name, _, rest = text.partition("(")
    if Kind(name) is Kind.DECIMAL:
        precision, scale = rest.rstrip(")").split(",")
        return decimal(int(precision), int(scale))
    return SqlType(Kind(name))


def read_value(kind: SqlType, value: Any) -> Any:
    """Return a value of JSON, whose numbers are exact, as Python has values of this type."""
    if value is None:
        return None
    match kind.kind:
        case Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL | Kind.INTEGER if isinstance(value, str):
            return float(value)  # an infinite end of an interval
        case Kind.DECIMAL:
            return Decimal(value)
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return datetime.fromisoformat(value)
        case Kind.TIME | Kind.UUID:
            return said(value, kind)
        case Kind.INTERVAL:
            parts = parts_of(value) or {}
            micros = sum(PART_US[name] * count for name, count in parts.items())
            return timedelta(microseconds=micros)
        case Kind.LIST:
            return [read_value(kind.member, each) for each in value]
        case _:
            return value


def read_receipt(document: Mapping[str, Any], analyst: str) -> Receipt | None:
    """Return a receipt; None for an answer without private rows."""
    if "query_id" not in document:
        return None
    numbers = (
        [int(Decimal(document[name + end]).scaleb(at)) for end, at in _UNIT.items()]
        for name in ("charged", "spent", "limit")
    )
    charged, spent, limit = (Loss(amount, delta) for amount, delta in numbers)
    question = document["question_epsilon"]
    return Receipt(
        query_id=document["query_id"],
        analyst=analyst,
        budget=document["budget"],
        accountant=document["accountant"],
        epsilon=Decimal(document["epsilon"]),
        charged=charged,
        spent=spent,
        limit=limit,
        remembered=document["remembered"],
        recalled=document["recalled"],
        least=document["least"],
        question=None if question is None else Decimal(question),
        left=document["questions_left"],
        keyed=document["questions_left_with_private_keys"],
        cap=document["cap"],
    )


_REASONS: Mapping[str, Reason] = {reason.value: reason for reason in Reason}
_OTHER_KINDS: Mapping[str, type[dbapi_errors.Error]] = {
    "bad-body": dbapi_errors.ProgrammingError,
    "accept": dbapi_errors.NotSupportedError,
    "missing-extra": dbapi_errors.NotSupportedError,
}


def read_problem(document: Mapping[str, Any]) -> dbapi_errors.Error:
    """Return the exception of a problem, as a local proxy raises it.

    >>> type(read_problem({"reason": "raw-rows", "title": "No."})).__name__
    'NotSupportedError'
    """
    name = str(document.get("reason", "failed"))
    reason, tried = _REASONS.get(name), document.get("try")
    offer = None if tried is None else Offer(tried["sql"], tuple(tried["changes"]))
    if reason is None:
        kind = _OTHER_KINDS.get(name, dbapi_errors.OperationalError)
        exit_code = ExitCode.UNREACHABLE
    else:
        exit_code = WORDINGS[reason].exit_code
        kind = dbapi_errors.BY_EXIT_CODE[exit_code]
    spot = document.get("place", {})
    message = Message(
        code=name,
        headline=str(document.get("title", "The server failed.")),
        why=str(document.get("why", "")),
        fix=str(document.get("fix", "")),
        exit_code=exit_code,
        sqlstate=str(document.get("sqlstate", "HY000")),
        line=spot.get("line"),
        column=spot.get("column"),
        excerpt=spot.get("excerpt"),
        offer=offer,
    )
    return kind(str(message), sqlstate=message.sqlstate, reason=reason, offer=offer)


def write_parameters(values: Sequence[Any]) -> list[Any]:
    """Return parameters as JSON can hold them: moments, dates and UUIDs as texts.

    >>> write_parameters([1, None, date(2024, 1, 2), (True, "a")])
    [1, None, '2024-01-02', [True, 'a']]
    """
    return [
        write_parameters(value)
        if isinstance(value, list | tuple)
        else value
        if value is None or isinstance(value, bool | int | float | str | Decimal)
        else str(value)
        for value in values
    ]
