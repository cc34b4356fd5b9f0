"""Access to the terminal: errors, colour, progress and Ctrl-C."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import PurePath
from threading import Event, Thread
from time import monotonic
from typing import TextIO, TypeVar

import click

from dpsql.interfaces.doors import COMMAND_LINE, Door
from dpsql.interfaces.messages import Message, describe
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import DpsqlError

Result = TypeVar("Result")

_TICK_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0
_SUBSTITUTES = {"±": "+/-", "─": "-", "…": "...", "ε": "epsilon", "δ": "delta", "ρ": "rho"}
_STROKES = str.maketrans("█▉▊▋▌▍▎▏▐├┤┼│└●◆▲■○◇△□░▒▓·", "#########||+|+*xv#oyns.:%.")


def use_color() -> bool | None:
    """Return False if NO_COLOR is set (no-color.org); None lets click decide."""
    return False if os.environ.get("NO_COLOR") else None


def encodable(text: str, encoding: str | None) -> str:
    """Return a text that an encoding can represent, with substitutes.

    >>> encodable("5 ± 1", "ascii"), encodable("5 ± 1", "utf-8")
    ('5 +/- 1', '5 ± 1')
    """
    encoding = encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for sign, words in _SUBSTITUTES.items():
            text = text.replace(sign, words)
        text = text.translate(_STROKES)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def can_answer() -> bool:
    """Test whether the user can answer on a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal of a stream; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def note(text: str) -> None:
    """Write lines to stderr. On a terminal they are wrapped between words, except for SQL
    excerpts.
    """
    room = columns(sys.stderr)
    lines = text.split("\n")
    if room is not None:
        lines = [
            line if line.startswith(" ") else click.wrap_text(line, room, subsequent_indent="  ")
            for line in lines
        ]
    click.echo(encodable("\n".join(lines), sys.stderr.encoding), err=True)


def show_error(error: DpsqlError, sql: str = "", door: Door = COMMAND_LINE) -> ExitCode:
    """Show an error on stderr, and return its exit code."""
    return show_message(describe(error, sql, door))


def show_message(message: Message) -> ExitCode:
    """Show the message of an error on stderr, and return its exit code."""
    code, rest = message.code, str(message)[len(message.code) :]
    for label in ("why:", "fix:", "try:"):
        rest = rest.replace(f"\n{label}", f"\n{click.style(label, bold=True)}")
    note(click.style(code, fg="red", bold=True) + rest)
    return message.exit_code


def show_fault(error: Exception) -> ExitCode:
    """Show that dpsql itself failed and where. The exception's text is left out: it may hold
    data.
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "dpsql" in f.filename]
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    note(f"fault: dpsql failed ({type(error).__name__}{where}). What was charged stays charged.")
    return ExitCode.UNREACHABLE


class Progress:
    """Elapsed time on stderr: only on a terminal, and only after one second."""

    def __init__(self) -> None:
        self._since, self._shown, self._visible = monotonic(), "", sys.stderr.isatty()

    def tick(self) -> None:
        """Show the elapsed seconds, if it is time."""
        elapsed = monotonic() - self._since
        if self._visible and elapsed >= _PATIENCE_SECONDS:
            self._shown = f"running {elapsed:.0f} s, Ctrl-C cancels"
            click.echo(f"\r{self._shown}", err=True, nl=False)

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            click.echo(f"\r{' ' * len(self._shown)}\r", err=True, nl=False)


class Bar(Progress):
    """Progress bar on stderr if it is a terminal. `done` returns the share from 0 to 1."""

    WIDTH = 30

    def __init__(self, title: str, done: Callable[[], float]) -> None:
        super().__init__()
        self._title, self._done = title, done

    def tick(self) -> None:
        """Show the progress."""
        self.show(self._title, self._done())

    def show(self, title: str, done: float) -> None:
        """Show the progress of a step, in the place of what is shown."""
        if self._visible:
            full = round(done * self.WIDTH)
            self.clear()
            self._shown = f"{title} [{'#' * full:<{self.WIDTH}}] {done:.0%}"
            click.echo(f"\r{self._shown}", err=True, nl=False)


def interruptible(
    call: Callable[[], Result], cancel: Callable[[], None], progress: Progress
) -> tuple[Result, bool]:
    """Run `call` in a thread, cancelled by Ctrl-C in order. Return its result and whether
    cancelled.

    The ledger is never interrupted halfway. The first Ctrl-C calls `cancel` until the call ends,
    and a second one stops waiting. Raises the errors of `call`, or KeyboardInterrupt.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    done, cancelled = Event(), False

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
        finally:
            done.set()

    Thread(target=work, daemon=True).start()
    while not done.is_set():
        try:
            done.wait(_TICK_SECONDS)
            progress.tick()
            if cancelled and not done.is_set():
                cancel()
        except KeyboardInterrupt:
            if cancelled:
                raise
            cancelled = True
    progress.clear()
    if errors:
        # Cancelled before anything was charged, so there is no query to name.
        if cancelled and not isinstance(errors[0], DpsqlError):
            raise KeyboardInterrupt
        raise errors[0]
    return results[0], cancelled
