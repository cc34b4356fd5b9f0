"""Options shared by the commands, and functions that open the proxy."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.query_options import sensible
from dpsql.model.system_table import load_value
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS

if TYPE_CHECKING:
    from dpsql.engines import Engine
    from dpsql.policy.draft import Draft
    from dpsql.proxy import Proxy

Command = TypeVar("Command", bound=Callable[..., Any])


def open_proxy(path: str) -> Proxy:
    """Open the proxy. Its engine starts while the compiler is imported."""
    with _staying():
        draft, engine = _started(path)
        from dpsql.proxy import Proxy  # noqa: PLC0415

        return Proxy.over(draft, engine)


def open_server(path: str) -> Proxy:
    """Open a proxy for many clients, which compiles in separate processes."""
    draft, engine = _started(path)
    from dpsql.preparation.compile_workers import CompilerPool  # noqa: PLC0415
    from dpsql.proxy import Proxy  # noqa: PLC0415

    most = max(2, draft.server.workers)  # one is never one analyst's alone
    return Proxy.over(draft, engine, partial(CompilerPool, engine=engine, most=most))


def publish_reports(path: str) -> Iterator[tuple[str, int]]:
    """Publish collected reports of a policy. Yields each table with new rows, and their number."""
    from dpsql.policy.load import load  # noqa: PLC0415

    yield from load_value("publish")(load(path))


def _started(path: str) -> tuple[Draft, Engine]:
    """Return a policy and its engines."""
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.preparation.engine_kinds import pooled  # noqa: PLC0415

    draft = load(path)
    return draft, pooled(draft)


@contextmanager
def _staying() -> Iterator[None]:
    """Exclude modules imported in this context from garbage collection."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """Settings of every command: policy file, analyst, and functions that open the proxy.

    `open` serves one analyst, and `open_server` many. `publish` turns collected reports into
    rows.
    """

    policy: str = "dpsql.toml"
    analyst: str | None = None
    open: Callable[[str], Proxy] = open_proxy
    open_server: Callable[[str], Proxy] = open_server
    publish: Callable[[str], Iterable[tuple[str, int]]] = publish_reports

    def with_options(self, policy: str | None, analyst: str | None) -> CommandSettings:
        """Return the settings, overridden by options of the command."""
        return replace(self, policy=policy or self.policy, analyst=analyst or self.analyst)


_WHOLE = 1_000
"""Length limit above any sentence, so that help texts are never cut."""


class Group(click.Group):
    """Group of commands that lists each with its whole first sentence."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands under one title."""
        self.list_commands_of(context, formatter, "Commands", self.list_commands(context))

    def list_commands_of(
        self,
        context: click.Context,
        formatter: click.HelpFormatter,
        title: str,
        names: Iterable[str],
    ) -> None:
        """Write some commands under a title."""
        with formatter.section(title):
            commands = [(name, self.get_command(context, name)) for name in names]
            lines = [(name, c.get_short_help_str(_WHOLE)) for name, c in commands if c]
            formatter.write_dl(lines, col_max=12)


_POLICY = click.option("--policy", metavar="FILE", help="The policy; default dpsql.toml.")
_ANALYST = click.option(
    "--analyst", metavar="NAME", help="Who asks; default DPSQL_ANALYST, or the only analyst."
)


def common(command: Command) -> Command:
    """Add --policy and --analyst, which may also stand before the command name."""
    return _POLICY(_ANALYST(command))


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --policy and --analyst. The command receives its settings."""
    return _ANALYST(with_policy(command))


def with_policy(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add only --policy, for commands without an analyst. The command receives its settings."""

    @_POLICY
    @click.pass_context
    @wraps(command)
    def run(
        context: click.Context,
        /,
        policy: str | None,
        analyst: str | None = None,
        **options: Any,
    ) -> Any:
        settings = context.ensure_object(CommandSettings)
        return command(settings.with_options(policy, analyst), **options)

    return run


DIALECT = click.option(
    "--dialect",
    type=click.Choice(SPELLINGS),
    default=DEFAULT_SPELLING,
    show_default=True,
    help="The spelling of the SQL.",
)


def written_as(help_text: str, *styles: str) -> Callable[[Command], Command]:
    """Add --format. The first style is the default."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(styles),
        default=styles[0],
        show_default=True,
        help=help_text,
    )


def with_picture(help_text: str) -> Callable[[Command], Command]:
    """Add --plot: a file that can be written, before anything is charged."""
    about = f"{help_text}: .svg, or .png with the extra dpsql[png]."
    return click.option("--plot", "picture", metavar="FILE", callback=_picture, help=about)


def _picture(_context: click.Context, _option: click.Parameter, name: str | None) -> Path | None:
    from dpsql.interfaces.pictures import drawings, png_chart  # noqa: PLC0415

    path = None if name is None else Path(name)
    if path is not None and path.suffix not in drawings.PICTURES:
        endings = ", ".join(drawings.PICTURES)
        raise click.UsageError(f"--plot takes a file that ends with {endings}.")
    if path is not None and path.suffix == ".png":
        png_chart.require_png()
    return path


def exact_epsilon(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> Decimal | None:
    """Parse an exact positive decimal. NaN, infinity, zero and negative numbers are usage
    errors.
    """
    if text is None:
        return None
    try:
        epsilon = Decimal(text)
    except InvalidOperation:
        raise click.BadParameter("give a decimal number such as 0.1") from None
    if not sensible(epsilon):
        raise click.BadParameter("give a positive number such as 0.1")
    return epsilon
