"""Long texts are read by whoever compiles: reading takes the interpreter that everybody's answers
wait for. Short ones are read at once.

SECURITY.md S20.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from dpsql.engines import Stop

T = TypeVar("T")
LONG = 1024
"""Characters of a text that is not read here: more than a millisecond of reading."""


class TextReaders(Protocol):
    """See `dpsql.preparation.compilation.Compiler.apart`."""

    def __call__(self, step: Callable[[], T], stop: Stop) -> T: ...


def here(step: Callable[[], T], stop: Stop) -> T:
    """The step, in this process."""
    del stop
    return step()


def read(apart: TextReaders, size: int, stop: Stop, reader: Callable[..., T], *arguments: Any) -> T:
    """What a reader finds in a text of so many characters, all of which can be pickled.

    Raises as the reader does; and `Failed` where a long one takes too long or is stopped.
    """
    step = partial(reader, *arguments)
    return step() if size <= LONG else apart(step, stop)
