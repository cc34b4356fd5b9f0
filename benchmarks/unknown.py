"""Share of released numbers whose error is unknown (`± ?`), over the accepted cases.

    python -m benchmarks.unknown [--every 1] [--output FOLDER]

Each accepted case of the shop is answered once, for a crowd of 4,800 customers. `in rows` are the
unknown ones of which a notice says by how many rows they may be off.
"""

from __future__ import annotations

import argparse
from collections import Counter
from math import isnan
from pathlib import Path

from benchmarks.common import save, table
from dpsql.model.notices import Notice, Ranked
from dpsql.model.vocabulary import Answer
from grammar_tests import casefile
from grammar_tests.accuracy_kit import crowd, draws, question

HEADER = ("topic", "numbers", "unknown", "in rows")


def count_numbers(answer: Answer, notices: tuple[Notice, ...]) -> Counter[str]:
    """Count the columns of noisy numbers, and those in which an error is unknown. NULL is none."""
    ranked = {n for each in notices if isinstance(each, Ranked) for n in each.outputs}
    pairs = (zip(*both, strict=True) for both in zip(answer.rows, answer.margins, strict=True))
    noisy = {
        place: [m for value, m in column if m is not None and value is not None]
        for place, column in enumerate(zip(*pairs, strict=True))
    }
    unknown = {place for place, margins in noisy.items() if any(map(isnan, margins))}
    return Counter(
        numbers=sum(map(bool, noisy.values())), unknown=len(unknown), ranked=len(unknown & ranked)
    )


def count_cases(every: int) -> dict[str, Counter[str]]:
    """Count the numbers of each topic's accepted cases, of each `every`-th one."""
    topics: dict[str, Counter[str]] = {}
    _, engine = crowd()
    cases = [c for c in casefile.all_cases() if c.accepted and c.holds_here and not c.rows]
    for case in [c for c in cases if c.catalog == "shop"][::every]:
        prepared = question(case, "zcdp")
        if prepared is None:
            continue
        (answer,) = draws(prepared, engine, 1)
        counted = count_numbers(answer, prepared.notices)
        topics.setdefault(case.file.parent.name, Counter()).update(counted)
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
