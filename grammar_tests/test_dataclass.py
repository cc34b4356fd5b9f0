"""The house's `dataclass` behaves as the standard library's does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dpsql.model.dataclass import dataclass
from dpsql.model.dataclass import dataclass as ours

ROOT = Path(__file__).parent.parent


def kinds(dataclass: Callable[..., Any]) -> Iterator[tuple[type, tuple[Any, ...], dict[str, Any]]]:
    """Classes, what they are called with, and what is replaced."""

    @dataclass(frozen=True, slots=True)
    class Node:
        """Something with a place."""

        many: ClassVar[int] = 3
        name: str
        parts: tuple[int, ...] = ()
        place: int = field(default=0, compare=False)
        seen: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError(self.place)

        @property
        def size(self) -> int:
            return len(self.parts)

    yield Node, ("a", (1,)), {"place": 3}
    yield Node, ("a",), {"name": "b"}

    @dataclass(frozen=True, slots=True)
    class Below(Node):
        name: str = "below"
        more: bool = field(default=False, kw_only=True)
        __set_name: int = 0  # as a constructor might name what it needs

    yield Below, (), {"more": True}
    yield Below, ("c", (4, 5)), {"name": "d"}

    @dataclass(slots=True)
    class Changing:
        total: float
        seen: list[int] = field(default_factory=list)

    yield Changing, (1.5,), {"total": 2.5}

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        one: int

    yield Itself, (1,), {"one": 2}

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        low: int
        high: int = 9

    yield Ordered, (1,), {"low": 2}
    yield Ordered, (1, 2), {"low": 0, "high": 10}

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        first: int = 1
        second: int = 2

    yield Named, (), {"second": 3}

    @dataclass(frozen=True, slots=True, repr=False)
    class Alone:
        pass

    yield Alone, (), {}

    @dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - it is given one
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __repr__(self) -> str:
            return "own"

    yield Own, (1,), {"x": 2}

    @dataclass(slots=True)
    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 7

    yield Hashed, (1,), {"x": 2}


def _same_hash(one: object, other: object) -> bool:
    return hash(one) == hash(other)


PAIRS = [*zip(kinds(dataclasses.dataclass), kinds(dataclass), strict=True)]
NAMES = [f"{theirs[0].__name__}{theirs[1]}" for theirs, _ in PAIRS]


def outcome(action: Callable[[], Any]) -> Any:
    """What comes of it, or what it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - whatever the library raises
        return type(error), str(error)


@pytest.mark.parametrize(("theirs", "mine"), PAIRS, ids=NAMES)
def test_a_class_is_what_the_standard_library_makes_of_it(
    theirs: tuple[Any, ...], mine: tuple[Any, ...]
) -> None:
    said = []
    for kind, given, changed in (theirs, mine):
        one, again, other = kind(*given), kind(*given), replace(kind(*given), **changed)
        said.append(
            {
                "shown": [str(each).partition(" object at")[0] for each in (one, other)],
                "equal": [one == again, one == other, one != other, one == 1],
                "hash": outcome(partial(_same_hash, one, again)),
                "less": [
                    outcome(partial(getattr(one, f), other))
                    for f in ("__lt__", "__le__", "__gt__", "__ge__")
                    if "__lt__" in vars(kind)
                ],
                "fields": [
                    (f.name, f.type, f.compare, f.repr, f.kw_only, f.init) for f in fields(kind)
                ],
                "values": [getattr(other, f.name) for f in fields(other)],
                "is": (is_dataclass(kind), is_dataclass(one)),
                "match": kind.__match_args__,
                "slots": kind.__slots__,
                "dict": hasattr(one, "__dict__"),
                "doc": kind.__doc__ if kind.__name__ == "Node" else "",
                "parameters": [
                    (p.name, p.kind, p.default is p.empty)
                    for p in inspect.signature(kind).parameters.values()
                ],
                "copied": copy.copy(other).__class__ is kind,
                "missing": outcome(kind)[0] if outcome(kind).__class__ is tuple else "",
                "too many": outcome(partial(kind, 1, 2, 3, 4, 5, 6, 7))[0],
                "unknown": outcome(partial(kind, no=1))[0],
            }
        )
    assert said[0] == said[1]


def test_what_is_frozen_cannot_be_set_or_deleted() -> None:
    for kind, given, changed in kinds(ours):
        one = kind(*given)
        for name, value in changed.items():
            if kind.__name__ in ("Changing", "Hashed"):
                setattr(one, name, value)
                assert getattr(one, name) == value
                continue
            with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
                setattr(one, name, value)
            with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
                delattr(one, name)


@ours(frozen=True, slots=True)
class Travels:
    """Goes through a pickle."""

    name: str
    parts: tuple[int, ...] = ()


def test_constructors_of_as_many_fields_have_one_code_and_their_own_names() -> None:
    @ours(slots=True)
    class Point:
        x: int
        y: int = 2

    @ours(slots=True)
    class Span:
        start: int
        end: int

    one, other = Point.__init__.__code__, Span.__init__.__code__
    assert one.co_code == other.co_code
    assert (one.co_varnames, other.co_varnames) == (("self", "x", "y"), ("self", "start", "end"))
    assert (Point(x=1), Span(end=4, start=3)) == (Point(1, 2), Span(3, 4))
    with pytest.raises(TypeError, match=r"Span\.__init__.*missing 1 .* argument: 'end'"):
        Span(1)  # type: ignore[call-arg]


def test_a_field_without_a_default_does_not_follow_one_with_a_default() -> None:
    for kind in (dataclasses.dataclass, ours):
        with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):

            @kind(slots=True)
            class _Wrong:
                x: int = 1
                y: int


def test_a_constructor_takes_what_the_constructor_of_the_library_takes() -> None:
    for given, named in [((), {}), ((1,) * 7, {}), ((), {"no": 1}), ((1,), {"name": 1, "x": 1})]:
        for pair in zip(kinds(dataclasses.dataclass), kinds(ours), strict=True):
            made = [outcome(partial(kind, *given, **named)) for kind, *_ in pair]
            theirs, mine = (one[0] if one.__class__ is tuple else None for one in made)
            assert theirs == mine


def test_a_pickle_is_read_before_anything_else_of_the_class_is() -> None:
    data = pickle.dumps(Travels("a", (1, 2)))
    for name in ("__init__", "__dataclass_fields__"):
        assert pickle.loads(data) == Travels("a", (1, 2)), name  # noqa: S301 - ours
    match pickle.loads(data):  # noqa: S301 - ours
        case Travels(name, parts):
            assert (name, parts) == ("a", (1, 2))


def test_every_node_of_the_house_has_the_fields_that_the_library_would_give_it() -> None:
    from dpsql import proxy  # noqa: F401, PLC0415 - what there is to be looked at

    seen = 0
    for module in [m for n, m in sys.modules.items() if n.startswith("dpsql.")]:
        for kind in vars(module).values():
            if isinstance(kind, type) and "__dpsql_shape__" in vars(kind):
                shape = vars(kind)["__dpsql_shape__"]
                assert [f.name for f in fields(kind)] == list(shape.fields)
                assert set(vars(kind)["__slots__"]) <= set(shape.fields)
                seen += 1
    assert seen > 300


def test_no_module_has_the_library_compile_its_classes() -> None:
    for file in (ROOT / "dpsql").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        imported = re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)
        assert file.name == "dataclass.py" or imported is None, file
