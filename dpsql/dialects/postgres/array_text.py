r"""Arrays as PostgreSQL writes them in text: https://www.postgresql.org/docs/15/arrays.html.

>>> members('{1, NULL, "a \\"b\\""}'), members("{}")
(['1', None, 'a "b"'], [])
"""

from __future__ import annotations

_BLANKS = " \t\n\r\v\f"


def members(text: str) -> list[str | None]:
    """Return the members of a one-dimensional array; blanks around a member are ignored.

    Raises `ValueError` for any other text.
    """
    text = text.strip(_BLANKS)
    if not (text.startswith("{") and text.endswith("}") and len(text) > 1):
        raise ValueError
    if not text[1:-1].strip(_BLANKS):
        return []
    listed: list[str | None] = []
    current, inside, escaped, in_quotes = "", False, False, False
    for c in text[1:-1] + ",":
        if escaped or (inside and c not in '"\\'):
            current, escaped = current + c, False
        elif c == "\\":
            escaped = True
        elif c == '"':
            inside, in_quotes = not inside, True
        elif c == ",":
            member = current if in_quotes else current.rstrip(_BLANKS)
            if not in_quotes and not member:
                raise ValueError
            listed.append(None if not in_quotes and member.upper() == "NULL" else member)
            current, in_quotes = "", False
        elif c in "{}":
            raise ValueError
        elif c not in _BLANKS or (current and not in_quotes):
            current += c
    if inside or escaped:
        raise ValueError
    return listed
