"""Limits of one person, averages of people and unmatched rows in forms that have a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsql.compiler.resolve import (
    first_rows,
    joined_rows,
    laterals,
    rejoined_ranks,
    staged_ranks,
    staged_windows,
    unmatched_rows,
)
from dpsql.compiler.resolve import window_aggregates as window_forms
from dpsql.model.algebra import Relation
from dpsql.model.errors import Refused
from dpsql.model.row_notices import AnsweredAs, AnswerForm
from dpsql.model.tree import INTEGER, Literal, Ref
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.laws import compiled, noiseless, same_rows

FIRST = (
    "SELECT SUM(amount) AS s FROM (SELECT amount FROM orders WHERE {} ORDER BY order_id LIMIT 1) t"
)
ONE, TWO = FIRST.format("customer_id = 3"), FIRST.format("customer_id IN (2, 3)")
OF_GROUP = "AVG(age) OVER (PARTITION BY country)"
ABOVE_GROUP = (
    f"SELECT COUNT(*) AS n FROM (SELECT age, {OF_GROUP} AS a FROM customers) t WHERE age > a"
)
MATCHED = "SELECT COUNT(*) AS n FROM countries k LEFT JOIN customers c ON c.country = k.code{}"
UNMATCHED = MATCHED.format(" AND c.age > 200")
"""No customer is so old: every country counts once."""
RANKED = (
    "SELECT {} AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn,"
    " COUNT(*) OVER () AS n FROM orders) t"
)
UP_TO = RANKED.format("MAX(CASE WHEN rn <= 0.3 * n THEN amount END)")
SHARE = (
    "SELECT COUNT(*) AS n FROM (SELECT amount, {} OVER ({}ORDER BY amount{}) AS c FROM orders) t"
    " WHERE c {}"
)
OF_OTHERS = SHARE.format("PERCENT_RANK()", "", "", "<= 0.57")
SHARES = [
    SHARE.format(name, partition, order, f"{sign} {share}")
    for name in ("PERCENT_RANK()", "CUME_DIST()")
    for partition in ("", "PARTITION BY status ")
    for order in ("", " DESC")
    for sign in ("<", "<=", ">", ">=")
    for share in (0.1, 0.5)
]
REJOINED = (
    "WITH r AS (SELECT {0}, CUME_DIST() OVER (ORDER BY amount) AS c FROM orders)"
    " SELECT COUNT(*) AS n FROM orders o JOIN r ON r.{0} = o.{0} WHERE c > 0.5"
)
BY_KEY, BY_CUSTOMER = REJOINED.format("order_id"), REJOINED.format("customer_id")
JOINED = (
    "SELECT {} AS n FROM customers c JOIN orders o ON o.customer_id = c.customer_id"
    " JOIN events e ON e.customer_id = o.customer_id JOIN logins l ON l.customer_id = e.customer_id"
    " JOIN orders p ON p.customer_id = c.customer_id WHERE o.amount > 20"
)
ONCE, REPEATED = JOINED.format("COUNT(DISTINCT c.customer_id)"), JOINED.format("COUNT(*)")
LEFT_JOINED = (
    "SELECT COUNT(*) AS n, COUNT(d.event_id) AS m FROM orders a"
    " LEFT JOIN events b ON a.customer_id = b.customer_id AND b.device = 'web'"
    " LEFT JOIN events c ON a.customer_id = c.customer_id AND c.duration > 3"
    " LEFT JOIN events d ON a.customer_id = d.customer_id AND d.duration < 3"
)
RIGHT_JOINED = (
    "SELECT COUNT(*) AS n, COUNT(a.order_id) AS m FROM orders a"
    " LEFT JOIN events b ON a.customer_id = b.customer_id"
    " LEFT JOIN events c ON a.customer_id = c.customer_id"
    " RIGHT JOIN events d ON a.customer_id = d.customer_id AND d.duration < 3"
)
"""The rows of d with another duration stay, without a match."""
SELF_EQUAL = (
    "SELECT COUNT(DISTINCT c.customer_id) AS n FROM customers c JOIN orders o"
    " ON o.customer_id = c.customer_id JOIN events e ON e.customer_id = c.customer_id"
    " JOIN orders p ON p.customer_id = c.customer_id"
    " JOIN events f ON f.customer_id = c.customer_id WHERE c.age = c.age"
)
"""NULL equals nothing, not even itself."""
TILES = SHARE.format("NTILE(3)", "", " DESC", "= 2")
TILES_COMPARED = [SHARE.format("NTILE(3)", "", "", f"<= {number}") for number in (2, 0.5)]
SUMS = "SELECT customer_id, {} AS s FROM (SELECT c.customer_id, NULLIF(amount, 20) AS x"
SUMS += " FROM customers c LEFT JOIN orders o USING (customer_id)) AS o{} GROUP BY customer_id"
TILES_OF_SUMS = [
    TILES.replace("amount", "s").replace("FROM orders", f"FROM ({sums}) AS o")
    for sums in (
        SUMS.format("COALESCE(SUM(x), 0)", " WHERE customer_id > 2"),
        SUMS.format("SUM(x)", " WHERE x > 0"),
    )
]
WITH_AMOUNT = "(SELECT * FROM orders WHERE amount IS NOT NULL)"
PADDED = OF_OTHERS.replace("FROM orders", "FROM customers c LEFT JOIN orders o ON {}").format(
    "o.customer_id = c.customer_id AND quantity > 15"
)
"""A customer without such orders has an amount of NULL, which has a rank."""
SOME = "(SELECT CASE WHEN amount < 50 THEN amount END AS amount, status FROM orders) o"
"""Half of the orders have no amount."""
NULL_RANKED = [
    text.replace("FROM orders", f"FROM {SOME}")
    for text in (
        RANKED.format("MIN(CASE WHEN rn >= 0.3 * n THEN amount END)"),
        SHARE.format("PERCENT_RANK()", "PARTITION BY status ", "", "< 0.4"),
        SHARE.format("PERCENT_RANK()", "", " DESC NULLS FIRST", ">= 0.8"),
        SHARE.format("CUME_DIST()", "", " DESC NULLS FIRST", "< 0.3"),
        SHARE.format("CUME_DIST()", "", "", "> 0.4").replace("WHERE c > 0.4", "WHERE NOT c <= 0.4"),
    )
]
NULL_TILES = [
    f"SELECT q, AVG(amount) AS a FROM (SELECT amount, NTILE(3) OVER (ORDER BY amount{order}) AS q"
    f" FROM {SOME}) t GROUP BY q HAVING AVG(amount) > 0"
    for order in ("", " DESC", " DESC NULLS FIRST", " NULLS FIRST")
]
TILES_JOINED = (
    "SELECT q, segment, COUNT(*) AS n FROM (SELECT customer_id, NTILE(3) OVER (ORDER BY amount)"
    " AS q FROM orders) o JOIN customers c ON c.customer_id = o.customer_id GROUP BY q, segment"
)
OF_NULL = NULL_RANKED[0].replace("0.3", "0.9")
LEAST_NULL = SHARE.format("CUME_DIST()", "", " NULLS FIRST", "> 0.6")
LEAST_NULL = LEAST_NULL.replace("FROM orders", f"FROM {SOME}")
OTHERS_COUNTED = RANKED.replace("COUNT(*)", "COUNT(discount)").format(
    "MIN(CASE WHEN rn >= 0.5 * n THEN amount END)"
)
"""Fewer rows have a discount than have a rank."""


def is_plain(sql: str) -> bool:
    """Test whether the answer without noise is that of the plain query."""
    policy, engine = shop()
    ours, errors = noiseless(compiled(sql, policy, engine), engine)
    return same_rows(ours, errors, engine.rows(sql))


@pytest.mark.parametrize(
    "sql",
    [
        ONE,
        ABOVE_GROUP,
        UNMATCHED,
        UP_TO,
        OF_OTHERS,
        TILES,
        *TILES_COMPARED,
        *TILES_OF_SUMS,
        *NULL_TILES,
        TILES_JOINED,
        *SHARES,
        *NULL_RANKED,
        BY_KEY,
        ONCE,
        SELF_EQUAL,
        REPEATED,
        LEFT_JOINED,
        RIGHT_JOINED,
    ],
)
def test_the_answer_without_noise_is_the_plain_one(sql: str) -> None:
    assert is_plain(sql)


def test_wrong_twin_a_limit_over_several_people_is_not_a_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Refused):
        is_plain(TWO)

    def any_filter(condition: object) -> Ref | None:
        args = getattr(condition, "args", ())
        return next((arg for arg in args if isinstance(arg, Ref)), None)

    monkeypatch.setattr(first_rows, "_equated", any_filter)
    assert not is_plain(TWO)


def test_wrong_twin_an_average_of_everybody_is_not_that_of_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = staged_windows._with_average

    def of_everybody(rows: Any, source: Any, item: Any, *more: Any) -> Any:
        everybody = replace(item.call, partition_by=())
        return joined(rows, source, replace(item, call=everybody), *more)

    monkeypatch.setattr(staged_windows, "_with_average", of_everybody)
    assert not is_plain(ABOVE_GROUP)


def test_wrong_twin_rows_without_a_match_that_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unmatched_rows, "AT_LEAST", Literal(0, INTEGER))
    assert not is_plain(UNMATCHED)


def test_wrong_twin_equal_public_rows_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = world.well_behaved()
    tables["countries"] = [*tables["countries"], tables["countries"][0]]
    policy, engine = over(tables, constraints=False)

    with pytest.raises(Refused):
        compiled(UNMATCHED, policy, engine)
    monkeypatch.setattr(unmatched_rows, "_is_unique", lambda *_: True)
    ours, errors = noiseless(compiled(UNMATCHED, policy, engine), engine)
    assert not same_rows(ours, errors, engine.rows(UNMATCHED))


def test_wrong_twin_a_rank_that_is_one_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    made = window_forms.build_quantile

    def without_shift(value: Any, share: Any, shift: Any, **how: Any) -> Any:
        return made(value, share, 0 * shift, **how)

    monkeypatch.setattr(window_forms, "build_quantile", without_shift)
    assert not is_plain(UP_TO)


def test_a_rank_beyond_all_values_is_null() -> None:
    policy, engine = shop()
    assert noiseless(compiled(OF_NULL, policy, engine), engine)[0] == [(None,)]


def test_wrong_twin_null_is_not_always_the_greatest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused):
        is_plain(LEAST_NULL)
    monkeypatch.setattr(staged_ranks, "has_greatest_null", lambda _: True)
    assert not is_plain(LEAST_NULL)


def test_wrong_twin_ranks_without_null_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (staged_ranks, window_forms):
        monkeypatch.setattr(module, "lacks_null", lambda *_: True)
    assert [sql for sql in NULL_RANKED if is_plain(sql)] == []


def test_a_number_of_fewer_rows_is_not_that_of_the_ranks() -> None:
    with pytest.raises(Refused):
        is_plain(OTHERS_COUNTED)


@pytest.mark.parametrize("sql", [PADDED, PADDED.replace("orders o", f"{WITH_AMOUNT} AS o")])
def test_wrong_twin_values_of_padded_rows_are_null(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_plain(sql)
    monkeypatch.setattr(staged_ranks, "lacks_null", lambda *_: True)
    assert not is_plain(sql)


def test_wrong_twin_a_share_of_all_rows_is_not_one_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = window_forms.build_quantile

    def without_shift(value: Any, share: Any, shift: Any, **how: Any) -> Any:
        return made(value, share, 0 * shift, **how)

    monkeypatch.setattr(staged_ranks, "build_quantile", without_shift)
    assert not is_plain(OF_OTHERS)


def test_wrong_twin_tiles_count_rows_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = NULL_TILES[0].replace("AVG(amount) AS a", "COUNT(*) AS n").partition(" HAVING")[0]
    with pytest.raises(Refused):
        is_plain(counted)
    monkeypatch.setattr(staged_ranks._Edges, "_aggregates_only", lambda *_: True)
    assert not is_plain(counted)


def test_wrong_twin_the_opposite_order_has_null_at_its_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged_ranks, "has_greatest_null", lambda _: True)
    assert not is_plain(NULL_TILES[1])


def test_wrong_twin_a_row_meets_the_ranks_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused):
        is_plain(BY_CUSTOMER)

    def any_key(scan: Any, _policy: object) -> Any:
        return next(field for field in scan.fields if field.name == "customer_id")

    monkeypatch.setattr(rejoined_ranks, "_key_of", any_key)
    assert not is_plain(BY_CUSTOMER)


def test_wrong_twin_existence_does_not_count_repeated_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joined_rows, "_is_once", lambda _: True)
    assert not is_plain(REPEATED)


@pytest.mark.parametrize("sql", [REPEATED, LEFT_JOINED])
def test_sides_keep_as_many_rows_as_they_may(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rows, "_root", lambda *_: 1)
    policy, engine = shop()
    (ours,), _errors = noiseless(compiled(sql, policy, engine), engine)
    (plain,) = engine.rows(sql)
    assert ours[0] < plain[0]


def test_wrong_twin_joins_without_limits_stay_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rows._Limiter, "_first_rows", lambda _self, rows, _unit: rows)
    with pytest.raises(Refused):
        is_plain(REPEATED)


def test_wrong_twin_a_group_of_several_public_rows_has_no_one_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_code = "SELECT code, MAX(region) AS r, SUM(age) AS s FROM countries k LEFT JOIN customers c"
    by_code += " ON c.country = k.code GROUP BY code"
    by_region = by_code.replace("code, MAX(region)", "region, MAX(code)").replace(
        "BY code", "BY region"
    )
    assert is_plain(by_code)
    with pytest.raises(Refused):
        is_plain(by_region)
    padded_join = unmatched_rows._padded_join

    def keyless(*args: Any) -> Any:
        padded = padded_join(*args)
        return padded and (*padded[:2], ())

    monkeypatch.setattr(unmatched_rows, "_padded_join", keyless)
    assert is_plain(by_code)
    assert not is_plain(by_region)


FIRST_VALUE = (
    "SELECT SUM((SELECT amount FROM orders o WHERE o.customer_id = c.customer_id"
    " ORDER BY placed_at, order_id LIMIT 1)) AS s FROM customers c"
)


def test_wrong_twin_the_last_row_is_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_plain(FIRST_VALUE)
    cut_of = laterals._cut_of

    def last(relation: Relation) -> laterals._Cut:
        cut = cut_of(relation)
        return replace(cut, order=tuple(replace(key, descending=True) for key in cut.order))

    monkeypatch.setattr(laterals, "_cut_of", last)
    assert not is_plain(FIRST_VALUE)


@pytest.mark.parametrize(
    ("sql", "forms"),
    [
        (ONE, []),
        (ABOVE_GROUP, [AnswerForm.STAGED_AVERAGE]),
        (UNMATCHED, [AnswerForm.UNMATCHED_ROWS]),
        (TILES, [AnswerForm.STAGED_RANK]),
        (ONCE, []),
        (REPEATED, [AnswerForm.LIMITED_JOIN]),
        ("SELECT COUNT(*) AS n FROM orders", []),
    ],
)
def test_the_answer_says_so(sql: str, forms: list[AnswerForm]) -> None:
    policy, engine = shop()
    notices = compiled(sql, policy, engine).notices
    assert [notice.form for notice in notices if isinstance(notice, AnsweredAs)] == forms
