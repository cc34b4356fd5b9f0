"""No accepted pattern is one that the engine cannot read, or that keeps it busy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import duckdb
import pytest

from dpsql.dialects.duckdb import like_sql
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.dialects.reading import token_order
from dpsql.dialects.reading.parse import parse
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark import spark_like
from dpsql.engines import versions
from dpsql.functions import LONGEST_TEXT
from dpsql.functions.strings import LONGEST_PATTERN, groups_of
from dpsql.model.errors import Refused
from dpsql.model.tree import (
    BOOLEAN,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Call,
    Cast,
    Literal,
    Ref,
    Select,
)
from grammar_tests.bound import shop
from grammar_tests.laws import compiled, noiseless

PARTS = [
    *"a b Z 0 _ - ^ $ . | ( ) (?: ) [ [^ ] ] * + ? { } , : = ! & ~ / # \\".split(" "),
    *r"\d \W \s \b \B \. \\ \- \] \/ {2} {1,3} {2,} {,2} ?? *? a-z 0-9 [:alpha:] -- &&".split(),
    *"(?i) (?x) (?= (?! (?P<n> (?# (?s: (?- ++ *+ ?+".split(),
]
ONLY_PYTHON = [
    "a++",
    "a*+",
    "a?+",
    "a{2}+",
    r"[\b]",
    "(?>a)",
    "(?=a)",
    r"(a)\1",
    r"\Z",
    "[[:foo:]]",
]


def readable(engine: duckdb.DuckDBPyConnection, pattern: str) -> bool:
    try:
        engine.execute("SELECT regexp_matches(x, ?) FROM (VALUES ('a'), ('')) t(x)", [pattern])
    except duckdb.Error:
        return False
    return True


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("seed", range(4))
def test_accepted_patterns_are_read(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311
    engine = duckdb.connect()
    texts = {"".join(generator.choices(PARTS, k=generator.randint(1, 9))) for _ in range(4000)}
    accepted = [text for text in sorted(texts) if groups_of(text) is not None]
    assert len(accepted) > 200
    assert not [text for text in accepted if not readable(engine, text)]


@pytest.mark.full("opens a proxy for each item")
def test_the_largest_patterns_are_read() -> None:
    engine = duckdb.connect()
    for part in (r"[^\w]{99}", ".{9}", r"\W{64}", "(?:[^a]*)*", r"([^\s]?)+", "(", "(a|b)*"):
        text = part * (LONGEST_PATTERN // len(part))
        if part == "(":
            text = "(" * 100 + "a" + ")*" * 77
        while groups_of(text) is None and len(text) > len(part):
            text = text[: -len(part)]
        assert groups_of(text) is not None or part == "("
        assert groups_of(text) is None or readable(engine, text), text


@pytest.mark.parametrize("pattern", ONLY_PYTHON)
def test_what_only_python_reads_is_refused(pattern: str) -> None:
    """Each is read by Python alone, or read otherwise, so asking Python does not suffice."""
    assert groups_of(pattern) is None


def test_what_only_python_reads_would_raise() -> None:
    engine = duckdb.connect()
    assert [p for p in ONLY_PYTHON if not readable(engine, p)] == ONLY_PYTHON


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        (r"^\d{4}-\d{2}(-\d{2})?$", 1),
        (r"^\d{4}-\d{2}(-\d\d)?$", 1),
        (r"^[\w.+-]+@([\w-]+\.)+[a-z]{2,4}$", 1),
        (r"(?:http|https)://([^/]+)/?", 1),
        ("gift|present", 0),
        (r"\$[0-9]+(\.[0-9]{2})?", 1),
        ("a" * 256, None),
        ("a{99}" * 3, None),
        ("(a{9})*", 1),
        ("(a){2}", None),
        ("é", None),
        (None, None),
        (3, None),
    ],
)
def test_groups(pattern: object, groups: int | None) -> None:
    assert groups_of(pattern) == groups


@pytest.mark.parametrize(
    ("anywhere", "sign", "function"),
    [
        (True, "~", "regexp_matches"),
        (True, "~*", "regexp_matches"),
        (False, "~", "regexp_full_match"),
    ],
)
def test_a_tilde_is_read_as_the_installed_duckdb_does(
    monkeypatch: pytest.MonkeyPatch, *, anywhere: bool, sign: str, function: str
) -> None:
    monkeypatch.setattr(versions, "TILDE_MATCHES_ANYWHERE", anywhere)
    query = parse(f"SELECT a {sign} 'b' FROM t").query
    assert isinstance(query, Select)
    call = query.items[0].expression
    assert isinstance(call, Call)
    assert call.function == function


def test_a_pattern_in_either_case_is_refused_where_the_engine_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "TILDE_MATCHES_ANYWHERE", False)
    with pytest.raises(Refused, match="unsupported-syntax"):
        parse("SELECT a ~* 'b' FROM t")


def test_the_reading_of_a_tilde_is_that_of_the_engine() -> None:
    found = duckdb.execute("SELECT 'abc' ~ 'b'").fetchall()
    assert found == [(versions.TILDE_MATCHES_ANYWHERE,)]


LETTERS = [*"aab%%%__.(\\[+é\n|^$A", "İ"]


def like(name: str, pattern: str | None, *escape: str) -> str:
    """Our SQL of a test of the text `s`; by the pattern `p` of a row without one."""
    column = Ref(2, VARCHAR) if pattern is None else Literal(pattern, VARCHAR)
    escapes = (Literal(each, VARCHAR) for each in escape)
    call = Call(name, (Ref(1, VARCHAR), column, *escapes), BOOLEAN)
    return expression(call, lambda ref: "sp"[ref.id - 1])


def otherwise(seed: int) -> list[str]:
    """Patterns that our LIKE of engines that backtrack matches otherwise than theirs."""
    generator, engine = random.Random(seed), duckdb.connect()  # noqa: S311
    wrong = []
    for _ in range(25):
        letters = generator.choices(LETTERS, k=9)
        parts = ("".join(generator.choice((each, each, "%", "_")) for each in letters), "%", "b")
        text, pattern = "".join(letters), "".join(generator.choices(parts, (6, 1, 1)))
        tests = [("LIKE p", like("like", each)) for each in (pattern, None)]
        tests += [("ILIKE p", like("ilike", each)) for each in (pattern, None)]
        if not pattern.replace("++", "").endswith("+"):
            tests.append(("LIKE p ESCAPE '+'", like("like", pattern, "+")))
        same = " AND ".join(f"(s {plain}) = ({ours})" for plain, ours in tests)
        found = engine.execute(f"SELECT {same} FROM (SELECT ? AS s, ? AS p) t", (text, pattern))
        wrong += [pattern] * (found.fetchall() != [(True,)])
    return wrong


def test_like_is_matched_in_one_pass_and_is_the_same() -> None:
    assert not otherwise(1)
    assert "LIKE" in like("like", "%a%a%")  # which the engine searches part by part
    assert "LIKE" in like("ilike", "%a%")
    long = like("like", None)
    found = duckdb.connect().execute(f"SELECT {long} FROM (SELECT '' AS s, repeat('%', 256) AS p)")
    assert found.fetchall() == [(False,)]


def test_wrong_twin_a_regular_expression_of_special_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(like_sql, "_SPECIAL", "\\")
    with pytest.raises((duckdb.Error, AssertionError)):
        assert not otherwise(1)


@pytest.mark.parametrize("name", ["like", "ilike"])
def test_no_text_keeps_a_pattern_busy(name: str) -> None:
    """DuckDB 1.5 would try 400⁸ / 8! places."""
    pattern = "%" + "a_%" * 8 + "b"
    tests = [like(name, pattern), like(name, None)]
    tests += [like(name, pattern, "!")] if name == "like" else []
    rows = f"(SELECT repeat('a', n::BIGINT) AS s, '{pattern}' AS p FROM (VALUES (400)) v(n))"
    found = duckdb.connect().execute(f"SELECT {' OR '.join(tests)} FROM {rows}")
    assert found.fetchall() == [(False,)]


LONG = "%a" + "_" * 4_000 + "%b%"


@pytest.mark.parametrize("test", ["LIKE", "ILIKE", "NOT LIKE"])
@pytest.mark.parametrize("escape", ["", " ESCAPE '+'"])
def test_a_constant_pattern_that_is_too_long_is_refused(test: str, escape: str) -> None:
    """DuckDB fails on a program that is too large, where a row holds a text: after the charge."""
    escape = "" if "ILIKE" in test else escape
    asked = f"SELECT COUNT(*) AS n FROM orders WHERE note {test}"
    with pytest.raises(Refused, match="at most 255 characters"):
        compiled(f"{asked} '{LONG}'{escape}", *shop())
    compiled(f"{asked} '{LONG[:255]}'{escape}", *shop())
    compiled(f"{asked} '{LONG.replace('_', 'x').replace('%', 'y')}'{escape}", *shop())


def test_a_pattern_without_a_limit_would_fail_on_a_text() -> None:
    regex = like_sql.as_regex("%a" + "_" * 70_000 + "%b%")
    matched = "SELECT regexp_full_match(s, ?, 's') FROM (SELECT chr(65) AS s)"
    with pytest.raises(duckdb.Error, match="too large"):
        duckdb.connect().execute(matched, [regex]).fetchall()


def test_no_text_keeps_its_normal_form_busy() -> None:
    """Marks are sorted one by one, in the square of their number."""
    call = Call("nfc_normalize", (Ref(1, VARCHAR),), VARCHAR)
    shown = expression(call, lambda _: "repeat(chr(769), 32768) || repeat(chr(790), 32768)")
    assert duckdb.connect().execute(f"SELECT length({shown})").fetchone() == (LONGEST_TEXT,)


@pytest.mark.parametrize(
    "read",
    [
        Call("strptime", (Ref(1, VARCHAR), Literal("%Y-%m-%d", VARCHAR)), TIMESTAMP),
        Cast(Ref(1, VARCHAR), TIME),
    ],
)
def test_no_text_that_is_no_time_keeps_its_error_busy(read: Call | Cast) -> None:
    """DuckDB 1.5 quotes each NUL of a text in the error that TRY catches: 0.5 s for one row."""
    shown = expression(read, lambda _: "s")
    assert "left(s" in shown or "TRY_CAST" in shown
    rows = "(SELECT repeat(chr(0), 65536) AS s FROM range(64))"
    assert duckdb.connect().execute(f"SELECT COUNT({shown}) FROM {rows}").fetchone() == (0,)


CLOSER = "SELECT COUNT(*) AS n FROM customers WHERE (segment ^@ 'c' || 'onsumer')::VARCHAR = 'true'"
"""`^@` binds as closely as `||`: no text 'trueonsumer' is 'true'."""


def test_wrong_twin_an_operator_of_like_that_binds_as_like(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, engine = shop()
    with pytest.raises(Refused):
        compiled(CLOSER, policy, engine)
    monkeypatch.setattr(token_order, "_is_before_constant", lambda *_: True)
    ours, _ = noiseless(compiled(CLOSER, policy, engine), engine)
    assert ours != engine.rows(CLOSER) == [(0,)]


def differ_from_like(search: Callable[[str, Sequence[str]], str]) -> list[str]:
    """Patterns of several parts that a search of Spark matches otherwise than LIKE."""
    generator, engine = random.Random(3), duckdb.connect()  # noqa: S311
    for name, ours in (("startswith", "starts_with"), ("endswith", "ends_with")):
        engine.execute(f"CREATE MACRO {name}(text, part) AS {ours}(text, part)")
    texts = ["".join(generator.choices("ab", k=n % 9)) for n in range(60)]
    patterns = {"".join(generator.choices("ab%%", k=n % 8 + 2)) for n in range(80)}
    rows, wrong = "(SELECT unnest(?) AS x) t", []
    for pattern in sorted(each for each in patterns if "%" in each):
        parts = [part or "" for part in spark_like.split_pattern(pattern, "")]
        sql = search("x", parts) or "TRUE"
        counted = f"SELECT count(*) FROM {rows} WHERE ({sql}) <> (x LIKE ?)"
        found = engine.execute(counted, [texts, pattern])
        wrong += [pattern] * (found.fetchall() != [(0,)])
    return wrong


def test_on_spark_parts_are_searched_one_after_the_other() -> None:
    assert differ_from_like(spark_like.searches) == []


def test_wrong_twin_parts_in_any_order_are_found_otherwise() -> None:
    assert differ_from_like(lambda x, parts: " AND ".join(f"contains({x}, '{p}')" for p in parts))


@pytest.mark.parametrize("pattern", ["%a_%b%", "%a%_", "%a%b%c%d%"])
def test_on_spark_several_parts_that_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(Refused, match="engine-lacks"):
        spark_like.pattern_test(spark_texts(pattern))


@pytest.mark.parametrize("pattern", ["a%b", "%a_", "_a%"])
def test_on_spark_a_pattern_of_one_part_is_left_to_it(pattern: str) -> None:
    assert spark_like.pattern_test(spark_texts(pattern)) == f"x LIKE '{pattern}' ESCAPE '~'"


def spark_texts(pattern: str) -> tuple[Sized, Sized]:
    literal = Literal(pattern, VARCHAR)
    return Sized("x", VARCHAR), Sized(f"'{pattern}'", VARCHAR, literal=literal)
