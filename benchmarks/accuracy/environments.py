"""One virtual environment for each peer, made when it is first needed and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, what to install for it, and the module that asks it."""

    name: str
    packages: tuple[str, ...]
    module: str


PEERS = (
    Peer("OpenDP", ("opendp>=0.14", "numpy"), "opendp"),
    Peer("SmartNoise SQL", ("smartnoise-sql>=1.0", "pandas<3"), "smartnoise"),
    # Its tree imports a name that later versions of scikit-learn do not have.
    Peer("diffprivlib", ("diffprivlib>=0.6", "scikit-learn<1.7"), "diffprivlib"),
    Peer("PyDP", ("python-dp>=1.1", "numpy"), "pydp"),
)


class PeerFailedError(Exception):
    """A peer could not be installed or did not run; the message says why, in one line."""


def answers(peer: Peer, environments: Path, data: Path, releases: int) -> dict[str, Any]:
    """What a peer answers to every question, as its script prints it.

    Raises `PeerFailedError`.
    """
    python = _installed(peer, environments / peer.module)
    module = f"benchmarks.accuracy.peers.{peer.module}"
    command = [str(python), "-W", "ignore", "-m", module, str(data.resolve()), str(releases)]
    answer: dict[str, Any] = json.loads(_output(command))
    return answer


def _installed(peer: Peer, folder: Path) -> Path:
    """The Python of the peer's environment."""
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join((*peer.packages, "pyarrow", ""))
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True)
        _output([str(python), "-m", "pip", "install", "-q", *peer.packages, "pyarrow"])
        done.write_text(wanted)
    return python


def _output(command: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    if done.returncode:
        raise PeerFailedError(next(reversed(done.stderr.strip().splitlines()), "no message")[:200])
    sys.stderr.write(done.stderr)
    return done.stdout
