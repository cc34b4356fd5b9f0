"""The command line: `dpsql query`, `explain`, `watch`, `init`, `check`, `budget`, and so on.

Results go to stdout; cost, progress, notices and errors to stderr. Exit codes are
`dpsql.interfaces.wordings.ExitCode`. Heavy modules are imported by the commands that need them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from dpsql.interfaces.cli.ask import explain, query
from dpsql.interfaces.cli.budget_commands import budget, history
from dpsql.interfaces.cli.compare import compare
from dpsql.interfaces.cli.cube import cube
from dpsql.interfaces.cli.drafting import init
from dpsql.interfaces.cli.interactive import shell
from dpsql.interfaces.cli.listing_commands import describe, tables
from dpsql.interfaces.cli.local import local
from dpsql.interfaces.cli.manual import completion, manual
from dpsql.interfaces.cli.model_commands import fit, model
from dpsql.interfaces.cli.options import CommandSettings, common
from dpsql.interfaces.cli.owner_commands import check, demo, prepare, refresh
from dpsql.interfaces.cli.plan import plan
from dpsql.interfaces.cli.risk import risk
from dpsql.interfaces.cli.serve import serve
from dpsql.interfaces.cli.synth import synth
from dpsql.interfaces.cli.terminal import show_error, show_fault, use_color
from dpsql.interfaces.cli.tune import tune
from dpsql.interfaces.cli.user_commands import user
from dpsql.interfaces.cli.watch import watch
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import DpsqlError

SECTIONS = {
    "Ask": (query, shell, explain, tables, describe, plan, watch, synth, fit, model, budget),
    "Own the data": (init, check, risk, tune, cube, prepare, refresh, history, serve, user, local),
    "Learn": (demo, manual, completion),
}
_WHOLE = 1_000
"""Longer than any sentence: what a command does is never cut off."""


class Program(click.Group):
    """The group of all commands; every error leaves as a message and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> NoReturn:
        """Run and exit; no traceback reaches the user, whatever `standalone_mode`."""
        del standalone_mode
        try:
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
        """The commands by who needs them, each with the whole sentence that says what it does."""
        del context
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                lines = [(str(c.name), c.get_short_help_str(_WHOLE)) for c in commands]
                formatter.write_dl(lines, col_max=12)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpsql", message="dpsql %(version)s")
@common
@click.pass_context
def main(context: click.Context, policy: str | None, analyst: str | None) -> None:
    """Ordinary SQL in, differentially private answers out."""
    context.color = use_color()
    settings = context.obj if isinstance(context.obj, CommandSettings) else CommandSettings()
    # Read here and not by each command, where it would win over an --analyst before its name.
    analyst = analyst or os.environ.get("DPSQL_ANALYST")
    context.obj = settings.with_options(policy, analyst)


budget.add_command(compare)
for command in (command for commands in SECTIONS.values() for command in commands):
    main.add_command(command)
