"""A clipping bound found by sparse vector: from above, the first that would cut many people.

Any number of bounds may be tried; one alarm is paid for, and then the sum.
"""

from __future__ import annotations

from examples.adult.people import at, demonstration

MANY = 50
BOUNDS = [2**n for n in range(20, 7, -1)]
ABOVE = "SELECT COUNT(*) AS n FROM people WHERE capital_gain > {bound}"
SUM = "SELECT SUM(LEAST(capital_gain, {bound})) AS total FROM people"

with demonstration("bounds") as (people, axes):
    tried = []
    with people.analyst("pure") as connection:
        with connection.watch(MANY, alarms=1, epsilon="0.5") as monitor:
            for bound in BOUNDS:
                tried.append(bound)
                above = monitor.ask(ABOVE.format(bound=bound)).above
                print(f"more than {MANY} above {bound}: {'yes' if above else 'no'}")
                if above:
                    break
        chosen = min(2 * tried[-1], BOUNDS[0])
        cursor = connection.cursor().execute(at("0.5", SUM.format(bound=chosen)))
        print(f"clipped to {chosen}: {cursor.fetchall()[0][0]:,} ± {cursor.margins[0][0]:,.0f}")
    if axes:
        exact = [people.truth(ABOVE.format(bound=bound))[0][0] for bound in BOUNDS]
        axes.plot(BOUNDS, exact, ".--", color="0.4", label="exact number, which nobody sees")
        axes.axhline(MANY, color="C1", label="threshold")
        quiet = [exact[n] for n in range(len(tried) - 1)]
        axes.plot(tried[:-1], quiet, "o", color="C0", label="answer: below")
        axes.plot(tried[-1], exact[len(tried) - 1], "^", color="C3", ms=9, label="answer: above")
        axes.axvline(chosen, color="C2", label=f"bound used: {chosen}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(bottom=0)
        axes.set(xlabel="bound of capital_gain (dollars)", ylabel="people above the bound")
        axes.legend(frameon=False)
