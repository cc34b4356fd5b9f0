"""Many answers to one question through the proxy: what reads data runs once for each statement.

Every answer is charged, chosen, noised and finished anew, private choices of bounds included; only
the exact integers of a statement that ran before are taken from memory. Where groups are sampled,
the sample of the first run is that of all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import ceil
from pathlib import Path

from dpsql import accountants
from dpsql.engines import MadeTotals, ScratchTable, Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.errors import Failed, Refused
from dpsql.model.resources import Database, Limits
from dpsql.model.vocabulary import NANO, Answer, Exact, Request
from dpsql.policy.load import load
from dpsql.proxy import Proxy

KEPT = 16
"""Runs of a statement that are kept, each over other stages."""


class Once(DuckDBEngine):
    """The engine; a statement over the same stages runs once, until `forget`.

    Of stages the last `KEPT` are known. With `copies` its integers are those of data in which every
    unit is there so many times.
    """

    def __init__(self, database: Database, limits: Limits, copies: int = 1) -> None:
        super().__init__(database, limits)
        self._known: dict[str, deque[tuple[Sequence[ScratchTable], Exact]]] = {}
        self._copies = copies

    def forget(self) -> None:
        self._known = {}

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
        stop: Stop | None = None,
        data: str | None = None,
        totals: MadeTotals | None = None,
    ) -> Exact:
        known = self._known.setdefault(sql, deque(maxlen=KEPT))
        for stages, exact in known:
            if stages == tables:
                return exact
        exact = super().aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)
        if self._copies > 1:
            copied = [part.astype(object) * self._copies for part in exact.parts]
            exact = Exact(exact.keys, copied)
        known.append((tables, exact))
        return exact


class Repeated:
    """One policy's proxy, asked many times."""

    def __init__(self, proxy: Proxy, engine: Once) -> None:
        self._proxy, self._engine = proxy, engine

    def answers(self, sql: str, count: int) -> list[Answer] | str:
        """`count` answers of noise of their own, or why there are none.

        None costs more than a question may: that is checked.
        """
        request = Request(sql, self._proxy.analyst(), confirmed=True)
        self._engine.forget()
        try:
            answers = [self._fresh(request) for _ in range(count)]
        except Refused as refused:
            return f"refused: {refused.reason.value}"
        except Failed as failed:
            return "failed: " + ("timed out" if failed.timed_out else failed.detail or "engine")
        (budget,) = self._proxy.policy.budgets
        prices = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
        allowed = accountants.get(budget.accountant).allowance(*prices, selects_keys=False)
        for answer in answers:
            assert answer.receipt is not None
            assert not answer.receipt.remembered
            assert answer.receipt.charged.amount <= ceil(allowed.amount * NANO)
        return answers

    def _fresh(self, request: Request) -> Answer:
        self._proxy.ledger.refresh()
        return self._proxy.ask(request)


def notices(answers: list[Answer] | str) -> dict[str, int]:
    """What was told with the answers, the bounds that were found among it, and how often."""
    if isinstance(answers, str):
        return {}
    return dict(Counter(str(notice) for answer in answers for notice in answer.notices))


@contextmanager
def repeated(policy: Path, copies: int = 1) -> Iterator[Repeated]:
    """The proxy of a policy file, with budget for every answer."""
    draft = load(str(policy))
    engine = Once(draft.database, draft.limits, copies)
    with Proxy.over(draft, engine) as proxy:
        yield Repeated(proxy, engine)
