"""The table of side systems, with the additions of each to the package.

A system is imported when a text, a call or a command needs it. If its folder is missing, that is
refused with the name of the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import MissingExtra


@dataclass(frozen=True, slots=True)
class SideSystem:
    """A side system, with its additions to the package. Values are named as "module:value".

    `opens` is the class of its `OpenSystem`, if it has one. `kinds` are the kinds of objects that
    its statements create and drop, each with the options of CREATE. `reads` turns a `Creation` or a
    `Drop` of them into the system's own statement. The system has formulas for `calls`. It answers
    queries that call one of `answers`, and has tables if `tables`.
    """

    name: str
    opens: str = ""
    reads: str = ""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    tables: bool = False
    commands: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)


_TWO_COLUMNS = tuple(
    """corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy""".split()
)
_MODEL_OPTIONS = tuple(
    """model_type label features epsilon components knots method steps gradient_norm input_norm
    momentum""".split()
)
SYSTEMS = (
    SideSystem(
        "synthesis",
        opens="dpsql.systems.synthesis.synthetic_tables:SyntheticTables",
        reads="dpsql.systems.synthesis.synthetic_statement:synthetic_statement",
        kinds={"synthetic table": ("epsilon", "rows", "keep")},
        tables=True,
        commands={"synth": "dpsql.systems.synthesis.synth:synth"},
    ),
    SideSystem(
        "models",
        opens="dpsql.systems.models.models:Models",
        reads="dpsql.systems.models.model_statement:model_statement",
        kinds={"model": _MODEL_OPTIONS},
        calls=("predict",),
        answers=_TWO_COLUMNS,
        commands={
            "fit": "dpsql.systems.models.model_commands:fit",
            "model": "dpsql.systems.models.model_commands:model",
        },
    ),
    SideSystem(
        "cubes",
        opens="dpsql.systems.cubes.public_answers:PublicAnswers",
        reads="dpsql.systems.cubes.cubes:refuse_analyst",
        kinds={"dp cube": ("epsilon",), "dp table": ("epsilon",)},
        tables=True,
        commands={"cube": "dpsql.systems.cubes.cube:cube"},
    ),
    SideSystem(
        "watch",
        commands={"watch": "dpsql.systems.watch.watch:watch"},
        values={
            "watch": "dpsql.systems.watch.monitor:Watch",
            "connection.watch": "dpsql.systems.watch.connection_monitor:watch",
        },
    ),
    SideSystem(
        "local",
        commands={"local": "dpsql.systems.local.local:local"},
        values={"publish": "dpsql.systems.local.report_store:published"},
    ),
    SideSystem(
        "web",
        commands={"mcp": "dpsql.systems.web.mcp_command:mcp"},
        values={
            "web": "dpsql.systems.web.web_server:make_web_server",
            "connection.http": "dpsql.systems.web.http_connection:open_connection",
        },
    ),
    SideSystem(
        "releases",
        commands={
            "publish": "dpsql.systems.releases.publish:publish",
            "verify": "dpsql.systems.releases.publish:verify",
        },
        values={"cursor.replicates": "dpsql.systems.releases.cursor_replicates:draw_rows"},
    ),
    SideSystem("risk", commands={"risk": "dpsql.systems.risk.risk:risk"}),
)
"""All side systems. None comes from another package: an analyst's text would import it
(SECURITY.md S23).
"""
KINDS = {kind: system for system in SYSTEMS for kind in system.kinds}
"""Kinds of objects that statements create and drop, each with its system."""
FORMULA_CALLS = frozenset(call for system in SYSTEMS for call in system.calls)
"""Calls that stand for formulas of a system, by which they are replaced when names are resolved."""
PAID_CALLS = frozenset(call for system in SYSTEMS for call in system.answers)
"""Calls in queries that a system may answer from releases that are paid for."""


def load(place: str) -> Any:
    """Import the value named "module:value". Raises `MissingExtra` if its folder is missing."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        part = ".".join(module.split(".")[:3])
        raise MissingExtra(f"{part} is missing: install the whole package.") from None


def load_value(name: str) -> Any:
    """Import a value of a side system for an interface. Raises `MissingExtra`."""
    return load(next(each.values[name] for each in SYSTEMS if name in each.values))


def command_place(name: str) -> str | None:
    """Return the place "module:value" of a command; None if no system has it."""
    return next((each.commands[name] for each in SYSTEMS if name in each.commands), None)
