"""Laplace against Gaussian: k counts in one question at ε = 1, δ = 1e-6. Asks nothing: free."""

from __future__ import annotations

from examples.adult.people import demonstration

COUNTS = (1, 2, 4, 8, 16, 32, 64)
LABELS = {"pure": "Laplace, accountant pure", "zcdp": "Gaussian, accountant zcdp"}


def question(counts: int) -> str:
    """Counts that overlap, so that none is free."""
    shown = (f"COUNT(*) FILTER (WHERE age > {18 + n}) AS n{n}" for n in range(counts))
    return f"SELECT {', '.join(shown)} FROM people"


with demonstration("laplace_gaussian") as (people, axes):
    errors = {}
    for accountant in LABELS:
        with people.analyst(accountant) as connection:
            plans = [connection.explain(question(counts)) for counts in COUNTS]
        releases = [plan.blocks[0].releases[0] for plan in plans]
        errors[accountant] = [release.error for release in releases]
        for counts, release in zip(COUNTS, releases, strict=True):
            print(f"{counts} counts: {release.mechanism}, each ± {release.margin:.0f}")
    if axes:
        for accountant, label in LABELS.items():
            axes.plot(COUNTS, errors[accountant], "o-", label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(xlabel="counts in one question", ylabel="standard error of each (people)")
        axes.set_xticks(COUNTS, [str(counts) for counts in COUNTS])
        axes.legend(frameon=False)
