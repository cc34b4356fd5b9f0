"""`dpsql shell`: statements and commands in sequence, each with its price first."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from pathlib import Path

import click
from click.core import ParameterSource

from dpsql.dialects.postgres.words import pieces
from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.interfaces.amounts import plain
from dpsql.interfaces.cli import terminal
from dpsql.interfaces.cli.completions import Completable
from dpsql.interfaces.cli.line_readers import LEAVE, LineReader, ScriptLines, reader_of
from dpsql.interfaces.cli.listing_commands import listing_text
from dpsql.interfaces.cli.options import DIALECT, CommandSettings, exact_epsilon, with_settings
from dpsql.interfaces.cli.prices import insisted
from dpsql.interfaces.cli.shell_sessions import LocalSession, ShellSession
from dpsql.interfaces.cli.terminal import can_answer, columns
from dpsql.interfaces.doors import SHELL, Door
from dpsql.interfaces.messages import RemoteError, printable
from dpsql.interfaces.pictures.terminal_chart import picture
from dpsql.interfaces.tables import grid, table
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import DpsqlError, Refused
from dpsql.model.query_options import sensible
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import Answer, Request

_WELCOME = "dpsql shell as {analyst}. A statement ends with ; and \\? lists the commands."


@click.command()
@with_settings
@DIALECT
@click.option("-f", "--file", type=click.Path(dir_okay=False), help="Do what stands here, and end.")
@click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The ε of each query.")
@click.option(
    "--confirm-above",
    callback=exact_epsilon,
    metavar="E",
    help="Ask back before more; default the policy's confirm_above, or its query_epsilon.",
)
@click.option("--yes", is_flag=True, help="Never ask back, even about useless queries.")
@click.option("--connect", metavar="URL", help="Ask a server: postgresql://NAME@HOST:5439/dpsql.")
@click.pass_context
def shell(
    context: click.Context,
    settings: CommandSettings,
    *,
    dialect: str,
    file: str | None,
    epsilon: Decimal | None,
    confirm_above: Decimal | None,
    yes: bool,
    connect: str | None,
) -> None:
    r"""Answer statements one by one, each with its price first; \? lists the commands.

    A script, with -f or on stdin, ends at the first statement that fails.
    """
    if connect is not None:
        from dpsql.interfaces.cli.remote_session import connected  # noqa: PLC0415

        _require_local(context)
        try:
            with connected(connect) as remote:
                remote.at(epsilon)
                most = remote.confirm_above if confirm_above is None else confirm_above
                code = Shell(remote, most, yes=yes).entered(file)
        except RemoteError as error:
            code = terminal.show_message(error.message)
        context.exit(code)
    with settings.open(settings.policy) as proxy:
        analyst = proxy.analyst(settings.analyst)
        pot = proxy.policy.budget_of(analyst)
        assert pot is not None
        threshold = pot.query_epsilon if pot.confirm_above is None else pot.confirm_above
        most = threshold if confirm_above is None else confirm_above
        request = Request("", analyst, dialect, epsilon=epsilon, door="command line")
        code = Shell(LocalSession(proxy, request), most, yes=yes).entered(file)
    context.exit(code)


def _require_local(context: click.Context) -> None:
    """Raise UsageError for options that a server decides."""
    sources = {
        name: context.get_parameter_source(name) for name in ("policy", "analyst", "dialect")
    }
    wrong = [
        f"--{name}" for name, source in sources.items() if source is ParameterSource.COMMANDLINE
    ]
    if wrong:
        raise click.UsageError(f"{' and '.join(wrong)}: with --connect that is the server's.")


@dataclass(slots=True)
class Shell:
    """The shell over a `session`. It asks for confirmation above an ε of `most`, unless `yes`.

    `last` is the latest answer. Errors name the options of `door`.
    """

    session: ShellSession
    most: Decimal | None = None
    yes: bool = False
    last: Answer | None = None
    door: Door = SHELL

    def names(self) -> Completable:
        """Return the names for completion."""
        return replace(self.session.names(), commands=tuple(_COMMANDS))

    def entered(self, file: str | None) -> ExitCode:
        """Run a file, or stdin, or read from the terminal."""
        if file is not None or not sys.stdin.isatty():
            return self.script(file)
        return self.run(reader_of(cache(self.names)))

    def run(self, reader: LineReader) -> ExitCode:
        r"""Read and run until \q or the end of input. Ctrl-C drops a line or cancels a query."""
        terminal.note(_WELCOME.format(analyst=printable(self.session.analyst)))
        while True:
            try:
                text = reader.read(f"{printable(self.session.analyst)}=> ").strip()
            except EOFError:
                return ExitCode.ANSWERED
            except KeyboardInterrupt:
                click.echo(err=True)
                continue
            if text.rstrip("; ").lower() in LEAVE:
                return ExitCode.ANSWERED
            self.one(text)

    def script(self, file: str | None) -> ExitCode:
        """Run the statements of a file, or of stdin."""
        try:
            text = sys.stdin.read() if file is None else Path(file).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise click.UsageError(f"{printable(file or 'stdin')} cannot be read.") from None
        return self.lines(text)

    def lines(self, text: str) -> ExitCode:
        """Run the statements of a text, up to the first failure."""
        reader = ScriptLines(text.splitlines(keepends=True))
        while True:
            try:
                entered = reader.read("").strip()
            except EOFError:
                return ExitCode.ANSWERED
            if entered.rstrip("; ").lower() in LEAVE:
                return ExitCode.ANSWERED
            code = self.one(entered)
            if code is not ExitCode.ANSWERED:
                return code

    def one(self, text: str) -> ExitCode:
        """Run one command, or the statements of a text. Failures do not end the shell."""
        if text.startswith("\\") or text.lower().rstrip(";") == "help":
            return _guarded(lambda: self._command(text), text, self.door)
        try:
            statements = [piece.text for piece in pieces(text)]
        except Refused:
            statements = [text]  # whose refusal says where
        for sql in statements:
            code = _guarded(partial(self._ask, sql), sql, self.door)
            if code is not ExitCode.ANSWERED:
                return code
        return ExitCode.ANSWERED

    # --- statements ---

    def _ask(self, sql: str) -> None:
        """Show the price, the answer and its cost."""
        wish = read_listing(sql)
        if wish is not None:
            self._list(wish)
            return
        shown = self.session.free(sql)
        if shown is None:
            shown = self.session.ask(sql, confirmed=self._agreed(sql))
        if shown.answer is None:
            _page(shown.text)
        else:
            self.last = shown.answer
            _show(shown.answer, shown.remarks)
        if shown.cost:
            terminal.note(shown.cost)

    def _agreed(self, sql: str) -> bool:
        """Show the price of a statement, or ask for confirmation. Return whether it is
        confirmed.
        """
        if self.yes or not can_answer():
            return self.yes
        price = self.session.price(sql)
        if price is None:
            return False
        confirmed = insisted(price, self.most)
        if not (price.is_free or confirmed):
            terminal.note(f"price: {price}")
        return confirmed

    def _list(self, wish: Listing) -> None:
        _page(listing_text(self.session.listed(wish), columns(sys.stdout)))

    # --- commands ---

    def _command(self, text: str) -> None:
        name, _, rest = text.rstrip(";").strip().partition(" ")
        command = _COMMANDS.get("\\?" if name.lower() == "help" else name)
        if command is None:
            near = nearest(name, _COMMANDS)
            hint = "" if near is None else f"Did you mean {near}? "
            raise click.UsageError(f"There is no command {printable(name)}. {hint}\\? lists them.")
        command.run(self, rest.strip())

    def help(self, _rest: str) -> None:
        """List the commands."""
        rows = [(command.usage, command.about) for command in _COMMANDS.values()]
        _page("".join(f"{line}\n" for line in grid(rows)))

    def describe(self, name: str) -> None:
        """List the tables, or the columns of one."""
        wish = read_listing(f"DESCRIBE {name}" if name else "SHOW TABLES")
        if wish is None:
            raise click.UsageError(f"{printable(name)} is no name of a table.")
        self._list(wish)

    def tables(self, _rest: str) -> None:
        """List the tables."""
        self._list(Listing())

    def explain(self, sql: str) -> None:
        r"""Show the plan of a statement."""
        if not sql:
            raise click.UsageError("\\explain SELECT …")
        _page(self.session.plan(sql))

    def plot(self, sql: str) -> None:
        """Draw the latest answer, or the answer of a statement."""
        if sql:
            self._ask(sql)
        if self.last is None:
            raise click.UsageError("There is no answer yet: \\plot SELECT …")
        _page(picture(self.last, columns(sys.stdout)))

    def budget(self, _rest: str) -> None:
        """Show the remaining budget."""
        _page(self.session.budget())

    def history(self, _rest: str) -> None:
        """Show the charged queries."""
        _page(self.session.history())

    def epsilon(self, rest: str) -> None:
        """Set the ε of the following statements."""
        epsilon = None if rest in ("", "default") else _positive(rest)
        self.session.at(epsilon)
        terminal.note("the policy's ε" if epsilon is None else f"ε = {plain(epsilon)} from here on")

    def include(self, file: str) -> None:
        """Run the statements of a file."""
        if not file:
            raise click.UsageError("\\i FILE")
        raise click.exceptions.Exit(self.script(file))


def _guarded(call: Callable[[], None], sql: str, door: Door) -> ExitCode:
    """Run a call, and show its errors."""
    try:
        call()
    except (KeyboardInterrupt, click.Abort):
        terminal.note("given up")
        return ExitCode.CANCELLED
    except click.exceptions.Exit as ended:
        return ExitCode(ended.exit_code)
    except click.UsageError as error:
        terminal.note(error.message)
        return ExitCode.USAGE
    except RemoteError as error:
        return terminal.show_message(error.message)
    except DpsqlError as error:
        return terminal.show_error(error, sql, door)
    except Exception as error:  # noqa: BLE001 - told without its text, as everywhere
        return terminal.show_fault(error)
    return ExitCode.ANSWERED


def _show(answer: Answer, notices: tuple[str, ...]) -> None:
    """Show the rows and the notices."""
    drawn = table(answer, columns(sys.stdout))
    _page(drawn.text)
    for notice in (*notices, *drawn.notices):
        terminal.note(f"notice: {notice}")


def _page(text: str) -> None:
    """Show text, through a pager if it is longer than the screen."""
    text = terminal.encodable("\n".join(map(printable, text.split("\n"))), sys.stdout.encoding)
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def _positive(text: str) -> Decimal:
    try:
        epsilon = Decimal(text)
    except InvalidOperation:
        epsilon = Decimal(0)
    if not sensible(epsilon):
        raise click.UsageError("Give a positive number such as 0.1.")
    return epsilon


@dataclass(frozen=True, slots=True)
class _Command:
    """A command of the shell: its usage, its description, and its function."""

    usage: str
    about: str
    run: Callable[[Shell, str], None]


_COMMANDS: dict[str, _Command] = {
    row.usage.split()[0]: row
    for row in (
        _Command("\\?", "these commands", Shell.help),
        _Command("\\d [TABLE]", "the tables, or the columns of one", Shell.describe),
        _Command("\\dt", "the tables", Shell.tables),
        _Command("\\explain SELECT …", "price, expected error, proposals", Shell.explain),
        _Command("\\plot [SELECT …]", "the latest answer, or this one, as a picture", Shell.plot),
        _Command("\\budget", "the remaining budget", Shell.budget),
        _Command("\\history", "the charged queries", Shell.history),
        _Command("\\epsilon [E]", "the ε of each statement from here on", Shell.epsilon),
        _Command("\\i FILE", "the statements of a file, up to the first that fails", Shell.include),
        _Command("\\q", "leave", Shell.help),
    )
}
"""Commands by name. Leaving words are handled before."""
