"""Names that an analyst's roles do not grant, kept out of refusals and plans (PRIVACY.md R105).

Names are resolved among granted ones. Advice of later steps reads whole tables, so that a fact of a
refusal is left out where it names what is not granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Policy, TablePolicy

WITHHELD = "-- not shown: it reads whole tables, of which a role grants a part"
"""Text in place of the SQL of a block, for analysts with roles."""


def is_withheld(text: str, policy: Policy, said: str = "") -> bool:
    """Test whether a text has a name that is not granted, and that is not `said` by the analyst.

    The name of the unit's table is the word for people, which everybody may know.
    """
    if not policy.beneath:
        return False
    usable = _names(policy.tables) | _words(policy.unit.table) | _words(said)
    return not _words(text).isdisjoint(_names(policy.beneath) - usable)


@contextmanager
def withheld_names(policy: Policy, text: str) -> Iterator[None]:
    """Leave out the facts of a refusal that name what is not granted, unless the text does."""
    try:
        yield
    except Refused as refused:
        whole = refused.facts.items()
        facts = {name: fact for name, fact in whole if not is_withheld(str(fact), policy, text)}
        if len(facts) == len(whole):
            raise
        raise Refused(refused.reason, refused.span, **facts) from None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _names(tables: tuple[TablePolicy, ...]) -> frozenset[str]:
    named = (*(t.name for t in tables), *(c.name for t in tables for c in t.columns))
    return frozenset[str]().union(*map(_words, named))
