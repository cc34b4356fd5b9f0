"""The edge to the terminal: errors, colour, progress and Ctrl-C."""

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
    """False where NO_COLOR is set (no-color.org); None lets click ask the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def encodable(text: str, encoding: str | None) -> str:
    """Text that an output of this encoding can say.

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
    """Whether somebody is there to be asked back."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def columns(stream: TextIO) -> int | None:
    """How wide the terminal is that a stream writes to, None where it writes elsewhere."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def note(text: str) -> None:
    """Lines for people, on stderr; on a terminal they break between words, excerpts of SQL not."""
    room = columns(sys.stderr)
    lines = text.split("\n")
    if room is not None:
        lines = [
            line if line.startswith(" ") else click.wrap_text(line, room, subsequent_indent="  ")
            for line in lines
        ]
    click.echo(encodable("\n".join(lines), sys.stderr.encoding), err=True)


def show_error(error: DpsqlError, sql: str = "", door: Door = COMMAND_LINE) -> ExitCode:
    """Tells an error on stderr; returns its exit code."""
    return show_message(describe(error, sql, door))


def show_message(message: Message) -> ExitCode:
    """Tells what is said of an error on stderr; returns its exit code."""
    code, rest = message.code, str(message)[len(message.code) :]
    for label in ("why:", "fix:"):
        rest = rest.replace(f"\n{label}", f"\n{click.style(label, bold=True)}")
    note(click.style(code, fg="red", bold=True) + rest)
    return message.exit_code


def show_fault(error: Exception) -> ExitCode:
    """Tells that dpsql itself failed and where in its code; an exception's text may hold data."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "dpsql" in f.filename]
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    note(f"fault: dpsql failed ({type(error).__name__}{where}). What was charged stays charged.")
    return ExitCode.UNREACHABLE


class Progress:
    """Elapsed time on stderr: only on a terminal, and only for what takes more than a second."""

    def __init__(self) -> None:
        self._since, self._shown, self._visible = monotonic(), "", sys.stderr.isatty()

    def tick(self) -> None:
        """Show the seconds so far, if it is time."""
        elapsed = monotonic() - self._since
        if self._visible and elapsed >= _PATIENCE_SECONDS:
            self._shown = f"running {elapsed:.0f} s, Ctrl-C cancels"
            click.echo(f"\r{self._shown}", err=True, nl=False)

    def clear(self) -> None:
        """Take the line away again."""
        if self._shown:
            click.echo(f"\r{' ' * len(self._shown)}\r", err=True, nl=False)


class Bar(Progress):
    """How far `done`, from 0 to 1, something is, as a bar on stderr where that is a terminal."""

    WIDTH = 30

    def __init__(self, title: str, done: Callable[[], float]) -> None:
        super().__init__()
        self._title, self._done = title, done

    def tick(self) -> None:
        """Show how far it is."""
        if self._visible:
            done = self._done()
            full = round(done * self.WIDTH)
            self._shown = f"{self._title} [{'#' * full:<{self.WIDTH}}] {done:.0%}"
            click.echo(f"\r{self._shown}", err=True, nl=False)


def interruptible(
    call: Callable[[], Result], cancel: Callable[[], None], progress: Progress
) -> tuple[Result, bool]:
    """Runs `call` in a thread so that Ctrl-C cancels it in order; also says whether it did.

    The ledger is never interrupted halfway: the first Ctrl-C asks for `cancel` until the call
    ends, a second one stops waiting. Raises what `call` raises, or KeyboardInterrupt.
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
        # Cancelled before anything was charged: there is no query to name.
        if cancelled and not isinstance(errors[0], DpsqlError):
            raise KeyboardInterrupt
        raise errors[0]
    return results[0], cancelled
