"""The randomization of a column in a policy: `randomized = { mechanism = …, … }`."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsql.mechanisms import randomized_response
from dpsql.mechanisms.randomized_response import randomized
from dpsql.model.local_reports import LocalMechanism, Randomized
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.value_reader import Reader

_KEY, _EXAMPLE = "randomized", 'Write randomized = { mechanism = "grr", epsilon = 1.0 }.'
_ROUNDED = 1 + Fraction(1, 10**6)
"""Tolerance for a rounded ε that is written together with p and q."""


def law_of(column: Reader) -> Randomized | None:
    """Return the randomization of a column; None without one. Raises `PolicyError`."""
    if _KEY not in column.values:
        return None
    reader = column.table(_KEY)
    only_keys(reader, "tables.T.columns.C.randomized")
    values = column.values.get("values")
    if not isinstance(values, list):
        column.fail(_KEY, "Nothing says of which values people reported.", "List its values.")
    for key in ("bounds", "private_bounds", "max_per_unit", "max_length", "nullable"):
        if column.values.get(key):
            column.fail(key, f"Reports have no {key}.", "Leave it out: rows without one are none.")
    mechanism = LocalMechanism(reader.choice("mechanism", tuple(LocalMechanism)))
    if mechanism.of_bits and not all(isinstance(value, str) for value in values):
        column.fail("values", "Reports of bits are of texts.", 'Write values = ["1", "2"].')
    try:
        return _law(reader, mechanism, len(values))
    except ValueError as error:
        column.fail(_KEY, f"{error}.", _EXAMPLE)


def _law(reader: Reader, mechanism: LocalMechanism, values: int) -> Randomized:
    epsilon = reader.amount("epsilon") if "epsilon" in reader.values else None
    p, q = (_rational(reader, key) for key in ("p", "q"))
    if p is None:
        if q is not None:
            raise ValueError("q is given without p")
        if epsilon is not None:
            return randomized(mechanism, values, epsilon)
        if mechanism is LocalMechanism.TWO_COINS:
            return randomized_response.two_coins(values)
        raise ValueError("epsilon is missing, and p and q are")
    if q is None:
        q = 1 - p if mechanism.of_bits else (1 - p) / (values - 1)
    law = randomized_response.checked(Randomized(mechanism, values, p, q))
    if epsilon is not None and law.odds > randomized_response.exp_down(epsilon) * _ROUNDED:
        raise ValueError(f"p and q are of ε = {law.epsilon:.6g}, which is more than {epsilon}")
    return law


def _rational(reader: Reader, key: str) -> Fraction | None:
    """Return a probability: a number, or a text such as "1/3"."""
    value = reader.values.get(key)
    if isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            reader.fail(key, f"{value!r} is no fraction.", f'Write {key} = "1/3".')
    return None if value is None else Fraction(reader.amount(key, str(Decimal(0))))
