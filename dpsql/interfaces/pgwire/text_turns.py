"""Long texts are read one after the other, and analysts take turns: reading takes the interpreter
that everybody's answers wait for. Short ones are read at once.

SECURITY.md S20.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dpsql.engines import Interrupted, Stop
from dpsql.engines.pool import WorkerPool
from dpsql.model.errors import Failed

LONG = 4096
"""Characters of a text that waits for its turn: some milliseconds of reading."""


class _Turn:
    """What only one can have."""

    def cancel(self) -> None:
        """Whoever has it ends by itself."""

    def close(self) -> None:
        """There is nothing to stop."""


class TextTurns:
    """The turns of one interpreter."""

    def __init__(self) -> None:
        self._turns = WorkerPool(_Turn, 1)

    @contextmanager
    def reading(self, text: str, stop: Stop) -> Iterator[None]:
        """Around the reading of a text. Raises `Failed` where the wait is ended by `stop`."""
        if len(text) <= LONG:
            yield
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(self._turns.taken(stop))
            except Interrupted:
                raise Failed(secrets.token_hex(8), cancelled=True, charged=False) from None
            yield
