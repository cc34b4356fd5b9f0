"""AT TIME ZONE and TIMEZONE(): the zone is a constant with a name that the engines know."""

from __future__ import annotations

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin
from dpsql.dialects.reading.window_frames import Read
from dpsql.functions.zone_names import ZONES
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import VARCHAR, Call, Expression, Literal, Span


def at_time_zone(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """The moment AT TIME ZONE 'name'."""
    moment, zone = origin.take(node, "this", "zone")
    return in_zone(read(zone, origin), read(moment, origin), origin.span(node))


def in_zone(zone: Expression, moment: Expression, span: Span) -> Call:
    """TIMEZONE(zone, moment); raises `Refused` for a zone that is computed or not known."""
    if not (isinstance(zone, Literal) and isinstance(zone.value, str)):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a computed time zone")
    name = ZONES.get(zone.value.lower())
    if name is None:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, zone.span, construct="this time zone")
    return Call("timezone", (Literal(name, VARCHAR, zone.span), moment), span=span)
