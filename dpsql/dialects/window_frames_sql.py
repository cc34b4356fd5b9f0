"""Frames of windows, as all engines write them."""

from __future__ import annotations

from dpsql.model.tree import Frame


def framed(frame: Frame) -> str:
    """Return a ROWS, RANGE or GROUPS clause.

    >>> framed(Frame("ROWS", (None, -1), (0, 1)))
    'ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW'
    """
    excluded = f" EXCLUDE {frame.exclude}" if frame.exclude else ""
    ends = f"{_frame_end(frame.start)} AND {_frame_end(frame.end)}"
    return f"{frame.unit} BETWEEN {ends}{excluded}"


def _frame_end(end: tuple[int | None, int]) -> str:
    offset, direction = end
    if offset == 0:
        return "CURRENT ROW"
    size = "UNBOUNDED" if offset is None else str(offset)
    return f"{size} {'PRECEDING' if direction < 0 else 'FOLLOWING'}"
