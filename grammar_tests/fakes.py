"""A proxy that answers from a table: enough to test what the interfaces do around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from types import SimpleNamespace
from typing import Any, Self

from dpsql.engines import Stop
from dpsql.ledgers import Inquiry, SharedAnswer
from dpsql.model.delegation import Chain
from dpsql.model.errors import DpsqlError
from dpsql.model.notices import BoundsFound
from dpsql.model.table_names import unknown_name
from dpsql.model.tree import BOOLEAN, DATE, DOUBLE, INTEGER, VARCHAR, decimal
from dpsql.model.vocabulary import Answer, Budget, Column, Event, Loss, Receipt, Request
from dpsql.preparation.explanation import (
    BlockLines,
    Explanation,
    FewerGroups,
    FoundBound,
    LargerEpsilon,
    LimitLine,
    Outlook,
    Proposal,
    ReleaseLine,
)
from dpsql.preparation.question import Standing

NOTICE = "The bounds [0, 512] of orders.amount were found privately."
LIMIT = Loss(185_071_234, 10**12)
CHARGE = Loss(500_000, 10**9)

NOTHING_PAID = Receipt("", "ana", "default", "zcdp", Decimal("0.1"), Loss(0), Loss(0), Loss(1))
RECEIPT = Receipt("6f3a", "ana", "default", "zcdp", Decimal("0.1"), CHARGE, CHARGE, LIMIT)

ANSWER = Answer(
    (
        Column("segment", VARCHAR),
        Column("n", INTEGER),
        Column("total", decimal(12, 2)),
        Column("mean", DOUBLE),
        Column("day", DATE),
        Column("many", BOOLEAN),
    ),
    (
        ("consumer", 1234, Decimal("56789.10"), 12.34567, date(2024, 2, 29), True),
        (None, -3, Decimal("0.50"), nan, None, False),
    ),
    ((None, 20.4, 102.1, 0.01, None, nan), (None, 20.4, 102.1, nan, None, nan)),
    ((None, 40.0, 200.1, 0.0196, None, nan), (None, 40.0, 200.1, nan, None, nan)),
    RECEIPT,
    (BoundsFound("orders", "amount", 0.0, 512.0),),
)

EXPLANATION = Explanation(
    (Column("segment", VARCHAR), Column("n", INTEGER)),
    (
        BlockLines(
            "customers.customer_id (add_remove)",
            (
                LimitLine("groups per unit (L0)", 1, "proved: the keys are determined by the unit"),
                LimitLine("rows per unit", None, "no limit is needed"),
            ),
            "segment: 2 public keys, each answered, empty ones too",
            (
                ReleaseLine(
                    "number of rows",
                    "each counts 1",
                    0,
                    10,
                    1,
                    10,
                    1,
                    "discrete Gaussian",
                    20.4,
                    20.4,
                    40.0,
                ),
            ),
            ("orders: link always resolves (engine constraint)",),
            "SELECT segment, COUNT(*)\nFROM customers",
        ),
    ),
    "SELECT segment, n FROM release_0",
    "ana",
    "default",
    "zcdp",
    Decimal("0.1"),
    CHARGE,
    Loss(0),
    LIMIT,
    remembered=False,
    expected=(None, 40.0),
    helps=(FewerGroups(3),),
    outlook=Outlook(
        (FoundBound("n", (10.0,), 40.0),),
        (Proposal(LargerEpsilon(Decimal(1)), "n", 4.0, 40.0, 2, 2),),
    ),
)


@dataclass
class FakeProxy:
    """Answers every request with `answer`, or raises `error`; records what happened."""

    answer: Answer = ANSWER
    explanation: Explanation = EXPLANATION
    error: DpsqlError | None = None
    during: Callable[[], None] = lambda: None
    requests: list[Request] = field(default_factory=list)
    cancelled: int = 0
    stop: Stop | None = None
    closed: int = 0

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        self.requests.append(request)
        self.stop = stop
        self.during()
        if self.error is not None:
            raise self.error
        return self.answer

    def nothing_paid(self, analyst: str) -> Receipt:
        del analyst
        return NOTHING_PAID

    def own_tables(self, analyst: str) -> tuple[Any, ...]:
        del analyst
        return ()

    def explain(self, request: Request) -> Explanation:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return self.explanation

    def analyst(self, name: str | None) -> str:
        if name not in (None, "ana", "bob"):
            raise unknown_name("analyst", name, ("ana", "bob"))
        return name or "ana"

    @property
    def ledger(self) -> Any:
        return SimpleNamespace(
            budgets=tuple,
            confirmed=dict,
            stopped=frozenset,
            delegations=dict,
            facts_lapsed=lambda _vouched: False,
            acts=lambda _limit: (),
            history=self.history,
            shares=self.shares,
        )

    @property
    def policy(self) -> Any:
        pot = Budget("default", Decimal(3), Decimal("1e-6"))
        return SimpleNamespace(
            budgets=(),
            analysts=(),
            caps=(),
            tables=(),
            period=None,
            releases=(),
            budget_of=lambda _who: pot,
            data=None,
            beneath=(),
            version="",
            database=SimpleNamespace(prepared=None),
        )

    def policy_of(self, analyst: str) -> Any:
        del analyst
        return self.policy

    def budgets(self) -> tuple[tuple[Budget, Loss, Loss], ...]:
        return ((Budget("default", Decimal(3), Decimal("1e-6")), CHARGE, LIMIT),)

    def standings(self) -> tuple[Standing, ...]:
        return tuple(Standing(pot, spent) for pot, spent, _ in self.budgets())

    def history(
        self, analyst: str | None = None, limit: int = 20, *, since: Any = None, **_others: Any
    ) -> tuple[Any, ...]:
        if since is not None:
            return ()
        entry = SimpleNamespace(
            query_id="6f3a",
            time=datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC),
            analyst=analyst or "ana",
            budget="default",
            epsilon=Decimal("0.1"),
            loss=CHARGE,
            accountant="zcdp",
            event=Event(()),
            inquiry=Inquiry("postgres", "psql", "SELECT\n  1"),
            remembered=True,
        )
        return (entry,) * min(limit, 2)

    def shares(self, *_others: Any, **_more: Any) -> tuple[SharedAnswer, ...]:
        return ()

    def chain(self, _analyst: str) -> Chain:
        return ()

    def refresh(self) -> int:
        return 2

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
