"""HTTP connections: limits on the time and size of request heads, and limits per address.

Addresses are counted while their connections are open, and neither stored nor shown: SECURITY.md
S26 and S31. httptools parses requests faster than h11, which serves without it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.interfaces.hosts import place_of
from dpsql.model.dataclass import dataclass, field

HAS_HTTPTOOLS = find_spec("httptools") is not None
if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    _Protocol = H11Protocol
else:
    _Protocol = HttpToolsProtocol = object
    if HAS_HTTPTOOLS:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 1 << 16
"""Maximum number of bytes between two events of the parser: of a head, or of a piece of a body."""


@dataclass(slots=True)
class AddressShares:
    """Numbers of open connections by address, at most `most` each.

    >>> shares = AddressShares(1)
    >>> shares.enter("10.0.0.1"), shares.enter("10.0.0.1"), shares.enter("10.0.0.2")
    (True, False, True)
    >>> shares.leave("10.0.0.1")
    >>> shares.enter("10.0.0.1")
    True
    """

    most: int
    open: Counter[str] = field(default_factory=Counter)

    def enter(self, place: str) -> bool:
        """Count a new connection, and return True, unless the address has too many."""
        if self.open[place] >= self.most:
            return False
        self.open[place] += 1
        return True

    def leave(self, place: str) -> None:
        """Count a closed connection, and forget an address without any."""
        self.open[place] -= 1
        if not self.open[place]:
            del self.open[place]


class BoundedHttp(_Protocol):
    """Part of an HTTP protocol that closes connections beyond the limit, or without a head for
    `seconds`.
    """

    shares: AddressShares
    seconds: float
    late: asyncio.TimerHandle | None = None
    place: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and wait for its first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        place = place_of(self.client[0] if self.client else "")
        if self.shares.enter(place):
            self.place = place
            self.expect_head()
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the count."""
        super().connection_lost(exc)
        self.stop_waiting()
        if self.place is not None:
            self.shares.leave(self.place)

    def data_received(self, data: bytes) -> None:
        """Process data. Stop the timer if the head is complete."""
        super().data_received(data)
        self.heed_head()

    def on_response_complete(self) -> None:
        """Wait for the next head, unless it has arrived."""
        self.expect_head()
        super().on_response_complete()
        self.heed_head()

    def expect_head(self) -> None:
        """Start the timer that closes the connection without a complete head."""
        self.stop_waiting()
        self.late = self.loop.call_later(self.seconds, self.transport.abort)

    def heed_head(self) -> None:
        """Stop the timer while a request is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()

    def stop_waiting(self) -> None:
        """Stop the timer."""
        if self.late is not None:
            self.late.cancel()


class BoundedParser(HttpToolsProtocol):
    """Part of an HTTP protocol of httptools that closes connections with too long a head.

    httptools has no limit of its own: neither for heads nor for what follows the last chunk.
    """

    unparsed = 0

    def data_received(self, data: bytes) -> None:
        """Process data, unless nothing of it ends a head or is a part of a body."""
        self.unparsed += len(data)
        super().data_received(data)
        if self.unparsed > MOST_HEAD_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """Begin a new count."""
        self.unparsed = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Begin a new count."""
        self.unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin a new count."""
        self.unparsed = 0
        super().on_message_complete()


def bounded_protocol(
    shares: AddressShares, seconds: float, *, fast: bool = HAS_HTTPTOOLS
) -> type[BoundedHttp]:
    """Return the protocol with these limits, and `seconds` for each head. `fast` is httptools."""
    parser = BoundedParser if fast else H11Protocol
    limits = {"shares": shares, "seconds": seconds}
    return type("Bounded", (BoundedHttp, parser), limits)
