"""The arithmetic of `benchmarks.accuracy`: errors, ratios, and peers that cannot answer."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import duckdb
import pytest

from benchmarks import environments
from benchmarks.accuracy import ours
from benchmarks.accuracy.errors import Error, error_of, ratio_of, scales_of
from benchmarks.accuracy.questions import EIGHT, QUESTIONS, Measure, Question
from benchmarks.environments import Peer, PeerFailedError

TRUTH = {"a": [10.0, 2.0], "b": [20.0, 4.0]}


def test_errors_are_over_all_cells_and_a_missing_group_counts_as_nothing() -> None:
    exact = error_of([TRUTH, TRUTH], TRUTH, (1.0, 1.0))
    assert exact == Error(0.0, 0.0, 0.0)
    off = error_of([{"a": [13.0, 2.0], "b": [20.0, 3.0]}], TRUTH, (1.0, 1.0))
    assert (off.mean, off.rms) == (1.0, math.sqrt(10 / 4))
    missing = error_of([{"a": [10.0, None]}], TRUTH, (1.0, None))
    assert missing.mean == 10.0
    assert error_of([{"a": [10.0, 4.0], "b": [20.0, 4.0]}], TRUTH, (None, 0.5)).mean == 2.0


def test_a_ratio_is_worse_only_beyond_its_sampling_error() -> None:
    ratio = ratio_of(Error(1.2, 0, 0.15), Error(1.0, 0, 0.05))
    assert ratio.value == 1.2
    assert not ratio.exceeds(1.0)
    assert ratio_of(Error(1.2, 0, 0.01), Error(1.0, 0, 0.01)).exceeds(1.0)
    assert ratio_of(Error(0.0, 0, 0), Error(0.0, 0, 0)).value == 1.0
    assert ratio_of(Error(0.1, 0, 0), Error(0.0, 0, 0)).exceeds(1.0)


def test_rows_of_many_measures_are_in_hundredths_of_their_ranges() -> None:
    eight = next(question for question in QUESTIONS if question.measures == EIGHT)
    scales = scales_of(eight, 0, 100)
    assert scales[:4] == (1.0, 125.0, 1.25, 125**2 / 400)
    grouped = next(question for question in QUESTIONS if len(question.rows) == 2)
    assert scales_of(grouped, 1, 100) == (None, 1.0)


def test_the_questions_are_those_of_the_acceptance_and_nine_deciles() -> None:
    counts = {question.name: len(question.measures) for question in QUESTIONS}
    assert sorted(counts.values()) == [1, 1, 1, 1, 1, 1, 2, 8, 9, 100]
    assert len(set(QUESTIONS[-1].measures)) == 100


@pytest.mark.full("opens a proxy for each item")
def test_our_answers_are_near_the_truth(tmp_path: Path) -> None:
    data = tmp_path / "adult.parquet"
    made = "SELECT i AS person_id, i % 90 AS age, i % 80 AS hours_per_week, 7 AS education_num"
    duckdb.connect().execute(f"COPY ({made} FROM range(20000) r(i)) TO '{data}' (FORMAT parquet)")
    question = Question(("n",), (Measure("count", "", ("age", ">=", 40)), Measure("mean", "age")))
    exact = ours.truth(question, data)
    assert list(exact[""]) == pytest.approx([11110, 44.4], rel=0.01)
    (released,) = ours.releases(question, data, 1)
    assert list(released[""]) == pytest.approx(list(exact[""]), rel=0.05)


def test_a_peer_that_does_not_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer("none", (), "benchmarks.peers.opendp")
    folder = tmp_path / peer.module / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    (tmp_path / peer.module / "installed").write_text("pyarrow\n")
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    with pytest.raises(PeerFailedError, match="opendp"):
        environments.output(environments.asked(peer, tmp_path, "no.parquet", "1"))
