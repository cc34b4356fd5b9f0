"""Output of results: stdout, or a file that appears complete or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dpsql.interfaces.cli.terminal import encodable
from dpsql.interfaces.messages import printable

Write = Callable[[str | bytes], None]


@contextmanager
def output(path: str | None, mode: int = 0o666) -> Iterator[Write]:
    """Return a function that writes the result. It opens first, so a bad path costs nothing.

    A new file has this `mode`, minus the process mask. A regular file is written under a temporary
    name and renamed, so a failure keeps the old one. Raises click.BadParameter if the file cannot
    be written.
    """
    if path is None or path == "-":
        yield _to_stdout
        return
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # Pipes and devices are written directly; renaming a file over them would destroy them.
        with _opened(target, os.O_WRONLY, mode) as write:
            yield write
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _opened(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as write:
            yield write
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path, flags: int, mode: int) -> Iterator[Write]:
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        raise click.BadParameter(f"{path.parent}: {error.strerror}", param_hint="-o") from None
    with os.fdopen(descriptor, "wb") as file:
        yield lambda content: _put(file.write, content)
        file.flush()
        if path.is_file():
            os.fsync(file.fileno())


def _put(write: Callable[[bytes], int], content: str | bytes) -> None:
    write(content.encode() if isinstance(content, str) else content)


def _to_stdout(content: str | bytes) -> None:
    if isinstance(content, bytes):
        click.echo(content, nl=False)
        return
    if sys.stdout.isatty():
        # Values may hold control characters that a terminal would execute.
        content = "\n".join(printable(line) for line in content.split("\n"))
    click.echo(encodable(content, sys.stdout.encoding), nl=False)
