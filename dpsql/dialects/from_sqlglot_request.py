"""What surrounds the query: EXPLAIN PRIVACY, OPTIONS(epsilon = …), and the kind of statement.

Both forms are read from the text and then blanked with spaces, so that every offset stays true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import Token, TokenType

from dpsql.dialects.from_sqlglot_tokens import is_word, skip_gap, span_of, tokenize
from dpsql.errors import Reason, Refused
from dpsql.tree import Span

_FIRST_WORD = re.compile(r"[^\W\d]\w*|.|\Z", re.DOTALL)
_EPSILON = re.compile(r"(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?\Z")

_STATEMENTS = frozenset(
    """ALTER ANALYZE ATTACH BEGIN CALL CHECKPOINT COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE
    DELETE DESCRIBE DETACH DISCARD DO DROP EXECUTE EXPLAIN EXPORT FETCH FORCE GRANT IMPORT INSERT
    INSTALL LISTEN LOAD LOCK MERGE NOTIFY PIVOT PRAGMA PREPARE REFRESH REINDEX RELEASE RENAME
    REPLACE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SET SHOW START SUMMARIZE TABLE TRUNCATE
    UNLISTEN UNPIVOT UPDATE UPSERT USE VACUUM""".split()
)


@dataclass(frozen=True, slots=True)
class Request:
    """The query's own text and tokens, and what was asked around it."""

    text: str
    tokens: tuple[Token, ...]
    epsilon: Decimal | None
    explain: bool


def read_request(text: str, dialect: str) -> Request:
    """Splits a text into its query and what surrounds it; refuses what is no single SELECT."""
    rest = _without_explain(text)
    _check_first_word(rest)
    tokens = tokenize(rest, dialect)
    _check_single(tokens)
    tokens = tuple(t for t in tokens if t.token_type is not TokenType.SEMICOLON)
    tokens, epsilon = _without_options(tokens)
    return Request(rest, tokens, epsilon, explain=rest != text)


def _without_explain(text: str) -> str:
    """The text with EXPLAIN PRIVACY blanked, or as it is if it does not begin so."""
    explain = _word_at(text, 0)
    if explain.group().upper() != "EXPLAIN":
        return text
    privacy = _word_at(text, explain.end())
    if privacy.group().upper() != "PRIVACY":
        raise Refused(
            Reason.UNSUPPORTED_STATEMENT,
            Span(*explain.span()),
            construct="EXPLAIN",
            fix="Write EXPLAIN PRIVACY SELECT …",
        )
    return " " * privacy.end() + text[privacy.end() :]


def _word_at(text: str, start: int) -> re.Match[str]:
    found = _FIRST_WORD.match(text, skip_gap(text, start, len(text)))
    assert found is not None
    return found


def _check_first_word(text: str) -> None:
    first = _word_at(text, 0)
    word, span = first.group().upper(), Span(*first.span())
    if word in ("SELECT", "WITH", "("):
        return
    if word in _STATEMENTS:
        raise Refused(Reason.UNSUPPORTED_STATEMENT, span, construct=word)
    if word in ("FROM", "VALUES"):
        construct = "FROM without SELECT" if word == "FROM" else word
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct)
    raise Refused(Reason.SYNTAX, span, why="a query begins with SELECT or WITH")


def _check_single(tokens: Sequence[Token]) -> None:
    """Semicolons may end the text, not divide it."""
    ended = False
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            ended = True
        elif ended:
            raise Refused(
                Reason.UNSUPPORTED_STATEMENT, span_of(token), construct="several statements"
            )


def _without_options(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], Decimal | None]:
    """Takes WITH DIFFERENTIAL_PRIVACY [OPTIONS (epsilon = number)] out of the first SELECT."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.SELECT and _words(tokens, i + 1, "WITH"):
            if depth or not _words(tokens, i + 2, "DIFFERENTIAL_PRIVACY"):
                raise Refused(
                    Reason.UNSUPPORTED_SYNTAX, span_of(tokens[i + 1]), construct="SELECT WITH"
                )
            stop, epsilon = _options(tokens, i + 3)
            return tokens[: i + 1] + tokens[stop:], epsilon
    return tokens, None


def _words(tokens: Sequence[Token], i: int, word: str) -> bool:
    return i < len(tokens) and is_word(tokens[i]) and tokens[i].text.upper() == word


def _options(tokens: Sequence[Token], i: int) -> tuple[int, Decimal | None]:
    """Reads OPTIONS ( name = number, … ) at token `i`: where it ends, and epsilon."""
    if not _words(tokens, i, "OPTIONS"):
        return i, None
    epsilon = None
    _expect(tokens, i + 1, TokenType.L_PAREN)
    i += 2
    while True:
        name = _expect(tokens, i, TokenType.VAR)
        if name.text.lower() != "epsilon" or epsilon is not None:
            raise Refused(
                Reason.BAD_OPTION,
                span_of(name),
                option=name.text,
                why="there is no such option" if epsilon is None else "it is given twice",
            )
        _expect(tokens, i + 1, TokenType.EQ)
        i, epsilon = _epsilon(tokens, i + 2)
        if i < len(tokens) and tokens[i].token_type is TokenType.R_PAREN:
            return i + 1, epsilon
        _expect(tokens, i, TokenType.COMMA)
        i += 1


def _epsilon(tokens: Sequence[Token], i: int) -> tuple[int, Decimal]:
    """The positive number at token `i`, exact, and the token behind it."""
    token = tokens[i] if i < len(tokens) else tokens[-1]
    written = token.text if token.token_type is TokenType.NUMBER else ""
    value = Decimal(written) if _EPSILON.match(written) else Decimal(0)
    if value <= 0:
        raise Refused(
            Reason.BAD_OPTION, span_of(token), option="epsilon", why="it is not a positive number"
        )
    return i + 1, value


def _expect(tokens: Sequence[Token], i: int, kind: TokenType) -> Token:
    token = tokens[i] if i < len(tokens) else tokens[-1]
    if i >= len(tokens) or token.token_type is not kind:
        raise Refused(Reason.SYNTAX, span_of(token), why="expected OPTIONS(epsilon = number)")
    return token
