"""Scans: what a tool asks of its own accord, to fill its lists of values and its statistics.

Metabase writes `-- Metabase` before a statement of its own, and `-- Metabase:: userID: …` before
the question of a person.
"""

from __future__ import annotations

import re

from dpsql.dialects.postgres.words import Piece
from dpsql.interfaces.pgwire.faults import Fault

_UNASKED = re.compile(r"--\s*Metabase\s*\Z")


def is_scan(piece: Piece) -> bool:
    r"""Whether nobody asked this.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> [is_scan(*pieces(f"-- Metabase{who}\nSELECT 1")) for who in ("", ":: userID: 1")]
    [True, False]
    """
    return _UNASKED.match(piece.remark) is not None


def refusal() -> Fault:
    """What is told where a scan would cost something."""
    return Fault(
        "42501",
        "A scan that nobody asked for is not paid for.",
        "Values that the policy lists are told for nothing; what else a column holds costs.",
        "Let the tool not scan this column for values, or ask for the values as a question.",
    )
