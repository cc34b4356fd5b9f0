"""What models are made of in tests: a question over the shop, and columns of every kind."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import BOOLEAN, DOUBLE, VARCHAR
from dpsql.model.vocabulary import Loss, Receipt, Request
from dpsql.systems.models.model_inputs import input_of
from dpsql.systems.models.model_statement import ModelStatement, model_statement
from dpsql.systems.models.moments_plan import MomentsWish

PEOPLE = "SELECT segment, vip, country, age FROM customers"

NUMBER = Facts(DOUBLE, Interval(Fraction(-1), Fraction(1)), nullable=False)
TEXT = Facts(VARCHAR, Interval(None, None), nullable=True, domain=("a", "b", "c"))
FLAG = Facts(BOOLEAN, Interval(None, None), nullable=False, domain=(False, True))
MIXED = tuple(
    input_of(name, facts)
    for name, facts in (("x", NUMBER), ("y", NUMBER), ("f", FLAG), ("t", TEXT))
)
RECEIPT = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))


def of_text(text: str) -> ModelStatement:
    said = read_system_statement(text)
    assert said is not None
    return model_statement(said)


def wish(text: str = PEOPLE, epsilon: str = "1") -> MomentsWish:
    return MomentsWish(Request(text, "ana", epsilon=Decimal(epsilon)))
