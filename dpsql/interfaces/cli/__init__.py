"""The command line: `dpsql query`, `explain`, `watch`, `init`, `check`, `budget`, and more.

Results go to stdout; cost, progress, notices and errors go to stderr. Exit codes are
`dpsql.interfaces.wordings.ExitCode`. Commands are imported when used, and import heavy modules only
when needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from dpsql.interfaces.cli.options import CommandSettings, Group, common
from dpsql.interfaces.cli.terminal import show_error, show_fault, use_color
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import DpsqlError, MissingExtra
from dpsql.model.public_times import require_clock
from dpsql.model.system_table import command_place, load

SECTIONS: dict[str, dict[str, str | None]] = {
    "Ask": {
        "query": "ask:query",
        "shell": "interactive:shell",
        "explain": "ask:explain",
        "tables": "listing_commands:tables",
        "describe": "listing_commands:describe",
        "plan": "plan:plan",
        "watch": None,
        "mcp": None,
        "synth": None,
        "fit": None,
        "model": None,
        "budget": "budget_commands:budget",
    },
    "Own the data": {
        "init": "drafting:init",
        "check": "owner_commands:check",
        "risk": None,
        "tune": "tune:tune",
        "cube": None,
        "prepare": "owner_commands:prepare",
        "refresh": "owner_commands:refresh",
        "history": "budget_commands:history",
        "report": "report:report",
        "publish": None,
        "verify": None,
        "ledger": "ledger_commands:ledger",
        "serve": "serve:serve",
        "user": "user_commands:user",
        "local": None,
    },
    "Learn": {
        "doctor": "doctor:doctor",
        "demo": "owner_commands:demo",
        "help": "manual:manual",
        "completion": "manual:completion",
    },
}
"""Module and attribute of each command, by section. Modules are imported when used.

None stands for a command of a side system, listed in `dpsql.model.system_table`.
"""


def missing_command(name: str, missing: MissingExtra) -> click.Command:
    """Return a command that reports its missing side system."""

    def refuse() -> NoReturn:
        raise MissingExtra(str(missing))

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, settings, callback=refuse, help=str(missing))


class Program(Group):
    """Group of all commands. Every error becomes a message and an exit code."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name. Imports only its module."""
        del ctx
        own = {name: place for commands in SECTIONS.values() for name, place in commands.items()}
        place = f"{__name__}.{own[cmd_name]}" if own.get(cmd_name) else command_place(cmd_name)
        if place is None:
            return None
        try:
            command = load(place)
        except MissingExtra as missing:
            return missing_command(cmd_name, missing)
        assert isinstance(command, click.Command)
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit. The user never sees a traceback."""
        del standalone_mode
        try:
            require_clock()
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(ExitCode.CANCELLED)
        except DpsqlError as error:
            sys.exit(show_error(error))
        except Exception as error:  # noqa: BLE001
            sys.exit(show_fault(error))
        sys.exit(code if isinstance(code, int) else ExitCode.ANSWERED)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections by audience."""
        for title, names in SECTIONS.items():
            self.list_commands_of(context, formatter, title, names)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpsql", message="dpsql %(version)s")
@common
@click.pass_context
def main(context: click.Context, policy: str | None, analyst: str | None) -> None:
    """Ordinary SQL in, differentially private answers out."""
    context.color = use_color()
    settings = context.obj if isinstance(context.obj, CommandSettings) else CommandSettings()
    # Read here, since an option of a command would win over --analyst before the command.
    analyst = analyst or os.environ.get("DPSQL_ANALYST")
    context.obj = settings.with_options(policy, analyst)


for commands in SECTIONS.values():
    # Click suggests and lists these names.
    main.commands.update(dict.fromkeys(commands, click.Command(None)))
