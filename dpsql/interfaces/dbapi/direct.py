"""`dpsql.ask`, `dpsql.explain` and `dpsql.watch`: no connection to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpsql.explaining.explanation import Explanation
from dpsql.interfaces.dbapi.local_answers import answered_here
from dpsql.model.bound_parameters import frozen
from dpsql.model.tree import Parameter
from dpsql.model.vocabulary import DEFAULT_SPELLING, Answer, Request

if TYPE_CHECKING:
    from dpsql.monitoring.monitor import Monitor
    from dpsql.proxy import Proxy


def ask(
    sql: str,
    parameters: Sequence[Parameter | list[Any]] = (),
    *,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = DEFAULT_SPELLING,
    epsilon: Decimal | None = None,
) -> Answer:
    """Answer one SELECT, charging the analyst's budget. Raises `dpsql.model.errors.DpsqlError`."""
    with _opened(policy) as proxy:
        who = proxy.analyst(analyst)
        request = Request(sql, who, dialect, frozen(parameters), epsilon, door="Python")
        return answered_here(proxy, request)


def explain(
    sql: str,
    parameters: Sequence[Parameter | list[Any]] = (),
    *,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = DEFAULT_SPELLING,
    epsilon: Decimal | None = None,
) -> Explanation:
    """The plan, price and expected error of one SELECT; free. Raises
    `dpsql.model.errors.DpsqlError`.
    """
    with _opened(policy) as proxy:
        who = proxy.analyst(analyst)
        return proxy.explain(Request(sql, who, dialect, frozen(parameters), epsilon))


@contextmanager
def watch(
    threshold: Decimal | int | str,
    *,
    alarms: int,
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    epsilon: Decimal | None = None,
    both_ways: bool = False,
) -> Iterator[Monitor]:
    """A monitor of counting queries, charged when it is opened; see `dpsql.monitoring.monitor`.

    Raises `dpsql.model.errors.DpsqlError`.
    """
    with _opened(policy) as proxy:
        from dpsql.monitoring.monitor import Watch  # noqa: PLC0415

        who = proxy.analyst(analyst)
        with proxy.watch(Watch(who, Decimal(threshold), alarms, epsilon, both_ways)) as monitor:
            yield monitor


def _opened(policy: str) -> Proxy:
    """The proxy behind a policy; imported here so that `import dpsql` stays light."""
    from dpsql.proxy import Proxy  # noqa: PLC0415

    return Proxy.open(policy)
