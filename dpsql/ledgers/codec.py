"""Events, facts and answers as canonical text: exact, typed, and the same on every machine.

Every number is an integer or an exact rational "num/den"; nothing is pickled.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_never
from uuid import UUID

from dpsql.ledgers import Ceiling, Inquiry
from dpsql.model import vocabulary
from dpsql.model.calendars import read_calendar
from dpsql.model.origins import MeasuredColumns
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Event, Fact, FactKind, Loss, Noisy, SelectionEvent, Voucher

_ANSWER_FORMAT = b"\x01"
_COMPRESSION = 1
"""Fastest level of zlib: an answer is written once and rarely read."""
_MICROSECOND = timedelta(microseconds=1)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def canonical(value: Any) -> str:
    """Return JSON with sorted keys, no spaces and ASCII only: equal values have equal text."""
    return _CANONICAL.encode(value)


# --- events ----------------------------------------------------------------------------------


def encode_event(event: Event) -> str:
    """Return an event as canonical JSON, one object per part.

    >>> encode_event(Event((SelectionEvent(Fraction(1, 1000)),)))
    '[{"delta":"1/1000","part":"selection"}]'
    """
    return canonical([_encode_part(part) for part in event.parts])


def decode_event(text: str) -> Event:
    """Return the event that `encode_event` wrote; raises ValueError or KeyError on anything
    else.
    """
    return Event(tuple(_decode_part(part) for part in json.loads(text)))


def _encode_part(part: vocabulary.EventPart) -> dict[str, Any]:
    match part:
        case vocabulary.NoiseEvent(noise=noise, sensitivity=sensitivity):
            return {
                "part": "noise",
                "mechanism": noise.mechanism.value,
                "scale": _ratio(noise.scale),
                "delta": _ratio(noise.delta),
                "l0": sensitivity.l0,
                "lower": sensitivity.lower,
                "upper": sensitivity.upper,
                "neighbours": sensitivity.neighbours.value,
                **({"alone": True} if sensitivity.alone else {}),
                **(
                    {}
                    if sensitivity.norm is vocabulary.Norm.MAX
                    else {"norm": sensitivity.norm.value}
                ),
                **({"together": sensitivity.together} if sensitivity.together > 1 else {}),
            }
        case SelectionEvent(delta=delta):
            return {"part": "selection", "delta": _ratio(delta)}
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return {"part": "bounded range", "epsilon": _ratio(epsilon), "rounds": rounds}
        case vocabulary.ApproximateEvent(epsilon=epsilon, delta=delta, rounds=rounds):
            return {
                "part": "approximate",
                "epsilon": _ratio(epsilon),
                "delta": _ratio(delta),
                "rounds": rounds,
            }
        case _:
            assert_never(part)


def _decode_part(part: dict[str, Any]) -> vocabulary.EventPart:
    match part["part"]:
        case "noise":
            scale, delta = Fraction(part["scale"]), Fraction(part["delta"])
            neighbours = vocabulary.Neighbours(part["neighbours"])
            return vocabulary.NoiseEvent(
                vocabulary.Noise(vocabulary.Mechanism(part["mechanism"]), scale, delta),
                vocabulary.Sensitivity(
                    part["l0"],
                    part["lower"],
                    part["upper"],
                    neighbours,
                    alone=part.get("alone", False) is True,
                    norm=vocabulary.Norm(part.get("norm", vocabulary.Norm.MAX)),
                    together=part.get("together", 1),
                ),
            )
        case "selection":
            return SelectionEvent(Fraction(part["delta"]))
        case "bounded range":
            return vocabulary.BoundedRangeEvent(Fraction(part["epsilon"]), part["rounds"])
        case "approximate":
            epsilon, delta = Fraction(part["epsilon"]), Fraction(part["delta"])
            return vocabulary.ApproximateEvent(epsilon, delta, part["rounds"])
        case other:
            raise ValueError(f"no event has a part called {other}")


def _ratio(number: Fraction) -> str:
    return f"{number.numerator}/{number.denominator}"


# --- facts -----------------------------------------------------------------------------------


def encode_facts(facts: frozenset[Fact], identity: str) -> str:
    """Return facts and the identity of their files as JSON; the voucher is left out.

    >>> encode_facts(frozenset({Fact(FactKind.UNIQUE_KEY, "t", Voucher.CHECK)}), "7")
    '{"facts":[["unique key","t"]],"identity":"7"}'
    """
    pairs = sorted([fact.kind.value, fact.table] for fact in facts)
    return canonical({"identity": identity, "facts": pairs})


def decode_facts(text: str) -> tuple[str, frozenset[Fact]]:
    """Return (identity, facts) as `encode_facts` wrote them; the voucher is a recorded check."""
    read = json.loads(text)
    pairs = read["facts"]
    facts = frozenset(Fact(FactKind(kind), table, Voucher.CHECK) for kind, table in pairs)
    return read["identity"], facts


# --- ceilings --------------------------------------------------------------------------------


def scope(ceiling: Ceiling) -> list[Any]:
    """Return the budget and analysts that a limit covers, for JSON; [] if it covers everything.

    Its calendar and its further filters follow, if it has any.

    >>> scope(Ceiling("group g", Loss(1), "b", frozenset({"bob", "ana"})))
    ['b', ['ana', 'bob']]
    """
    analysts = None if ceiling.analysts is None else sorted(ceiling.analysts)
    renews = None if ceiling.renews is None else ceiling.renews.text
    further = ceiling.most.further or None
    parts = [ceiling.budget, analysts, renews, ceiling.periods or None, further]
    last = max((place for place, part in enumerate(parts) if part is not None), default=-1)
    return parts[: max(2, last + 1)] if last >= 0 else []


def ceiling_of(title: str, parts: Sequence[Any]) -> Ceiling:
    """Return the limit with two amounts and a scope; its last parts may be missing."""
    unsaid: list[Any] = [None, None, None, "", ()]
    every = [*parts, *unsaid[len(parts) - 2 :]]
    amount, delta, budget, analysts, renews, periods, further = every
    covered = None if analysts is None else frozenset(analysts)
    calendar = None if renews is None else read_calendar(renews)
    most = Loss(amount, delta, tuple(further))
    return Ceiling(title, most, budget, covered, calendar, periods=periods or "")


# --- inquiries -------------------------------------------------------------------------------

LONGEST = 10_000
"""Longest kept text of a statement, in characters."""
LONGEST_CLIENT = 100
"""Longest kept name of a client program, in characters."""


_NAMED = ("windows", "periods", "further")
"""Parts of an inquiry that say what was charged."""


def encode_inquiry(
    inquiry: Inquiry,
    windows: Mapping[str, str] | None = None,
    periods: ChargedPeriods | None = None,
    further: Iterable[int] = (),
) -> str:
    r"""Return an inquiry as canonical JSON, with long texts cut, the charged windows by calendar,
    the charged periods of people, and the further coordinates of the charge.

    Unprintable characters in the client's name become question marks, as in PostgreSQL.

    >>> encode_inquiry(Inquiry("postgres", "psql\n", "SELECT 1"))
    '{"client":"psql?","door":"postgres","sql":"SELECT 1"}'
    """
    client = "".join(c if c.isprintable() else "?" for c in inquiry.client[: LONGEST_CLIENT + 1])
    shortened = {"client": _cut(client, LONGEST_CLIENT), "sql": _cut(inquiry.sql, LONGEST)}
    more = {"requested": inquiry.requested} if inquiry.requested else {}
    named = {"windows": windows} if windows else {}
    of = {} if periods is None else {"periods": [periods.rule.text, *periods.names]}
    charged = {**named, **of, **_further(further)}
    return canonical({"door": inquiry.door, **shortened, **more, **charged})


def _further(further: Iterable[int]) -> dict[str, list[int]]:
    return {"further": [*further]} if further else {}


def decode_further(text: str | None) -> tuple[int, ...]:
    """Return the further coordinates of a charge from its inquiry, or of a share from its holders.

    >>> decode_further(encode_inquiry(Inquiry(), further=(3, 5)))
    (3, 5)
    """
    if text is None or '"further":' not in text:
        return ()
    read = json.loads(text)
    return tuple(read.get("further", ())) if isinstance(read, dict) else ()


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def decode_inquiry(text: str | None) -> Inquiry:
    """Return the inquiry that `encode_inquiry` wrote; an empty one for None, as in older
    entries.
    """
    if text is None:
        return Inquiry()
    read = json.loads(text)
    return Inquiry(**{key: value for key, value in read.items() if key not in _NAMED})


def decode_windows(text: str | None) -> dict[str, str]:
    """Return the charged windows that `encode_inquiry` wrote; {} where no limit renews.

    >>> decode_windows(encode_inquiry(Inquiry(), {"day UTC": "2026-11-29"}))
    {'day UTC': '2026-11-29'}
    """
    if text is None or '"windows":' not in text:
        return {}
    return dict(json.loads(text).get("windows", {}))


def decode_periods(text: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the rule and the charged periods of people; no period where units are people."""
    if text is None or '"periods":' not in text:
        return "", ()
    rule, *names = json.loads(text).get("periods", [""])
    return str(rule), tuple(map(str, names))


def encode_versions(rule: str, versions: Mapping[str, int]) -> str:
    """Return the new data versions of some periods of people under a rule, as canonical JSON.

    >>> encode_versions("month from 2024-01", {"2024-03": 2})
    '{"rule":"month from 2024-01","versions":{"2024-03":2}}'
    """
    return canonical({"rule": rule, "versions": versions})


def decode_versions(text: str) -> tuple[str, dict[str, int]]:
    """Return the rule and the data versions that `encode_versions` wrote."""
    read = json.loads(text)
    return str(read["rule"]), {str(name): int(n) for name, n in read["versions"].items()}


def encode_holders(
    holders: Iterable[str],
    windows: Mapping[str, str],
    further: Iterable[int] = (),
    periods: ChargedPeriods | None = None,
) -> str:
    """Return the earlier holders of a shared answer, the charged windows and periods, and the
    further coordinates of the charge, as canonical JSON.
    """
    before = sorted(holders)
    if not (windows or further or periods):
        return canonical(before)
    of = {} if periods is None else {"periods": [periods.rule.text, *periods.names]}
    return canonical({"before": before, "windows": windows, **of, **_further(further)})


def decode_holders(text: str) -> tuple[frozenset[str], dict[str, str]]:
    """Return the holders and the windows that `encode_holders` wrote."""
    read = json.loads(text)
    if isinstance(read, dict):
        return frozenset(read["before"]), dict(read["windows"])
    return frozenset(read), {}


# --- answers ---------------------------------------------------------------------------------


def encode_answer(answer: tuple[Noisy, ...]) -> bytes:
    """Return noisy blocks as one byte of format and compressed JSON.

    None, bool, int and str are JSON values. Any other key is a list [tag, exact text]. An aware
    datetime has its offset from UTC in microseconds as a third member: its instant and offset are
    kept, not the name of its zone. Raises TypeError on a key of any other type.
    """
    blocks = [
        [
            [[_tagged(key) for key in keys] for keys in block.keys],
            block.parts,
            *([] if block.origin is None else [_encode_origin(block.origin)]),
        ]
        for block in answer
    ]
    return _ANSWER_FORMAT + zlib.compress(canonical(blocks).encode("ascii"), _COMPRESSION)


def decode_answer(payload: bytes) -> tuple[Noisy, ...]:
    """Return the blocks that `encode_answer` wrote; raises ValueError on another format.

    >>> decode_answer(encode_answer((Noisy(((Decimal("1.50"), None),), ((7,),)),)))
    (Noisy(keys=((Decimal('1.50'), None),), parts=((7,),), origin=None),)
    """
    if payload[:1] != _ANSWER_FORMAT:
        raise ValueError("this answer was written in another format")
    return tuple(
        Noisy(
            tuple(tuple(_untagged(key) for key in group) for group in keys),
            tuple(map(tuple, parts)),
            _decode_origin(more[0]) if more else None,
        )
        for keys, parts, *more in json.loads(zlib.decompress(payload[1:]))
    )


def _encode_origin(origin: MeasuredColumns) -> dict[str, Any]:
    noises = [[n.mechanism.value, _ratio(n.scale), _ratio(n.delta)] for n in origin.noises]
    along = {"along": origin.along} if origin.along else {}
    return {"keys": origin.keys, "parts": origin.parts, "noises": noises, **along}


def _decode_origin(read: dict[str, Any]) -> MeasuredColumns:
    noises = (
        vocabulary.Noise(vocabulary.Mechanism(law), Fraction(scale), Fraction(delta))
        for law, scale, delta in read["noises"]
    )
    along = tuple(read.get("along", ()))
    return MeasuredColumns(tuple(read["keys"]), tuple(read["parts"]), tuple(noises), along)


def _tagged(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal():
            return ["decimal", str(value)]
        case float():
            return ["double", value.hex()]
        case datetime():  # before date, of which it is a subclass
            offset = value.utcoffset()
            local = value.replace(tzinfo=None).isoformat()
            return ["timestamp", local, *([] if offset is None else [offset // _MICROSECOND])]
        case date():
            return ["date", value.isoformat()]
        case time():
            return ["time", value.isoformat()]
        case UUID():
            return ["uuid", str(value)]
        case _:
            raise TypeError(f"a released key cannot be a {type(value).__name__}")


def _untagged(value: Any) -> Any:
    match value:
        case ["decimal", str(text)]:
            return Decimal(text)
        case ["double", str(text)]:
            return float.fromhex(text)
        case ["timestamp", str(text)]:
            return datetime.fromisoformat(text)
        case ["timestamp", str(text), int(offset)]:
            return datetime.fromisoformat(text).replace(tzinfo=timezone(offset * _MICROSECOND))
        case ["date", str(text)]:
            return date.fromisoformat(text)
        case ["time", str(text)]:
            return time.fromisoformat(text)
        case ["uuid", str(text)]:
            return UUID(text)
        case list():
            raise ValueError("this answer holds a value of an unknown type")
        case _:
            return value
