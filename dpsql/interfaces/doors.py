"""doors: how each interface is spoken to, so that no hint names what its door does not have."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """`epsilon` asks for the ε that takes the place of {}, `confirm` for an answer that cannot be
    of use, `plan` for the plan of a query, `verbose` for all of it, `dialect` for another spelling
    of SQL, `manual` for what SQL is answered (empty: there is no such way).
    """

    epsilon: str
    confirm: str
    plan: str
    dialect: str = ""
    verbose: str = ""
    manual: str = ""

    def words(self, fits: str = "") -> dict[str, str]:
        """The ways by the names that texts call them, those that the door has.

        >>> WIRE.words("0.2")["by_fitting"]
        'SET dpsql.epsilon = 0.2'
        """
        named = {
            "by_epsilon": self.epsilon.format("…"),
            "by_fitting": self.epsilon.format(fits) if fits else "",
            "by_confirm": self.confirm,
            "by_dialect": self.dialect,
            "by_manual": self.manual,
        }
        return {name: text for name, text in named.items() if text}


COMMAND_LINE = Door(
    "--epsilon {}",
    "--yes",
    "dpsql explain",
    dialect="--dialect",
    verbose="--verbose",
    manual="dpsql help sql",
)
DATABASE_API = Door(
    "connect(…, epsilon='{}')",
    "connect(…, confirm=True)",
    "cursor.explain(…)",
    dialect="connect(…, dialect=…)",
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
