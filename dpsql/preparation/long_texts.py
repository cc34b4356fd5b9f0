"""Long texts are read in the compiler's process, because reading blocks the interpreter for all
answers. Short texts are read here.

SECURITY.md S20.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from dpsql.engines import Stop

T = TypeVar("T")
LONG = 1024
"""Length of a text in characters from which it is read elsewhere: over a millisecond."""


class TextReaders(Protocol):
    """Function that runs a step elsewhere; see `dpsql.preparation.compilation.Compiler.apart`."""

    def __call__(self, step: Callable[[], T], stop: Stop) -> T: ...


def here(step: Callable[[], T], stop: Stop) -> T:
    """Run a step in this process, and return its result."""
    del stop
    return step()


def read(apart: TextReaders, size: int, stop: Stop, reader: Callable[..., T], *arguments: Any) -> T:
    """Return the reader's result for a text of `size` characters; arguments must be picklable.

    Raises as the reader does; and `Failed` if a long text takes too long or is stopped.
    """
    step = partial(reader, *arguments)
    return step() if size <= LONG else apart(step, stop)
