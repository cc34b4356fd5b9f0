"""table_sizes: how many rows a table has, where nobody knows, as one cheap private count.

The count is an ordinary question. Its power of four is computed from the released number alone, so
it may enter the policy, which is public.
"""

from __future__ import annotations

from decimal import Decimal
from math import log

from dpsql.model.table_names import address
from dpsql.model.vocabulary import Answer, Policy, TablePolicy
from dpsql.policy.edit import LimitValue

SIZE_EPSILON = Decimal("0.01")
"""Price of the count, which is part of what `dpsql tune` asks for."""


def count_rows(table: TablePolicy, epsilon: Decimal) -> str | None:
    """Return the question of a table's size; None if it is known, or most of the price."""
    if table.expected_rows is not None or table.several or not table.private:
        return None
    if epsilon < 2 * SIZE_EPSILON:
        return None
    return f"SELECT COUNT(*) AS n FROM {address(table.name)}"


def size_of(policy: Policy, name: str, answer: Answer) -> LimitValue | None:
    """Return the size of a table as a line of the policy; None if noise hides it."""
    table, ((count,),), ((interval,),) = policy.table(name), answer.rows, answer.intervals
    assert table is not None
    if interval is None or not interval[0] > 0:
        return None
    return LimitValue(table.name, "expected_rows", Decimal(power_of_four(count)))


def power_of_four(count: float) -> int:
    """Return the power of four next to a count, by ratio.

    >>> [power_of_four(n) for n in (1, 3, 20_000, 130_000, 132_000)]
    [1, 4, 16384, 65536, 262144]
    """
    return int(4 ** round(log(max(1, count), 4)))
