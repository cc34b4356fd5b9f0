"""Values as texts, for people."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from dpsql.model.durations import spelled
from dpsql.model.tree import Value


def exact_text(value: Any) -> str:
    """Return any result value as exact text.

    >>> exact_text(Decimal("1.50")), exact_text(True), exact_text(None), exact_text(0.1)
    ('1.50', 'true', 'NULL', '0.1')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value).replace("nan", "NaN").replace("inf", "Infinity")
        case datetime():
            return value.isoformat(sep=" ")
        case timedelta():
            return spelled(value)
        case _:
            return str(value)


def value_text(value: Value) -> str:
    """Return a public value as text: numbers with separators, dates and times as written."""
    match value:
        case bool() | str() | None | datetime():
            return exact_text(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.10g}"
        case _:
            return exact_text(value)
