"""One virtual environment for each peer, made when it is first needed and kept."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, what to install for it, and the module that asks it."""

    name: str
    packages: tuple[str, ...]
    module: str


class PeerFailedError(Exception):
    """A peer could not be installed or did not run; the message says why, in one line."""


def asked(peer: Peer, environments: Path, *words: str) -> list[str]:
    """The command that runs its module in its environment, from `ROOT` with `ENVIRONMENT`.

    Raises `PeerFailedError` where there can be no such environment.
    """
    folder = environments / peer.module
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join((*peer.packages, "pyarrow", ""))
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True)
        output([str(python), "-m", "pip", "install", "-q", *peer.packages, "pyarrow"])
        done.write_text(wanted)
    return [str(python), "-W", "ignore", "-m", peer.module, *words]


def output(command: list[str]) -> str:
    """What it prints. Raises `PeerFailedError` where it fails."""
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=ENVIRONMENT
    )
    if done.returncode:
        raise PeerFailedError(last_line(done.stderr))
    sys.stderr.write(done.stderr)
    return done.stdout


def last_line(errors: str) -> str:
    """What a program said last."""
    return next(reversed(errors.strip().splitlines()), "no message")[:200]
