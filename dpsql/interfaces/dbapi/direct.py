"""`dpsql.ask`, `dpsql.explain` and `dpsql.watch`: calls without a connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from dpsql.interfaces.dbapi.local_answers import answered_here
from dpsql.interfaces.dbapi.statement_options import Amount, exact_amount
from dpsql.interfaces.doors import DATABASE_API
from dpsql.interfaces.html_tables import answer_html
from dpsql.interfaces.pictures.drawings import Drawing
from dpsql.interfaces.tables import answer_text
from dpsql.model.bound_parameters import frozen
from dpsql.model.system_table import load_value
from dpsql.model.tree import Parameter
from dpsql.model.vocabulary import DEFAULT_SPELLING, Answer, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


class DirectAnswer(Answer):
    """An answer that prints as a table, and that can be drawn."""

    __slots__ = ()

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Return the same answer, printable."""
        return cls(**{field.name: getattr(answer, field.name) for field in fields(answer)})

    def __repr__(self) -> str:
        return answer_text(self, DATABASE_API)

    def _repr_html_(self) -> str:
        return answer_html(self, DATABASE_API)

    def plot(self) -> Drawing:
        """Return a drawing of the numbers with errors, shown in a notebook or printed."""
        return Drawing(self)


def ask(
    sql: str,
    parameters: Sequence[Parameter | list[Any]] = (),
    *,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = DEFAULT_SPELLING,
    epsilon: Amount | None = None,
) -> DirectAnswer:
    """Answer one SELECT, charging the analyst's budget. Raises `dpsql.model.errors.DpsqlError`."""
    with _opened(policy) as proxy:
        who = proxy.analyst(analyst)
        exact = exact_amount("epsilon", epsilon)
        request = Request(sql, who, dialect, frozen(parameters), exact, door="Python")
        return DirectAnswer.of(answered_here(proxy, request))


def explain(
    sql: str,
    parameters: Sequence[Parameter | list[Any]] = (),
    *,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = DEFAULT_SPELLING,
    epsilon: Amount | None = None,
) -> Explanation:
    """Return the plan, price and expected error of one SELECT; free.

    Raises `dpsql.model.errors.DpsqlError`.
    """
    with _opened(policy) as proxy:
        who = proxy.analyst(analyst)
        exact = exact_amount("epsilon", epsilon)
        return proxy.explain(Request(sql, who, dialect, frozen(parameters), exact))


@contextmanager
def watch(
    threshold: Decimal | int | str,
    *,
    alarms: int,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    epsilon: Decimal | None = None,
    both_ways: bool = False,
    measure: Decimal | None = None,
) -> Iterator[Any]:
    """Open a monitor of counting queries, charged at once; see `dpsql.systems.watch.monitor`.

    Raises `dpsql.model.errors.DpsqlError`.
    """
    with _opened(policy) as proxy:
        open_monitor = load_value("watch")
        wish = open_monitor(
            proxy.analyst(analyst),
            Decimal(threshold),
            alarms,
            epsilon=epsilon,
            both_ways=both_ways,
            measure=measure,
        )
        with proxy.run(wish) as monitor:
            yield monitor


def _opened(policy: str) -> Proxy:
    """Open the proxy of a policy. Imported here so that `import dpsql` stays fast."""
    from dpsql.proxy import Proxy  # noqa: PLC0415

    return Proxy.open(policy)
