"""Words of each interface for its options, so that hints name only existing options."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """Words of an interface. Empty words stand for a missing option.

    `epsilon` sets the ε in place of {}, and `confirm` requests an answer in spite of warnings.
    `plan` shows the plan of a query, `verbose` all of it. `dialect` selects another spelling of
    SQL. `manual` shows the supported SQL. `analyst` names the analyst who asks.
    """

    epsilon: str
    confirm: str
    plan: str
    dialect: str = ""
    verbose: str = ""
    manual: str = ""
    analyst: str = ""

    def words(self, fits: str = "") -> dict[str, str]:
        """Return the existing words by their names in messages.

        >>> WIRE.words("0.2")["by_fitting"]
        'SET dpsql.epsilon = 0.2'
        """
        named = {
            "by_epsilon": self.epsilon.format("…"),
            "by_fitting": self.epsilon.format(fits) if fits else "",
            "by_confirm": self.confirm,
            "by_dialect": self.dialect,
            "by_manual": self.manual,
            "by_analyst": self.analyst,
        }
        return {name: text for name, text in named.items() if text}


COMMAND_LINE = Door(
    "--epsilon {}",
    "--yes",
    "dpsql explain",
    dialect="--dialect",
    verbose="--verbose",
    manual="dpsql help sql",
    analyst="--analyst",
)
DATABASE_API = Door(
    "connect(…, epsilon='{}')",
    "connect(…, confirm=True)",
    "cursor.explain(…)",
    dialect="connect(…, dialect=…)",
    analyst="connect(…, analyst=…)",
)
WIRE = Door(
    "SET dpsql.epsilon = {}",
    "SET dpsql.confirm = on",
    "EXPLAIN PRIVACY",
    verbose="EXPLAIN PRIVACY VERBOSE",
)
SHELL = Door(
    "\\epsilon {}",
    "dpsql shell --yes",
    "\\explain SELECT …",
    dialect="dpsql shell --dialect",
    verbose="EXPLAIN PRIVACY VERBOSE",
    manual="dpsql help sql",
)
HTTP = Door(
    '"epsilon": "{}"',
    '"confirm": true',
    "POST /v1/explain",
    dialect='"dialect"',
)
MCP = Door(
    'epsilon = "{}" of the tool query',
    "",
    "the tool price",
    dialect="dialect",
)
