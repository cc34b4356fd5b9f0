"""AT TIME ZONE: a moment as the clock of a place shows it, and the other way round."""

from __future__ import annotations

from datetime import datetime, timedelta

from dpsql.functions.instants import is_far, later, names, part_of
from dpsql.functions.row import TEXT, Args, Function, Types
from dpsql.functions.zone_names import UTC, ZONES
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import TIMESTAMP, TIMESTAMPTZ, SqlType

FARTHEST = timedelta(hours=16)
"""No clock was ever further from UTC: local times before standard time come closest to it."""


def _zoned_type(types: Types) -> SqlType | None:
    """TIMESTAMPTZ becomes TIMESTAMP, and TIMESTAMP becomes TIMESTAMPTZ.

    Not DATE, which is a local midnight in DuckDB and one of UTC in PostgreSQL.
    """
    if len(types) != 2 or types[0].kind not in TEXT:  # noqa: PLR2004
        return None
    return {TIMESTAMPTZ: TIMESTAMP, TIMESTAMP: TIMESTAMPTZ}.get(types[1])


def _zoned(args: Args, _kind: SqlType) -> Interval:
    inside = args[1].interval
    if ZONES[part_of(args)] in UTC:
        return inside
    return Interval(_moved(inside.lo, -FARTHEST), _moved(inside.hi, FARTHEST))


def _moved(end: Bound | None, step: timedelta) -> datetime | None:
    return later(end, step) if isinstance(end, datetime) else None


def _far(args: Args, _kind: SqlType) -> bool:
    return is_far(args[1])


ZONED = (Function("timezone", _zoned_type, _zoned, raises=_far, accepts=names(ZONES)),)
