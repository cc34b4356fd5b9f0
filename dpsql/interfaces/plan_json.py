"""A plan for programs: one JSON object, whose keys stay as they are; new ones may join them.

A margin is null where a column is exact and where it depends on the data: `exact` tells them apart.
Statements are those that run, to the letter. A number that has no end is null.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from typing import Any

from dpsql.explaining.explanation import BlockLines, ChoiceLine, Explanation, LimitLine, ReleaseLine
from dpsql.interfaces.helps import help_text
from dpsql.interfaces.sentences import sentences
from dpsql.model.vocabulary import Column, Loss, Rest

VERSION = 1
"""What `version` says: it is raised where a key goes or changes its meaning."""


def plan_json(explanation: Explanation) -> str:
    """The whole plan, each list on lines of its own.

    `version`, `analyst`, `budget`, `accountant`; `epsilon`, `charge`, `spent` and `limit`
    ({"amount", "delta"} in the accountant's unit); `remembered`, `affordable`, `left`; `columns`
    with their margins at 95 %; `told`, `helps` and `notes` in words; `releases`, `stages` and
    `outer_sql`.
    """
    return json.dumps(_plan(explanation), ensure_ascii=False, indent=2) + "\n"


def _plan(explanation: Explanation) -> dict[str, Any]:
    expected = explanation.expected or (None,) * len(explanation.columns)
    columns = zip(explanation.columns, expected, strict=True)
    return {
        "version": VERSION,
        "analyst": explanation.analyst,
        "budget": explanation.budget,
        "accountant": explanation.accountant,
        "epsilon": float(explanation.epsilon),
        "charge": _loss(explanation.charge),
        "spent": _loss(explanation.spent),
        "limit": _loss(explanation.limit),
        "remembered": explanation.remembered,
        "affordable": (explanation.spent + explanation.charge).fits(explanation.limit),
        "left": None if explanation.rest is None else _rest(explanation.rest),
        "columns": [_column(*pair) for pair in columns],
        "told": list(sentences(explanation.notices, explanation.columns)),
        "helps": [help_text(each) for each in explanation.helps],
        "notes": list(explanation.notes),
        "releases": [_release(block) for block in explanation.blocks],
        "stages": list(explanation.stages),
        "outer_sql": explanation.outer_sql,
    }


def _loss(loss: Loss) -> dict[str, float]:
    return {"amount": loss.amount / 10**9, "delta": loss.delta / 10**18}


def _rest(rest: Rest) -> dict[str, Any]:
    fits = None if rest.fits is None else float(rest.fits)
    each = {"questions": rest.questions, "with_private_keys": rest.keyed}
    return {"epsilon": float(rest.question), **each, "fits": fits}


def _column(column: Column, expected: float | None) -> dict[str, Any]:
    margin = expected if expected is not None and isfinite(expected) else None
    told = {"margin": margin, "exact": expected is None}
    return {"name": column.name, "type": str(column.type), **told}


def _release(block: BlockLines) -> dict[str, Any]:
    return {
        "unit": block.unit,
        "limits": list(map(_fields, block.limits)),
        "keys": block.keys,
        "measurements": list(map(_fields, block.releases)),
        "choices": list(map(_fields, block.choices)),
        "facts": list(block.facts),
        "sql": block.sql,
    }


def _fields(line: LimitLine | ReleaseLine | ChoiceLine) -> dict[str, Any]:
    pairs = asdict(line).items()
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in pairs}
