"""Input of the shell: by prompt_toolkit (extra `shell`), else by readline and input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from dpsql.dialects.postgres.words import words
from dpsql.interfaces.cli.completions import Completable, completions
from dpsql.model.errors import Refused

MORE = "... "
"""Prompt of the further lines of a statement."""
LEAVE = frozenset({"\\q", "exit", "quit"})


class LineReader(Protocol):
    """Reader of one statement or command at a time."""

    def read(self, prompt: str) -> str:
        """Read the next input. Raises EOFError at the end, and KeyboardInterrupt if dropped."""


def is_whole(text: str) -> bool:
    r"""Test whether the input is complete: a command, or a text that ends with a semicolon.

    >>> [is_whole(text) for text in (r"\dt", "SELECT 1", "SELECT 1;", "SELECT ';", "quit", " ")]
    [True, False, True, False, True, True]
    """
    plain = text.strip()
    if not plain or plain.startswith("\\") or plain.lower() in {*LEAVE, "help"}:
        return True
    try:
        read = list(words(plain))
    except Refused:
        return False  # a quote is open
    return not read or read[-1].text == ";"


def reader_of(names: Callable[[], Completable]) -> LineReader:
    """Return the best available reader of a terminal."""
    if find_spec("prompt_toolkit") is not None:
        return _Rich(names, _history("history"))
    return _WithReadline(names, _history("readline"))


def _history(name: str) -> Path | None:
    """Return the file of the input history, readable only by its user; None if impossible."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "dpsql" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=True)
    except OSError:
        return None
    return path


class ScriptLines:
    """The lines of a script, as statements and commands."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def read(self, prompt: str) -> str:
        """Return the next statement or command. The end of input ends a statement too."""
        del prompt
        text = ""
        for line in self._lines:
            text += line
            if text.strip() and is_whole(text):
                return text
        if not text.strip():
            raise EOFError
        return text


class _WithReadline:
    """Reader by input(), with history and completion of the standard library if available."""

    def __init__(self, names: Callable[[], Completable], past: Path | None) -> None:
        self._names, self._past = names, past
        self._readline: Any = None
        if find_spec("readline") is None:
            return
        import readline  # noqa: PLC0415

        self._readline = readline
        readline.set_completer_delims(" \t\n,()=")
        readline.set_completer(self._complete)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        if past is not None and past.stat().st_size:
            readline.read_history_file(past)

    def read(self, prompt: str) -> str:
        text = input(prompt)
        while not is_whole(text):
            text += "\n" + input(MORE.rjust(len(prompt)))
        if self._readline is not None and self._past is not None:
            self._readline.write_history_file(self._past)
        return text

    def _complete(self, _text: str, state: int) -> str | None:
        """Return candidate number `state` for the word that readline replaces."""
        begin = self._readline.get_begidx()
        line = self._readline.get_line_buffer()[: self._readline.get_endidx()]
        texts = [
            line[begin : len(line) - replaced] + text
            for text, replaced in completions(self._names(), line)
            if replaced <= len(line) - begin
        ]
        return texts[state] if state < len(texts) else None


class _Rich:
    """Reader by prompt_toolkit, with completion, multiple lines, and history search."""

    def __init__(self, names: Callable[[], Completable], past: Path | None) -> None:
        from prompt_toolkit import PromptSession  # noqa: PLC0415
        from prompt_toolkit.application import get_app  # noqa: PLC0415
        from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415
        from prompt_toolkit.filters import Condition  # noqa: PLC0415
        from prompt_toolkit.history import FileHistory, InMemoryHistory  # noqa: PLC0415

        class Declared(Completer):
            def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
                del complete_event
                for text, replaced in completions(names(), document.text_before_cursor):
                    yield Completion(text, -replaced)

        self._session: Any = PromptSession(
            history=InMemoryHistory() if past is None else FileHistory(str(past)),
            completer=Declared(),
            complete_while_typing=False,
            multiline=Condition(lambda: not is_whole(get_app().current_buffer.text)),
            prompt_continuation=lambda width, _line, _soft: MORE.rjust(width),
        )

    def read(self, prompt: str) -> str:
        return str(self._session.prompt(prompt))
