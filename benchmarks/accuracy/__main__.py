"""Error at equal (ε, δ) of dpsql and of its peers, each in an environment of its own.

    python -m benchmarks.accuracy adult.parquet [RELEASES [ENVIRONMENTS]]

`adult.parquet` is the UCI Adult extract with columns person_id, age, education, .... Every
participant may spend (1, 1e-6) on each question, protects one row, and clips to the same bounds.
Of a peer's configurations the one with the least error counts. A slow peer gives fewer releases:
the second table says how many. The environments are made in a folder of the system's for temporary
files unless another is named.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.accuracy import ours
from benchmarks.accuracy.errors import Error, error_of, ratio_of, scales_of
from benchmarks.accuracy.questions import DELTA, EPSILON, QUESTIONS, Question
from benchmarks.common import table
from benchmarks.environments import Peer, PeerFailedError, asked, output
from dpsql.model.errors import Refused

PEERS = tuple(
    Peer(name, packages, f"benchmarks.accuracy.peers.{module}")
    for name, packages, module in (
        ("OpenDP", ("opendp>=0.14", "numpy"), "opendp"),
        ("SmartNoise SQL", ("smartnoise-sql>=1.0", "pandas<3"), "smartnoise"),
        # Its tree imports a name that later versions of scikit-learn do not have.
        ("diffprivlib", ("diffprivlib>=0.6", "scikit-learn<1.7"), "diffprivlib"),
        ("PyDP", ("python-dp>=1.1", "numpy"), "pydp"),
    )
)

Cell = tuple[Error, str]
"""The error of a row, and how it was reached."""


def main() -> None:
    data = Path(sys.argv[1])
    releases = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    temporary = Path(tempfile.gettempdir()) / "dpsql-peers"
    environments = Path(sys.argv[3]) if len(sys.argv) > 3 else temporary
    peers = {peer.name: _asked(peer, environments, data, releases) for peer in PEERS}
    summary, details = [], []
    for question in QUESTIONS:
        cells = {"dpsql": _ours(question, data, releases)}
        cells |= {name: _theirs(question, data, given) for name, given in peers.items()}
        for n, row in enumerate(question.rows):
            found = {name: cell[n] for name, cell in cells.items() if not isinstance(cell, str)}
            summary.append(_summary(question, row, found))
            details += [_detail(row, name, cell, n) for name, cell in cells.items()]
    title = (
        f"Mean |error| on {data.name}, ε = {EPSILON:g}, δ = {DELTA:g}, up to {releases} releases"
    )
    header: tuple[str, ...] = ("question", "dpsql", "best peer", "which", "ratio", "promised", "")
    table(title, header, summary)
    header = ("question", "participant", "mean |error|", "±", "RMSE", "how, or why not")
    table("Every participant", header, details)


def _asked(peer: Peer, environments: Path, data: Path, releases: int) -> dict[str, Any] | str:
    """What a peer answers to every question, as its script prints it, or why it does not."""
    print(f"asking {peer.name}", file=sys.stderr)
    try:
        command = asked(peer, environments, str(data.resolve()), str(releases))
        printed = output(command)
    except PeerFailedError as error:
        return f"does not run: {error}"
    answer: dict[str, Any] = json.loads(printed)
    return answer


def _ours(question: Question, data: Path, releases: int) -> list[Cell] | str:
    try:
        released = ours.releases(question, data, releases)
    except Refused as refusal:
        return f"refused: {refusal.reason.value}"
    return _cells(question, data, [(f"accountant {question.accountant}", released)])


def _theirs(question: Question, data: Path, given: dict[str, Any] | str) -> list[Cell] | str:
    if isinstance(given, str):
        return given
    answer = given[question.name]
    if "why" in answer:
        return str(answer["why"])
    return _cells(question, data, [(way["how"], way["releases"]) for way in answer["ways"]])


def _cells(question: Question, data: Path, ways: list[tuple[str, list[Any]]]) -> list[Cell]:
    """For each row the way with the least error."""
    exact, count = ours.truth(question, data), ours.rows(data)
    return [
        min(
            (
                (
                    error_of(released, exact, scales_of(question, n, count)),
                    f"{how}; {len(released)} releases",
                )
                for how, released in ways
            ),
            key=lambda cell: cell[0].mean,
        )
        for n in range(len(question.rows))
    ]


def _summary(question: Question, row: str, found: dict[str, Cell]) -> tuple[object, ...]:
    peers = {name: error for name, (error, _) in found.items() if name != "dpsql"}
    best = min(peers, key=lambda name: peers[name].mean, default="")
    if "dpsql" not in found or not best:
        return (
            row,
            "-",
            peers[best].mean if best else "-",
            best,
            "-",
            question.promised,
            "MISSING",
        )
    mine = found["dpsql"][0]
    ratio = ratio_of(mine, peers[best])
    shown = f"{ratio.value:.2f} ± {ratio.spread:.2f}"
    verdict = "WORSE" if ratio.exceeds(question.promised) else "holds"
    return (row, mine.mean, peers[best].mean, best, shown, question.promised, verdict)


def _detail(row: str, name: str, cell: list[Cell] | str, n: int) -> tuple[object, ...]:
    if isinstance(cell, str):
        return (row, name, "-", "-", "-", cell)
    error, how = cell[n]
    return (row, name, error.mean, error.spread, error.rms, how)


if __name__ == "__main__":
    main()
