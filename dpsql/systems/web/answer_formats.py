"""Answers over HTTP: JSON with the interval of every number, CSV, Arrow and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from math import isfinite
from typing import Any

from dpsql.interfaces import records
from dpsql.interfaces.data_frames import arrow, module
from dpsql.interfaces.doors import HTTP, Door
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.records import require_parquet
from dpsql.interfaces.sentences import sentences
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import MissingExtra
from dpsql.model.vocabulary import Answer, Column, Loss, Receipt
from dpsql.systems.web.problems import Problem

JSON, CSV, EVENTS = "application/json", "text/csv", "text/event-stream"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
FORMATS = (JSON, CSV, ARROW, PARQUET, EVENTS)
"""Media types of answers, the default first."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete HTTP response, as it is sent and kept, and whether its answer was charged."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    is_charged: bool = False


def choose_format(accept: str, offered: tuple[str, ...] = FORMATS) -> str:
    """Return the media type that an Accept header prefers. Raises `Problem` if there is none.

    A type that needs an extra is refused with the name of the extra, before anything is charged.

    >>> choose_format("text/html, text/*;q=0.5"), choose_format("")
    ('text/csv', 'application/json')
    """
    media_type = _preferred_type(accept, offered)
    if media_type is None:
        fix = f"Accept one of {', '.join(offered)}."
        raise Problem(406, "accept", "The server has no such format.", fix=fix)
    _require_extra(media_type)
    return media_type


@lru_cache(maxsize=64)
def _preferred_type(accept: str, offered: tuple[str, ...]) -> str | None:
    for _, accepted in sorted(_accepted_types(accept or "*/*"), reverse=True):
        for media_type in offered:
            family = f"{media_type.partition('/')[0]}/*"
            if accepted in (media_type, family, "*/*"):
                return media_type
    return None


def _accepted_types(accept: str) -> Iterator[tuple[float, str]]:
    """Yield each media type of an Accept header with its weight, without those of weight zero."""
    for part in accept.split(","):
        media_type, *parameters = (word.strip().lower() for word in part.split(";"))
        weights = [p.removeprefix("q=") for p in parameters if p.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
        if weight > 0:
            yield weight, media_type


def _require_extra(media_type: str) -> None:
    try:
        match media_type:
            case "application/vnd.apache.parquet":
                require_parquet()
            case "application/vnd.apache.arrow.stream":
                module("pyarrow", "arrow", "An Arrow stream")
    except MissingExtra as missing:
        fix = f"{missing} Or accept {JSON}."
        raise Problem(406, "missing-extra", "The server lacks an extra.", fix=fix) from None


@dataclass(frozen=True, slots=True)
class VersionedAnswer:
    """An answer and the version of the data that it is about."""

    answer: Answer
    version: int


def render_answer(versioned: VersionedAnswer, media_type: str, door: Door = HTTP) -> HttpReply:
    """Return an answer in a format, with the version of its data. Errors need no charge here.

    Formats without room for a receipt and notices have them in headers, as JSON.
    """
    answer, version = versioned.answer, versioned.version
    headers = {"dpsql-data-version": str(version)}
    is_charged = answer.receipt is not None and answer.receipt.charged > Loss(0)
    if media_type in (JSON, EVENTS):
        body = json_text(answer_document(answer, version, door)).encode()
        return HttpReply(200, JSON, body, headers, is_charged)
    notices = sentences(answer.notices, answer.columns, door)
    headers["dpsql-receipt"] = json_text(receipt_document(answer.receipt))
    headers["dpsql-notices"] = json.dumps(notices)
    match media_type:
        case "text/csv":
            body = records.csv(answer).encode()
        case "application/vnd.apache.parquet":
            body = records.parquet(answer)
        case _:
            body = _arrow_stream(answer)
    return HttpReply(200, media_type, body, headers, is_charged)


def _arrow_stream(answer: Answer) -> bytes:
    pa = module("pyarrow", "arrow", "An Arrow stream")
    columns = records.record_columns(answer)
    named = [Column(column.name, column.type) for column in columns]
    table = arrow(named, list(records.record_rows(answer, columns)))
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def answer_document(answer: Answer, version: int, door: Door = HTTP) -> dict[str, Any]:
    """Return an answer as a document: columns, rows by name, notices, receipt, data version."""
    columns = records.record_columns(answer, margins=False)
    names = [column.name for column in columns]
    rows = zip(answer.rows, answer.margins, answer.intervals, strict=True)
    return {
        "columns": [{"name": c.name, "type": str(c.type)} for c in columns],
        "rows": [dict(zip(names, map(_cell, answer.columns, *row), strict=True)) for row in rows],
        "notices": list(sentences(answer.notices, answer.columns, door)),
        "receipt": receipt_document(answer.receipt),
        "data_version": version,
    }


def _cell(column: Column, value: Any, margin: float | None, interval: Any) -> Any:
    """Return a cell. Every number or length of time has its estimate, with the ends of its 95 %
    interval.

    An exact one says so. Ends that are not known are null.
    """
    if not column.type.is_measured:
        return value
    if margin is None:
        return {"estimate": value, "exact": True}
    low, high = (
        None if isinstance(end, float) and not isfinite(end) else end
        for end in interval or (None, None)
    )
    return {"estimate": value, "low": low, "high": high}


def receipt_document(receipt: Receipt | None) -> dict[str, Any]:
    """Return a receipt as a document. Amounts are in the unit of the accountant."""
    if receipt is None:
        return {"text": cost_text(None), "remembered": False, "charged": Decimal(0)}
    amounts = {"charged": receipt.charged, "spent": receipt.spent, "limit": receipt.limit}
    return {
        "text": cost_text(receipt),
        "query_id": receipt.query_id,
        "budget": receipt.budget,
        "cap": receipt.cap,
        "accountant": receipt.accountant,
        "epsilon": receipt.epsilon,
        **{name: Decimal(loss.amount).scaleb(-9) for name, loss in amounts.items()},
        **{f"{name}_delta": Decimal(loss.delta).scaleb(-18) for name, loss in amounts.items()},
        "remembered": receipt.remembered,
        "recalled": receipt.recalled,
        "least": receipt.least,
        "question_epsilon": receipt.question,
        "questions_left": receipt.left,
        "questions_left_with_private_keys": receipt.keyed,
    }


def json_text(value: Any) -> str:
    """Return a document as JSON in one line, with every digit of its numbers.

    >>> json_text({"n": [Decimal("1.50"), None]})
    '{"n": [1.50, null]}'
    """
    match value:
        case dict():
            pairs = (f"{json.dumps(name)}: {json_text(each)}" for name, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(json_text, value)) + "]"
        case _:
            return records.json_scalar(value)
