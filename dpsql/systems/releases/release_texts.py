"""Texts of a release: how to read it, its methods, and what each claim rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from math import isfinite

from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.sentences import remarks
from dpsql.model.dataclass import replace
from dpsql.model.notices import Unclear
from dpsql.model.vocabulary import Policy
from dpsql.policy.budget_choices import risk
from dpsql.preparation.explanation import Explanation, approximate
from dpsql.systems.releases.published_tables import PublishedRelease, PublishedTable
from dpsql.systems.releases.registry_entry import AboutRelease, round_epsilon
from dpsql.systems.releases.release_files import FLAGS

_READERS = """# {title}

Published {today}.{description}

The numbers are estimates. Random noise was added to protect each {unit}: these tables say
almost nothing of whether any one of them is in the data. All tables together are differentially
private with {epsilon} and δ = {delta} ({loss}). In plain words, but for a probability of δ:
{risk}.

## Tables

{tables}

`tables/` has each table as CSV and Parquet. A number `n` has the ends of its 95 % interval beside
it, `n_low` and `n_high`: in 95 of 100 cases the true number is between them. `n_flag` says more:

{flags}

Negative counts are possible, and cutting them to zero would make sums too large. Tables that were
measured together agree up to rounding; others differ within their intervals.
`dictionary.csv` explains every column.

{compute}{rounding}{without}
## Check the files

`dpsql verify .` compares every file with `manifest.json`, and the manifest with its signature, if
it has one. It needs no network.
"""

_COMPUTE = """## Compute with the numbers

Sums and ratios of noisy numbers have intervals too. `replicates/` has each table {count} times
more, with the noise drawn once more. Compute your statistic from replicate 0, which has the
published numbers, not rounded. Compute it from each other replicate, and take 1.96 times the
standard deviation as the ±:

```python
import pandas as pd

tables = pd.read_parquet("replicates/TABLE.parquet").groupby("replicate")
values = tables.apply(lambda table: table["n"].sum())
print(values[0], "±", 1.96 * values[1:].std())
```

Use the same replicate number in several tables: their noise belongs together.
This holds for smooth statistics of counts and sums. It does not hold for ranks, the largest of
several numbers, or ratios whose lower number is near 0. No replicate shows what limits left out
(`methods.md`). Do not average replicates: their mean is the published number, not the truth.
"""

_METHODS = """# Methods

dpsql {version}, accountant {accountant}, unit {unit}, neighbours {neighbours}. The loss of the
release is {loss}. It counts every charge of its queries, also earlier ones.

Noise is discrete and exact: it is added to integers, and no floating-point number meets the data
before it. What each unit adds is bounded before (limits below). Sums are in steps of a public
grid.

Replicate r of a table is computed from the released measurements y as A(y + z_r), where z_r has
the public joint distribution of the noise, and A is the linear map that makes tables agree. The
standard deviation over replicates estimates that of the statistic. Where noise is Laplace noise,
1.96 of it holds a single number in 94 of 100 cases. No replicate contains what limits leave out.

{tables}"""

_TABLE = """## {name}

```sql
{sql}
```

{lines}
"""

_POINTS = (
    ("Privacy parameter ε", "{epsilon} at δ = {delta}, for all tables together.", "dpsql budget"),
    ("Unit of privacy", "{unit}; {neighbours}.", "dpsql tables"),
    ("Variant", "Accountant {accountant}; the loss is {loss}.", "dpsql history"),
    (
        "Composition",
        "Each charge before its measurement, in a chained ledger.",
        "dpsql ledger verify",
    ),
    ("Mechanisms", "Discrete noise on integers; exact samplers; see methods.md.", "dpsql explain"),
    ("Utility", "Each number has a 95 % interval; replicates give others.", "dpsql verify"),
    ("Bias", "Limits leave out what one unit has above them: see methods.md.", "dpsql tune"),
    ("Trust model", "Central: the owner, the database and the host of the proxy.", "dpsql doctor"),
    ("Implementation", "No floating point before the noise.", "dpsql help guarantee"),
    ("Security, access", "Readers get files; nothing of the data is in them.", "dpsql report"),
    ("Side channels", "Files have a day, and no times of queries.", "dpsql help guarantee"),
    ("Collection exposure", "Not covered: the raw data exist, and must be secured.", "dpsql risk"),
)
"""Points of NIST SP 800-226: the claim of a release, and a command that shows it."""


def text_files(
    release: PublishedRelease,
    about: AboutRelease,
    policy: Policy,
    plans: Sequence[Explanation],
    step: int | None,
    today: date,
) -> dict[str, bytes]:
    """Return the pages of a release. `plans` are those of its tables; `step` is as in
    `table_files`.
    """
    facts = _facts(release, policy)
    tables = "\n".join(
        _TABLE.format(name=each.name, sql=each.sql, lines="\n".join(_method(each, plan)))
        for each, plan in zip(release.tables, plans, strict=True)
    )
    return {
        "README.md": _readers(release, about, facts, step, today).encode(),
        "methods.md": _METHODS.format(**facts, tables=tables).encode(),
        "guarantee.md": _points(facts).encode(),
    }


def _method(table: PublishedTable, plan: Explanation) -> Iterator[str]:
    """Yield what was limited, measured and left out, as a list."""
    for block in plan.blocks:
        yield f"* Groups: {block.keys or 'one, of all rows'}."
        for limit in block.limits:
            value = "none" if limit.value is None else f"{limit.value:,}"
            yield f"* Limit of {limit.name}: {value} ({limit.how})."
        for each in block.releases:
            clip = f"{approximate(each.lower)} to {approximate(each.upper)}"
            law = each.mechanism.partition(" (")[0]
            yield (
                f"* {each.output}: one unit adds {clip} to each of at most {each.l0:,} groups; "
                f"noise {law}."
            )
        yield from (f"* {each.output}: {each.mechanism}." for each in block.choices)
    yield from _errors(table)
    notices = tuple(each for each in table.answer.notices if not isinstance(each, Unclear))
    yield from (f"* {n}." for n in remarks(replace(table.answer, notices=notices), COMMAND_LINE))


def _errors(table: PublishedTable) -> Iterator[str]:
    """Yield the range of the standard errors of each column, by noise alone."""
    for n, column in enumerate(table.answer.columns):
        errors = [row[n] for row in table.answer.errors]
        finite = [error for error in errors if error is not None and isfinite(error)]
        if finite:
            ends = dict.fromkeys(map(approximate, (min(finite), max(finite))))
            yield f"* Standard error of {column.name} by noise: {' to '.join(ends)}."


def _facts(release: PublishedRelease, policy: Policy) -> dict[str, str]:
    epsilon = Decimal(str(round_epsilon(release.epsilon)))
    return {
        "epsilon": f"ε = {plain(epsilon)}",
        "delta": f"{release.delta}",
        "loss": loss_text(release.loss, release.accountant),
        "risk": "; ".join(risk(epsilon)),
        "accountant": release.accountant,
        "unit": policy.unit_name,
        "neighbours": policy.unit.neighbours.value,
        "version": version("dpsql"),
    }


def _readers(
    release: PublishedRelease,
    about: AboutRelease,
    facts: Mapping[str, str],
    step: int | None,
    today: date,
) -> str:
    without = [
        f"* {each.name}: {each.replicates.why_not}."
        for each in release.tables
        if each.replicates.why_not
    ]
    counts = [len(each.replicates.numbers) for each in release.tables]
    rounding = (
        ""
        if step is None
        else (
            f"\nWhole numbers in `tables/` are rounded to multiples of {step}, and their intervals "
            "outwards; "
            "replicates are not rounded."
        )
    )
    return _READERS.format(
        **facts,
        title=about.title or "Release",
        today=today.isoformat(),
        description=f" {about.description}" if about.description else "",
        tables="\n".join(f"* `{t.name}`: {len(t.answer.rows):,} rows" for t in release.tables),
        flags="\n".join(f"* `{name}`: {meaning}" for name, meaning in FLAGS.items()),
        compute=_COMPUTE.format(count=max(counts, default=0)) if max(counts, default=0) else "",
        rounding=rounding,
        without="\nNo replicates:\n\n" + "\n".join(without) + "\n" if without else "",
    )


def _points(facts: Mapping[str, str]) -> str:
    rows = [
        f"| {point} | {claim.format(**facts)} | `{command}` |" for point, claim, command in _POINTS
    ]
    head = (
        "# The guarantee, point by point\n\nThe points are those of NIST SP 800-226, Guidelines "
        "for "
        "Evaluating Differential Privacy Guarantees (2025). The owner runs the commands.\n\n"
        "| point | this release | shown by |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"
