"""Three ways to a mean age: bounded noise, propose-test-release, sample and aggregate."""

from __future__ import annotations

from math import isfinite

from examples.adult.people import at, demonstration

WAYS = {
    "AVG": "SELECT AVG(age) AS mean FROM people",
    "PTR_MEAN": "SELECT PTR_MEAN(age, {rows}) AS mean FROM people",
    "SAMPLE_AGGREGATE": "SELECT SAMPLE_AGGREGATE(AVG(age), 0, 125) AS mean FROM people",
}
EPSILONS = ("0.05", "0.1", "0.2", "0.5", "1")
ROWS = 10_000

with demonstration("robust_means") as (people, axes):
    found = {}
    with people.analyst("approximate") as connection:
        for name, sql in WAYS.items():
            for epsilon in EPSILONS:
                cursor = connection.cursor().execute(at(epsilon, sql.format(rows=ROWS)))
                ((mean,),), ((margin,),) = cursor.fetchall(), cursor.margins
                found[name, epsilon] = mean, margin
                print(f"{name} at ε = {epsilon}: {mean} ± {margin}")
    if axes:
        exact = people.truth(WAYS["AVG"])[0][0]
        axes.axhline(exact, color="0.4", linestyle="--", label="exact mean")
        for shift, name in zip((0.94, 1, 1.06), WAYS, strict=True):
            answered = [e for e in EPSILONS if found[name, e][0] is not None]
            places = [shift * float(epsilon) for epsilon in answered]
            means = [found[name, epsilon][0] for epsilon in answered]
            margins = [found[name, epsilon][1] for epsilon in answered]
            known = [margin if margin and isfinite(margin) else 0.0 for margin in margins]
            axes.errorbar(places, means, known, fmt="o", capsize=4, label=name)
        axes.set(xscale="log", xlabel="ε of the question", ylabel="mean age (years)")
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
