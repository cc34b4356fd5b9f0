"""Cache of replies to repeated requests: the same bytes, free of charge.

This is sound for the reason in `dpsql.vault.vault`: a remembered answer is valid while the stamp of
the proxy is the same. Apart from that a reply depends on the analyst, the body and the format
alone. Only remembered answers and public rows are kept, and no problem. SECURITY.md S31.
"""

from __future__ import annotations

from collections.abc import Hashable

from starlette.responses import Response

from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Receipt

MOST_BYTES = 1 << 24
"""Maximum number of bytes of all replies."""
MOMENT = 0.005
"""Seconds for which a repeated request waits for the ledger before it is asked as a new one."""


@dataclass(frozen=True, slots=True)
class RepeatedReply:
    """A reply as it is sent, and the receipt for the log."""

    reply: Response
    receipt: Receipt | None


class RepeatedReplies:
    """Replies under one stamp: those under another one are never sent again.

    >>> replies = RepeatedReplies()
    >>> replies.put(1, "key", RepeatedReply(Response(b"n"), None))
    >>> replies.get(1, "key") is not None, replies.get(2, "key"), replies.get(None, "key")
    (True, None, None)
    """

    def __init__(self) -> None:
        self._stamp: object = None
        self._replies = self._empty()

    @staticmethod
    def _empty() -> BoundedCache[RepeatedReply]:
        return BoundedCache(MOST_BYTES, lambda each: 1000 + len(each.reply.body))

    def get(self, stamp: object, key: Hashable) -> RepeatedReply | None:
        """Return the reply to a request that was put under this stamp."""
        return None if stamp is None or stamp != self._stamp else self._replies.get(key)

    def put(self, stamp: object, key: Hashable, reply: RepeatedReply) -> None:
        """Keep a reply under the stamp from before it was asked."""
        if stamp is None:
            return
        if stamp != self._stamp:
            self._stamp, self._replies = stamp, self._empty()
        self._replies.put(key, reply)
