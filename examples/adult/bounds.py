"""Clipping bounds found privately: by one's own search, and by the three ways of `private_bounds`.

The search asks from above for the first bound that would cut many people. Any number may be tried
by sparse vector; one alarm is paid for, and then the sum. All four cost the same.
"""

from __future__ import annotations

import re

from examples.adult.people import Demonstration, at, demonstration

MANY = 50
BOUNDS = [2**n for n in range(20, 7, -1)]
ABOVE = "SELECT COUNT(*) AS n FROM people WHERE capital_gain > {bound}"
SUM = "SELECT SUM({gain}) AS total FROM people"
METHODS = ("log_histogram", "quantile", "sparse_vector")


def searched(people: Demonstration) -> list[int]:
    """The bounds that were tried, of which the last would cut too many; the sum without it."""
    tried: list[int] = []
    with people.analyst("pure") as connection:
        with connection.watch(MANY, alarms=1, epsilon="0.5") as monitor:
            for bound in BOUNDS:
                tried.append(bound)
                above = monitor.ask(ABOVE.format(bound=bound)).above
                print(f"more than {MANY} above {bound}: {'yes' if above else 'no'}")
                if above:
                    break
        gain = f"LEAST(capital_gain, {kept(tried)})"
        cursor = connection.cursor().execute(at("0.5", SUM.format(gain=gain)))
        print(
            f"clipped to {kept(tried)}: {cursor.fetchall()[0][0]:,} ± {cursor.margins[0][0]:,.0f}"
        )
    return tried


def kept(tried: list[int]) -> int:
    """The last bound that would not cut too many."""
    return tried[-2:][0]


def found(people: Demonstration, method: str) -> float:
    """The bound that a method finds with a fifth of the price of the sum."""
    with people.analyst("pure", finding=method) as connection:
        cursor = connection.cursor().execute(at("1.0", SUM.format(gain="capital_gain")))
        ends = re.search(r"\[(.+), (.+)\]", cursor.notices[-1])
        assert ends is not None
        bound = float(ends.group(2))
        total, margin = cursor.fetchall()[0][0], cursor.margins[0][0]
        print(f"{method} clips to {bound:g}: {total:,} ± {margin:,.0f}")
    return bound


with demonstration("bounds") as (people, axes):
    tried = searched(people)
    bounds = {method: found(people, method) for method in METHODS}
    if axes:
        exact = [people.truth(ABOVE.format(bound=bound))[0][0] for bound in BOUNDS]
        axes.plot(BOUNDS, exact, ".--", color="0.4", label="exact number, which nobody sees")
        axes.axhline(MANY, color="0.7", lw=1, label="threshold of the search")
        quiet = exact[: len(tried) - 1]
        axes.plot(tried[:-1], quiet, "o", color="C0", label="answer: below")
        axes.plot(tried[-1], exact[len(tried) - 1], "^", color="C3", ms=9, label="answer: above")
        axes.axvline(kept(tried), color="C3", lw=1, label=f"the search: {kept(tried)}")
        for n, (method, bound) in enumerate(bounds.items()):
            where, style = bound * 1.04**n, ("--", "-.", ":")[n]
            axes.axvline(where, color=f"C{n}", ls=style, label=f"{method}: {bound:g}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(bottom=0)
        axes.set(xlabel="bound of capital_gain (dollars)", ylabel="people above the bound")
        axes.legend(frameon=False, fontsize="small")
