"""Time from text to plan, over every case of the grammar, and to refuse what is too large.

    python -m benchmarks.compile [REPEATS]

Each case is compiled REPEATS times and counts with its fastest; hostile texts likewise. Nothing is
cached between them but what is measured of public tables.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.common import seconds, table
from dpsql.compiler.parse import parse
from dpsql.errors import Refused
from grammar_tests import casefile
from grammar_tests.bound import shop
from grammar_tests.casefile import Case
from grammar_tests.laws import compiled

PROMISED_MS = 25.0
REFUSAL_MS = 50.0
HOSTILE = {
    "64 KiB of one sum": "SELECT " + "1+" * 32_700 + "1",
    "64 KiB of one list": "SELECT 1 IN (" + "1," * 32_700 + "1)",
    "200 parentheses": "SELECT " + "(" * 200 + "1" + ")" * 200,
    "200 subqueries": "SELECT 1 FROM (" * 200 + "SELECT 1" + ")" * 200,
    "200 scalar subqueries": "SELECT (" * 200 + "SELECT 1" + ")" * 200,
    "200 CASEs": "SELECT " + "CASE WHEN 1 THEN " * 200 + "1" + " END" * 200,
    "200 NOTs": "SELECT " + "NOT " * 200 + "TRUE",
    "2,000 joins": "SELECT 1 FROM t" + " JOIN t USING (a)" * 2000,
    "200 EXISTS": "SELECT " + "EXISTS (SELECT " * 200 + "1" + ")" * 200,
}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cases = casefile.all_cases()
    times = sorted(min(_compiled(case) for _ in range(repeats)) for case in cases)
    last = len(times) - 1
    rows = [
        ("median", statistics.median(times), ""),
        ("95th percentile", times[int(0.95 * last)], PROMISED_MS),
        ("99th percentile", times[int(0.99 * last)], ""),
        ("slowest", times[last], ""),
    ]
    table(f"Parse to plan over {len(cases)} cases", ("what", "ms", "promised at most"), rows)
    refused = [
        (name, min(_refused(text) for _ in range(repeats)), REFUSAL_MS)
        for name, text in HOSTILE.items()
    ]
    table("Refusing hostile texts", ("what", "ms", "promised at most"), refused)


def _compiled(case: Case) -> float:
    policy, engine = shop()

    def once() -> None:
        try:
            compiled(case.sql, policy, engine, dialect=case.setting("dialect", "duckdb"))
        except Refused:
            return

    return 1000 * seconds(once)


def _refused(text: str) -> float:
    def once() -> None:
        try:
            parse(text, "duckdb")
        except Refused:
            return
        msg = "a hostile text was not refused"
        raise AssertionError(msg)

    return 1000 * seconds(once)


if __name__ == "__main__":
    main()
