"""Syntax around the query: EXPLAIN [PRIVACY] (…), OPTIONS(name = …), the kind of statement.

A place in the query is its place in the whole text.
GoogleSQL's named arguments of aggregates are taken out of the tokens, because no engine's grammar
has them. A call finds its own by the place of its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from sqlglot import Token, TokenType

from dpsql.dialects.reading.interval_tokens import with_made
from dpsql.dialects.reading.token_words import is_word, marks_of, span_of
from dpsql.dialects.reading.tokens import skip_gap, tokenize
from dpsql.dialects.statements.commands import Explain, OtherStatement
from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import KeyAim, Memory
from dpsql.model.table_names import unknown_option
from dpsql.model.tree import Clip, PlanForm, Span

_FIRST_WORD = re.compile(r"[^\W\d]\w*|.|\Z", re.DOTALL)

_UNITS = re.compile(r"\d{1,9}\Z")

_FORMS = {
    **dict.fromkeys([("VERBOSE", word) for word in ", ) ON TRUE 1".split()], PlanForm.LONG),
    **dict.fromkeys([("VERBOSE", word) for word in "OFF FALSE 0".split()], PlanForm.SHORT),
    ("FORMAT", "TEXT"): PlanForm.SHORT,
    ("FORMAT", "JSON"): PlanForm.JSON,
}
"""Form of the plan, by option of EXPLAIN and the word after it."""

_RUNS = ("ANALYZE", "ANALYSE")
_IDLE = {
    (option, word): PlanForm.SHORT
    for option, words in (
        *((name, ", ) ON TRUE 1 OFF FALSE 0") for name in ("COSTS", "SETTINGS", "SUMMARY")),
        *((name, "OFF FALSE 0") for name in (*_RUNS, "BUFFERS", "TIMING", "WAL")),
    )
    for word in words.split()
}
"""PostgreSQL's options without effect on our plans; EXPLAIN alone accepts them."""

_STATEMENTS = frozenset(
    """ALTER ANALYZE ATTACH BEGIN CALL CHECKPOINT COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE
    DELETE DESCRIBE DETACH DISCARD DO DROP EXECUTE EXPLAIN EXPORT FETCH FORCE GRANT IMPORT INSERT
    INSTALL LISTEN LOAD LOCK MERGE NOTIFY PRAGMA PREPARE REFRESH REINDEX RELEASE RENAME REPLACE
    RESET REVOKE ROLLBACK SAVEPOINT SECURITY SET SHOW START SUMMARIZE TRUNCATE UNLISTEN UPDATE
    UPSERT USE VACUUM""".split()
)
_QUERIES = frozenset({"SELECT", "WITH", "(", "FROM", "TABLE", "VALUES", "PIVOT", "UNPIVOT"})
"""First words of queries."""


@dataclass(frozen=True, slots=True)
class OptionedQuery:
    """The query's own text and tokens, and the options around it."""

    text: str
    tokens: tuple[Token, ...]
    epsilon: Decimal | None
    min_units: int | None = None
    max_error: str | None = None
    confidence: Decimal | None = None
    nonnegative: bool = False
    mechanism: str | None = None
    memory: str | None = None
    keys: str | None = None
    named: Mapping[int, Named] = field(default_factory=dict)


def read_request(text: str, dialect: str, written: str) -> OptionedQuery | OtherStatement:
    """Split a text into its query and options, or read EXPLAIN or a statement of a side system.

    `written` is the text with the quotes of its dialect. Refuses other texts.
    """
    if (said := _other_statement(text, written)) is not None:
        return said
    tokens = tokenize(text, dialect)
    ended = False
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            ended = True
        elif ended:
            raise Refused(
                Reason.UNSUPPORTED_STATEMENT, span_of(token), construct="several statements"
            )
    tokens = tuple(t for t in tokens if t.token_type is not TokenType.SEMICOLON)
    if dialect == "postgres":
        tokens = with_made(tokens)
    marks, before, named = marks_of(tokens), tokens, dict[int, Named]()
    tokens, options = _without_options(tokens) if "WITH" in marks else (tokens, {})
    if TokenType.FARROW in marks:
        tokens, named = without_named(tokens, allowed=tokens != before)
    return OptionedQuery(
        text=text,
        tokens=tokens,
        epsilon=options.get("epsilon"),
        min_units=options.get("min_privacy_units_per_group"),
        max_error=options.get("max_error"),
        confidence=options.get("confidence"),
        nonnegative=options.get("nonnegative", False),
        mechanism=options.get("mechanism"),
        memory=options.get("memory"),
        keys=options.get("keys"),
        named=named,
    )


def divided(text: str, dialect: str) -> tuple[Span, ...]:
    """Return the span of each statement in a text, without the semicolons between them."""
    spans: list[Span] = []
    begins = True
    for token in tokenize(text, dialect):
        if token.token_type is TokenType.SEMICOLON:
            begins = True
            continue
        here = span_of(token)
        if begins:
            spans.append(here)
        spans[-1] = Span(spans[-1].start, here.stop)
        begins = False
    return tuple(spans)


def read_explain(text: str) -> Explain | None:
    """Read EXPLAIN [PRIVACY] and its options; None for another text. Raises `Refused`.

    >>> read_explain("EXPLAIN (FORMAT JSON) SELECT 1")
    Explain(form=<PlanForm.JSON: 'json'>, start=21)
    """
    explain = _word_at(text, 0)
    if explain.group().upper() != "EXPLAIN":
        return None
    behind = _word_at(text, explain.end())
    if behind.group().upper() in _RUNS:
        construct, fix = "EXPLAIN ANALYZE", "EXPLAIN alone runs nothing, and is free."
        place = Span(explain.start(), explain.end())
        raise Refused(Reason.UNSUPPORTED_STATEMENT, place, construct=construct, fix=fix)
    if behind.group().upper() == "PRIVACY":
        form, end = _form(text, behind.end(), _FORMS)
    else:
        form, end = _form(text, explain.end(), _FORMS | _IDLE)
    return Explain(form, end)


def _form(text: str, start: int, forms: Mapping[tuple[str, str], PlanForm]) -> tuple[PlanForm, int]:
    """Return the form of VERBOSE, or (option, …) as in PostgreSQL, and the place after it."""
    first = _word_at(text, start)
    if first.group().upper() == "VERBOSE":
        return PlanForm.LONG, first.end()
    inner = _word_at(text, first.end())
    if first.group() != "(" or inner.group().upper() in _QUERIES:
        return PlanForm.SHORT, start
    form = PlanForm.SHORT
    while True:
        option = inner.group().upper()
        value = _word_at(text, inner.end())
        said = value.group().upper()
        if (option, said) not in forms:
            why = "there is VERBOSE [ON | OFF], and FORMAT TEXT or JSON"
            raise Refused(
                Reason.BAD_OPTION, Span(inner.start(), inner.end()), option=inner.group(), why=why
            )
        form = max(form, forms[option, said], key=tuple(PlanForm).index)
        end = value if said in (",", ")") else _word_at(text, value.end())
        if end.group() == ")":
            return form, end.end()
        if end.group() != ",":
            raise Refused(Reason.SYNTAX, Span(end.start(), end.end()), why="expected EXPLAIN (…)")
        inner = _word_at(text, end.end())


def _word_at(text: str, start: int) -> re.Match[str]:
    word = _FIRST_WORD.match(text, skip_gap(text, start, len(text)))
    assert word is not None
    return word


def _other_statement(text: str, written: str) -> OtherStatement | None:
    """Return EXPLAIN or a statement of a side system; None for a query. Refuses others."""
    first = _word_at(text, 0)
    word, span = first.group().upper(), Span(first.start(), first.end())
    if word in _QUERIES:
        return None
    if word in _STATEMENTS:
        said = _READERS_OF[word](written) if word in _READERS_OF else None
        if said is not None:
            return said
        raise Refused(Reason.UNSUPPORTED_STATEMENT, span, construct=word)
    raise Refused(Reason.SYNTAX, span, why="a query begins with SELECT or WITH")


_READERS_OF: Mapping[str, Callable[[str], OtherStatement | None]] = {
    "CREATE": read_system_statement,
    "DROP": read_system_statement,
    "EXPLAIN": read_explain,
}
"""Readers of other statements than queries, by the first word."""


def not_a_query(text: str) -> Refused:
    """Return the refusal of a statement where a query is expected."""
    first = _word_at(text, 0)
    construct = first.group().upper()
    return Refused(
        Reason.UNSUPPORTED_STATEMENT, Span(first.start(), first.end()), construct=construct
    )


def _without_options(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], dict[str, Any]]:
    """Remove WITH DIFFERENTIAL_PRIVACY [OPTIONS (name = number, …)] from the first SELECT."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.SELECT and _words(tokens, i + 1, "WITH"):
            if depth or not _words(tokens, i + 2, "DIFFERENTIAL_PRIVACY"):
                raise Refused(
                    Reason.UNSUPPORTED_SYNTAX, span_of(tokens[i + 1]), construct="SELECT WITH"
                )
            stop, options = _options(tokens, i + 3)
            return tokens[: i + 1] + tokens[stop:], options
    return tokens, {}


def _words(tokens: Sequence[Token], i: int, word: str) -> bool:
    return i < len(tokens) and is_word(tokens[i]) and tokens[i].text.upper() == word


def _options(tokens: Sequence[Token], i: int) -> tuple[int, dict[str, Any]]:
    """Read OPTIONS ( name = number, … ) at token `i`; return the place after it, and the
    options.
    """
    options: dict[str, Any] = {}
    if not _words(tokens, i, "OPTIONS"):
        return i, options
    _expect(tokens, i + 1, TokenType.L_PAREN)
    i += 2
    while True:
        name = _expect(tokens, i, TokenType.VAR)
        option = name.text.lower()
        if option not in _READERS:
            raise unknown_option(name.text, _READERS, span_of(name))
        if option in options:
            why = "it is given twice"
            raise Refused(Reason.BAD_OPTION, span_of(name), option=name.text, why=why)
        _expect(tokens, i + 1, TokenType.EQ)
        options[option] = _READERS[option](tokens[i + 2] if i + 2 < len(tokens) else tokens[-1])
        i += 3
        if i < len(tokens) and tokens[i].token_type is TokenType.R_PAREN:
            return i + 1, options
        _expect(tokens, i, TokenType.COMMA)
        i += 1


def _units(token: Token) -> int:
    """Return the token's integer, from 1 on."""
    written = token.text if token.token_type is TokenType.NUMBER else ""
    value = int(written) if _UNITS.match(written) else 0
    if value < 1:
        raise Refused(
            Reason.BAD_OPTION,
            span_of(token),
            option="min_privacy_units_per_group",
            why="it is not a whole number from 1 on",
        )
    return value


def _max_error(token: Token) -> str:
    """Return a positive number, or the text of one with a percent sign."""
    written = token.text
    if token.token_type is TokenType.STRING and written.endswith("%"):
        number = written[:-1]
    else:
        number = written if token.token_type is TokenType.NUMBER else ""
    if not NUMBER.match(number) or Decimal(number) <= 0:
        why = "it is neither a positive number nor a text like '5%'"
        raise Refused(Reason.BAD_OPTION, span_of(token), option="max_error", why=why)
    return written


def _truth(token: Token) -> bool:
    if token.token_type not in (TokenType.TRUE, TokenType.FALSE):
        why = "it is neither true nor false"
        raise Refused(Reason.BAD_OPTION, span_of(token), option="nonnegative", why=why)
    return token.token_type is TokenType.TRUE


def _text(token: Token) -> str:
    if token.token_type is not TokenType.STRING:
        why = "it is not a text such as 'laplace'"
        raise Refused(Reason.BAD_OPTION, span_of(token), option="mechanism", why=why)
    return token.text


def _one_of(words: type[StrEnum], option: str) -> Callable[[Token], str]:
    """Return a reader of an option whose value is one of these words."""

    def read(token: Token) -> str:
        if token.token_type is not TokenType.STRING or token.text not in set(words):
            why = f"it is none of {', '.join(map(repr, map(str, words)))}"
            raise Refused(Reason.BAD_OPTION, span_of(token), option=option, why=why)
        return token.text

    return read


_READERS: dict[str, Callable[[Token], Decimal | int | str]] = {
    "nonnegative": _truth,
    "mechanism": _text,
    "memory": _one_of(Memory, "memory"),
    "keys": _one_of(KeyAim, "keys"),
    "epsilon": lambda token: positive(token, "epsilon"),
    "max_error": _max_error,
    "confidence": lambda token: positive(token, "confidence"),
    "min_privacy_units_per_group": _units,
}


def _expect(tokens: Sequence[Token], i: int, kind: TokenType) -> Token:
    token = tokens[i] if i < len(tokens) else tokens[-1]
    if i >= len(tokens) or token.token_type is not kind:
        raise Refused(Reason.SYNTAX, span_of(token), why="expected OPTIONS(name = number)")
    return token


_KINDS = {"contribution_bounds_per_row": False, "contribution_bounds_per_group": True}
NUMBER = re.compile(r"(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?\Z")
_FARTHEST = 400
"""Limit on powers of ten, beyond every DOUBLE: exact numbers with more digits take time."""
_PER_GROUP = frozenset("sum count count_if countif avg mean favg".split())
_PER_ROW = frozenset(
    """sum avg mean favg stddev stddev_pop stddev_samp variance var_pop var_samp min max median
    quantile quantile_cont quantile_disc percentile_cont percentile_disc approx_quantile
    approx_quantiles""".split()
)


_FIX = (
    "SUM and COUNT take contribution_bounds_per_group => (low, high), SUM, AVG, variances and"
    " quantiles contribution_bounds_per_row => (low, high), all aggregates epsilon => number."
)


@dataclass(frozen=True, slots=True)
class Named:
    """The named arguments of one aggregate."""

    clip: Clip | None = None
    epsilon: Decimal | None = None


def without_named(
    tokens: Sequence[Token], *, allowed: bool
) -> tuple[tuple[Token, ...], dict[int, Named]]:
    """Return the tokens without `, name => …`, and these arguments by the offset of the
    function.

    Raises `Refused` for any other `=>`, and for all if they are not `allowed`.
    """
    rest = list(tokens)
    named: dict[int, Named] = {}
    while (arrow := _arrow(rest)) is not None:
        name = rest[arrow - 1]
        is_argument = arrow > 1 and name.text.lower() in {*_KINDS, "epsilon"}
        if not allowed or not is_argument or rest[arrow - 2].token_type is not TokenType.COMMA:
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(rest[arrow]), construct="=>")
        function = _function(rest, arrow - 2)
        before = named.get(function.start, Named())
        stop, named[function.start] = _with(before, rest, arrow + 1, name, function)
        del rest[arrow - 2 : stop]
    return tuple(rest), named


def _with(
    before: Named, tokens: Sequence[Token], n: int, name: Token, function: Token
) -> tuple[int, Named]:
    """Return the place after the named argument with a value at token `n`, and the arguments with
    it.
    """
    per_group = _KINDS.get(name.text.lower())
    if (before.epsilon if per_group is None else before.clip) is not None:
        raise _bad(name, "it is given twice")
    if per_group is None:
        n, token = _one(tokens, n, TokenType.NUMBER, name, "it is not a positive number")
        return n, replace(before, epsilon=positive(token, name.text))
    if function.text.lower() not in (_PER_GROUP if per_group else _PER_ROW):
        raise _bad(name, f"{function.text.upper()} does not take it")
    n, low, high = _bounds(tokens, n, name)
    return n, replace(before, clip=Clip(low, high, per_group))


def positive(token: Token, option: str) -> Decimal:
    """Return the token's positive number, exactly."""
    written = token.text if token.token_type is TokenType.NUMBER else ""
    value = Decimal(written) if NUMBER.match(written) else Decimal(0)
    if value <= 0:
        raise Refused(
            Reason.BAD_OPTION, span_of(token), option=option, why="it is not a positive number"
        )
    return value


def _arrow(tokens: Sequence[Token]) -> int | None:
    arrows = (n for n, token in enumerate(tokens) if token.token_type is TokenType.FARROW)
    return next(arrows, None)


def _function(tokens: Sequence[Token], place: int) -> Token:
    """Return the name before the parenthesis that encloses the token at `place`."""
    depth = 0
    for n in range(place, 0, -1):
        kind = tokens[n].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return tokens[n - 1]
    raise Refused(Reason.SYNTAX, span_of(tokens[place]))


def _bounds(tokens: Sequence[Token], n: int, name: Token) -> tuple[int, Decimal, Decimal]:
    """Read `(low, high)` at token `n`; return the place after it, and both numbers."""
    n, _ = _one(tokens, n, TokenType.L_PAREN, name)
    n, low = _number(tokens, n, name)
    n, _ = _one(tokens, n, TokenType.COMMA, name)
    n, high = _number(tokens, n, name)
    n, _ = _one(tokens, n, TokenType.R_PAREN, name)
    if low > high:
        raise _bad(name, "the first bound is above the second")
    return n, low, high


def _number(tokens: Sequence[Token], n: int, name: Token) -> tuple[int, Decimal]:
    negative = n < len(tokens) and tokens[n].token_type is TokenType.DASH
    n, token = _one(tokens, n + negative, TokenType.NUMBER, name)
    try:
        value = Decimal(token.text)
    except InvalidOperation:
        raise _bad(name, "its bounds are not two numbers") from None
    if abs(value.adjusted()) > _FARTHEST:
        raise _bad(name, "its bounds are beyond DOUBLE")
    return n, -value if negative else value


def _one(
    tokens: Sequence[Token],
    n: int,
    kind: TokenType,
    name: Token,
    why: str = "its bounds are not two numbers in parentheses",
) -> tuple[int, Token]:
    if n >= len(tokens) or tokens[n].token_type is not kind:
        raise _bad(name, why)
    return n + 1, tokens[n]


def _bad(name: Token, why: str) -> Refused:
    return Refused(Reason.BAD_OPTION, span_of(name), option=name.text, why=why, fix=_FIX)
