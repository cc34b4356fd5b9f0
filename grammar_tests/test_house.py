"""The path of a question through the package stays short, as `benchmarks.house` counts it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import house

MOST_OF_A_REFUSAL, MOST_OF_A_COUNT = 207, 895
MOST_CHANGES_OF_A_REFUSAL, MOST_CHANGES_OF_A_COUNT = 39, 367
MOST_IDLE_FILES = 3
MOST_BUNDLES = 0
COUNTED = "import json; from benchmarks import house; print(json.dumps([*house.traces()]))"


@pytest.mark.full("traces two questions, in a process that compiled nothing before")
def test_a_refusal_and_a_count_enter_few_functions() -> None:
    call = [sys.executable, "-c", COUNTED]
    run = subprocess.run(call, capture_output=True, check=True)  # noqa: S603
    rows = {name: counts for name, *counts in json.loads(run.stdout)}
    refused, offered = rows["refused"], rows["its offer"]
    assert refused[0] <= MOST_OF_A_REFUSAL < refused[0] + offered[0], "the twin counts the offer"
    assert rows["COUNT(*)"][0] <= MOST_OF_A_COUNT
    assert refused[2] <= MOST_CHANGES_OF_A_REFUSAL
    assert rows["COUNT(*)"][2] <= MOST_CHANGES_OF_A_COUNT
    assert max(refused[3], rows["COUNT(*)"][3]) <= MOST_IDLE_FILES
    assert refused[-2:] == [0, 0], "neither a side system nor a ledger"


@pytest.mark.full("reads all files of the package")
def test_arguments_are_passed_one_by_one() -> None:
    assert len([*house.bundles(house.sources())]) <= MOST_BUNDLES
    twin = ast.parse("def area(width, height): ...\narea(*sides)\nzip(*sides)")
    assert [name for *_, name in house.bundles({Path("twin.py"): twin})] == ["area"]


@pytest.mark.full("reads all files of the package")
def test_classes_have_few_methods() -> None:
    named = f"classes of over {house.MAX_METHODS} methods"
    assert dict(house.shapes(house.sources()))[named] == 0
    wide = "class Wide:\n" + "\n".join(f"    def m{n}(self): ..." for n in range(31))
    printer = wide.replace("Wide", "PartPrinter") + "\n    def m(self, x): assert_never(x)"
    twins = [ast.parse(wide), ast.parse(printer), ast.parse(wide.replace("Wide", "WidePrinter"))]
    classes = [twin.body[0] for twin in twins]
    assert [isinstance(c, ast.ClassDef) and house.prints_union(c) for c in classes] == [
        False,
        True,
        False,
    ]
