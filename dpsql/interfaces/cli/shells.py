"""`dpsql completion`: the shell's own completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script: eval "$(dpsql completion bash)" in your shell's start file."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "dpsql", "_DPSQL_COMPLETE").source())
