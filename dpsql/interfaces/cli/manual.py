"""`dpsql help`: the pages of `dpsql/docs`, formatted for a terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files

import click
from click.shell_completion import CompletionItem, get_completion_class

from dpsql.interfaces.cli.markdown import Page
from dpsql.interfaces.cli.terminal import encodable, use_color
from dpsql.interfaces.tables import grid
from dpsql.model.errors import Reason

TOPICS = (
    *("guarantee", "policy", "choosing", "roles", "risk", "sql", "dialects", "answers", "reuse"),
    *("methods", "watch", "synthetic", "models", "local"),
    *("cookbook", "sizes", "faq", "glossary", "troubleshooting", "errors", "commands"),
    *("dbapi", "api", "sqlalchemy", "postgres", "http", "mcp", "deployment", "databases"),
    *("upgrade", "ledger", "renewals", "periods", "report", "publish", "stability", "peers"),
)
"""Pages in the best order of reading."""

_REASONS = tuple(reason.value for reason in Reason)
_WIDEST = 100


def page(topic: str) -> str:
    """Return the text of a page."""
    return (files("dpsql") / "docs" / f"{topic}.md").read_text(encoding="utf-8")


def title(topic: str) -> str:
    """Return the title of a page.

    >>> title("policy")
    'The policy'
    """
    return page(topic).partition("\n")[0].removeprefix("# ")


def _names(context: click.Context) -> list[str]:
    """Return all topics: pages, commands, and reasons of refusals."""
    root = context.find_root().command
    assert isinstance(root, click.Group)
    return [*TOPICS, *root.commands, *_REASONS]


def _complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _names(context) if name.startswith(begun)]


@click.command("help")
@click.argument("topic", required=False, shell_complete=_complete)
@click.pass_context
def manual(context: click.Context, topic: str | None) -> None:
    """Read a page of the manual: TOPIC, a reason of a refusal or a command; or the list."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    if topic is None:
        lines = grid([(name, title(name)) for name in TOPICS])
        click.echo(encodable("\n".join(["Topics:", *lines]), sys.stdout.encoding))
        click.echo("\nRead one with dpsql help TOPIC. Options of a command: dpsql COMMAND --help.")
    elif topic in TOPICS:
        _show(page(topic))
    elif topic in _REASONS:
        _show("\n".join(_reason(topic)))
    elif command := root.command.get_command(root, topic):
        with click.Context(command, info_name=topic, parent=root) as inner:
            click.echo(command.get_help(inner))
    elif section := "\n".join(_section(topic)):
        _show(section)
    else:
        near = get_close_matches(topic, _names(context), 1)
        advice = f"Did you mean {near[0]}?" if near else "For all that is there: dpsql help."
        raise click.BadParameter(f"There is no page {topic}. {advice}", param_hint="TOPIC")


def _reason(topic: str) -> Iterator[str]:
    """Yield the table row of a reason, with the head of its table."""
    lines = page("errors").splitlines()
    row = next(n for n, line in enumerate(lines) if line.startswith(f"| `{topic}` |"))
    head = max(n for n, line in enumerate(lines[:row]) if line.startswith("|---"))
    yield from (lines[head - 1], lines[head], lines[row])


def _section(topic: str) -> Iterator[str]:
    """Yield the first section of a page with this word in its heading."""
    for name in TOPICS:
        lines = page(name).splitlines()
        heads = [n for n, line in enumerate(lines) if line.startswith("## ")]
        for n, end in zip(heads, [*heads, len(lines)][1:], strict=True):
            if topic.lower() in re.findall(r"[a-z_]+", lines[n].lower()):
                yield from (*lines[n:end], f"More: dpsql help {name}")
                return


def _show(text: str) -> None:
    """Show a page on stdout, through a pager if the terminal is too small."""
    size, seen = shutil.get_terminal_size(), sys.stdout.isatty()
    styled = seen and use_color() is not False
    shown = "".join(f"{line}\n" for line in Page(min(size.columns, _WIDEST), styled).lines(text))
    shown = encodable(shown, sys.stdout.encoding)
    if seen and shown.count("\n") >= size.lines:
        click.echo_via_pager(shown, color=styled)
    else:
        click.echo(shown, nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script: eval "$(dpsql completion bash)" in your shell's start file."""
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(shell_class(context.find_root().command, {}, "dpsql", "_DPSQL_COMPLETE").source())
