"""Questions by keys that nobody lists, beside the best fixed limits that brute force finds.

Such keys are shown where a noisy count of households reaches a threshold, which costs a δ: no
question here is asked under `pure`. Of the questions for all keys it counts how many are shown, of
those for the largest how far these are off; one that is not shown is off by all that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import duckdb
import numpy as np

from benchmarks import clips
from benchmarks.clips import Best, Floats, Law, Totals
from benchmarks.drafts import Price
from benchmarks.retail.questions import WITH_PRODUCTS, Question
from dpsql import accountants

DRAWS = 8
SHARES = (0.1, 0.25, 0.5)
"""What the count that shows keys may get of the amount, where another number is asked for."""
STORES = "transactions"

QUESTIONS = (
    Question(
        "households by store",
        "people",
        "COUNT(DISTINCT household_id)",
        STORES,
        ("store_id",),
        ("1",),
    ),
    Question("rows by store", "total", "COUNT(*)", STORES, ("store_id",)),
    Question(
        "top 10 stores by households",
        "people",
        "COUNT(DISTINCT household_id)",
        STORES,
        ("store_id",),
        ("1",),
        shown=10,
    ),
    Question(
        "top 10 stores by sales",
        "total",
        "SUM(sales_value)",
        STORES,
        ("store_id",),
        ("SUM(sales_value)",),
        (1000.0,),
        shown=10,
    ),
    Question("top 10 products by rows", "total", "COUNT(*)", STORES, ("product_id",), shown=10),
    Question(
        "top 20 departments of stores",
        "total",
        "COUNT(*)",
        WITH_PRODUCTS,
        ("t.store_id", "p.department"),
        shown=20,
    ),
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a question may spend where keys are private: noise, and the δ of showing keys."""

    law: Law
    delta: float

    @classmethod
    def of(cls, price: Price) -> Selection:
        prices = Fraction(str(price.epsilon)), Fraction(str(price.delta))
        allowed = accountants.get(price.accountant).allowance(*prices, selects_keys=True)
        law = Law(price.accountant == "zcdp", float(allowed.amount))
        return cls(law, float(allowed.selection_delta))

    def threshold(self, scale: float, keys: int) -> float:
        """What a count of this noise has to reach, for units of so many keys."""
        chance = -np.expm1(np.log1p(-self.delta) / keys)
        if self.law.gaussian:
            return 1 + scale * NormalDist().inv_cdf(1 - chance)
        return float(1 - scale * np.log(2 * chance))


def reach(connection: duckdb.DuckDBPyConnection, question: Question, price: Price) -> Best:
    """The most keys that are shown under any limit of keys, or the least error of the largest."""
    columns = list(connection.execute(question.by_household).fetchnumpy().values())
    units = np.unique(columns[0], return_inverse=True)[1]
    groups, places = np.unique(columns[1].astype(str), return_inverse=True)
    totals = Totals(units, places, np.asarray(columns[2], dtype=float), len(groups))
    selection = Selection.of(price)
    if question.shown is None:
        return _most_keys(totals, selection, alone=question.kind == "people")
    found = _errors(totals, selection, question.shown, alone=question.kind == "people")
    return Best(*min(found))


def _limits(totals: Totals) -> list[int]:
    most = int(totals.touched.max())
    return sorted({min(most, 2**n) for n in range(most.bit_length() + 1)})


def _kept(totals: Totals, keys: int) -> Floats:
    return np.asarray(np.minimum(1, keys / totals.touched)[totals.unit])


def _most_keys(totals: Totals, selection: Selection, *, alone: bool) -> Best:
    """How many keys a count shows that has all of the amount, or half beside another number."""
    law = selection.law if alone else selection.law.share(0.5)
    found = list[tuple[float, str]]()
    for keys in _limits(totals):
        people = clips.counted(totals.group, _kept(totals, keys), totals.groups)
        scale = law.limited(keys, 1.0)
        draws = law.draws((DRAWS, totals.groups), 5) * scale
        shown = (people + draws >= selection.threshold(scale, keys)).sum() / DRAWS
        found.append((float(shown), str(keys)))
    return Best(*max(found))


def _errors(
    totals: Totals, selection: Selection, shown: int, *, alone: bool
) -> Iterator[tuple[float, str]]:
    """The mean error of the largest that are shown, by limits of keys and what counts in each."""
    truth, law = totals.truth(), selection.law
    normal = law.draws((2, DRAWS, totals.groups), 6)
    for keys in _limits(totals):
        kept = _kept(totals, keys)
        people = clips.counted(totals.group, kept, totals.groups)
        for share in (1.0,) if alone else SHARES:
            scale = law.share(share).limited(keys, 1.0)
            counts = people + normal[0] * scale
            passed = counts >= selection.threshold(scale, keys)
            if alone:
                yield _error(truth, counts, passed, shown), str(keys)
                continue
            for clip in clips.clips_up_to(float(totals.value.max()), 10, 1):
                left = np.minimum(totals.value, clip) * kept
                exact = clips.counted(totals.group, left, totals.groups)
                noisy = exact + normal[1] * law.share(1 - share).limited(keys, float(clip))
                yield _error(truth, noisy, passed, shown), f"{keys} x {clip:.4g}"


def _error(truth: Floats, noisy: Floats, passed: Floats, shown: int) -> float:
    """Of each draw the largest of those that passed, and the largest in truth for the others."""
    found, largest = list[float](), np.sort(truth)[::-1]
    for numbers, seen in zip(noisy, passed, strict=True):
        places = np.flatnonzero(seen)
        top = places[np.argsort(-numbers[places])[:shown]]
        missed = largest[len(top) : shown]
        found.append((np.abs(numbers[top] - truth[top]).sum() + missed.sum()) / shown)
    return float(np.mean(found))
