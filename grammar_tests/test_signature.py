"""What a statement takes and returns before its parameters are known."""

from __future__ import annotations

import pytest

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DATE, INTEGER, VARCHAR, Kind, Span, SqlType
from dpsql.model.vocabulary import Request
from dpsql.preparation.signature import Signature, signature
from grammar_tests.bound import shop

POLICY, _ = shop()


def taken(text: str, *declared: SqlType | None) -> list[str]:
    places = [Span(n, n + 1) for n, c in enumerate(text) if c == "?"]
    given = declared or (None,) * len(places)
    found = signature(Request(text, "ana", "postgres"), POLICY, places, given)
    assert isinstance(found, Signature)
    return [kind.kind.value for kind in found.parameters]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT COUNT(*) FROM customers WHERE age > ?", ["INTEGER"]),
        ("SELECT COUNT(*) FROM customers WHERE ? = segment AND age IN (?, ?)",
         ["VARCHAR", "INTEGER", "INTEGER"]),
        ("SELECT COUNT(*) FROM orders WHERE placed_at BETWEEN ? AND ?", ["TIMESTAMP"] * 2),
        ("SELECT COUNT(*) FROM orders WHERE placed_at > CAST(? AS DATE)", ["DATE"]),
        ("SELECT COUNT(*) FROM customers LIMIT ?", ["INTEGER"]),
        ("SELECT SUM(age + ?) FROM customers", ["INTEGER"]),
        ("SELECT DATE_TRUNC(?, placed_at) AS m, COUNT(*) FROM orders GROUP BY 1", ["VARCHAR"]),
        ("SELECT ? AS x, COUNT(*) FROM customers WHERE name LIKE ?", None),
        ("SELECT segment FROM countries", None),
    ],
)  # fmt: skip
def test_parameters_take_the_type_of_their_company(text: str, kinds: list[str] | None) -> None:
    if kinds is None:
        with pytest.raises(Refused) as caught:
            taken(text)
        assert caught.value.reason in (Reason.HIDDEN_COLUMN, Reason.UNKNOWN_COLUMN)
    else:
        assert taken(text) == kinds


def test_declared_types_win() -> None:
    assert taken("SELECT COUNT(*) FROM customers WHERE age > ?", INTEGER) == ["INTEGER"]
    assert taken("SELECT COUNT(*) FROM orders WHERE placed_at > ?", DATE) == ["DATE"]
    assert taken("SELECT COUNT(*) FROM orders WHERE placed_at > ?", VARCHAR) == ["VARCHAR"]


def test_columns_are_those_of_the_answer() -> None:
    sql = "SELECT segment, AVG(age) AS a FROM customers GROUP BY 1"
    found = signature(Request(sql, "ana", "postgres"), POLICY, (), ())
    assert isinstance(found, Signature)
    assert [(c.name, c.type.kind) for c in found.columns] == [
        ("segment", Kind.VARCHAR),
        ("a", Kind.DOUBLE),
    ]


def test_a_type_that_nothing_fits_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        taken("SELECT COUNT(*) FROM customers WHERE age > ?", VARCHAR)
    assert caught.value.reason is Reason.TYPE_MISMATCH
