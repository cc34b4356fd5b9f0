"""Share of released numbers whose error is unknown (`± ?`), over the accepted cases.

    python -m benchmarks.unknown [--every 1] [--output FOLDER]

Each accepted case of the shop is compiled, none is asked. A number counts as unknown where no error
is expected of it before anything is paid; `in rows` are those of which a notice says by how many
rows they may be off.
"""

from __future__ import annotations

import argparse
from collections import Counter
from math import isnan
from pathlib import Path

from benchmarks.common import save, table
from dpsql.compiler.plan.prepared import Prepared
from dpsql.model.errors import Refused
from dpsql.model.notices import Ranked
from grammar_tests import casefile, world
from grammar_tests.accuracy_kit import NORM
from grammar_tests.bound import over
from grammar_tests.laws import BUDGET, compiled

HEADER = ("topic", "numbers", "unknown", "in rows")


def count_numbers(prepared: Prepared) -> Counter[str]:
    """Count the numbers of an answer's columns, and those with an unknown error."""
    ranked = {n for each in prepared.notices if isinstance(each, Ranked) for n in each.outputs}
    expected = enumerate(prepared.rewritten.expected)
    errors = {place: error for place, error in expected if error is not None}
    unknown = {place for place, error in errors.items() if isnan(error)}
    return Counter(numbers=len(errors), unknown=len(unknown), ranked=len(unknown & ranked))


def count_cases(every: int) -> dict[str, Counter[str]]:
    """Count the numbers of each topic's accepted cases, of each `every`-th one."""
    policy, engine = over(world.well_behaved(), constraints=True)
    topics: dict[str, Counter[str]] = {}
    cases = [c for c in casefile.all_cases() if c.accepted and c.holds_here and not c.rows]
    for case in [c for c in cases if c.catalog == "shop"][::every]:
        budget, dialect = BUDGET, case.setting("dialect", "duckdb")
        try:
            prepared = compiled(case.sql, policy, engine, dialect=dialect, budget=budget, norm=NORM)
        except Refused:
            continue
        topics.setdefault(case.file.parent.name, Counter()).update(count_numbers(prepared))
    return topics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    topics = count_cases(options.every)
    topics["all"] = sum(topics.values(), Counter())
    rows = [
        (topic, *(str(each[name]) for name in ("numbers", "unknown", "ranked")))
        for topic, each in topics.items()
    ]
    table("Numbers with an unknown error", HEADER, rows)
    if options.output is not None:
        save(options.output, "unknown", HEADER, rows, rows)


if __name__ == "__main__":
    main()
