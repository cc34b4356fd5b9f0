"""People who answer: once, by the law, within their budget."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date
from decimal import Decimal
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import main
from dpsql.mechanisms.randomized_response import best, exp_down, randomized, report, two_coins
from dpsql.model.local_reports import LocalMechanism
from dpsql.systems.local import respondent
from dpsql.systems.local.questions import LocalQuestion
from dpsql.systems.local.respondent import OverBudget, Respondent
from grammar_tests.test_randomized_columns import POLICY

BRIBE = LocalQuestion("bribe", ("yes", "no"), two_coins(2))
JOB = LocalQuestion("job", tuple("abcd"), randomized(LocalMechanism.OUE, 4, Decimal(1)), days=30)


def test_a_question_is_answered_once_and_then_told_again() -> None:
    """Asked daily, fresh draws would be averaged out: the twin that forgets tells the truth."""
    person = Respondent(Decimal(2))
    assert {person.answer(BRIBE, "yes") for _ in range(100)} == {person.answer(BRIBE, "no")}
    assert person.left == Decimal(2) - BRIBE.epsilon
    forgetful = Counter(Respondent(Decimal(2)).answer(BRIBE, "yes") for _ in range(400))
    assert 250 < forgetful["yes"] < 350


def test_words_of_the_last_incomplete_run_are_drawn_again() -> None:
    """Of three values a report is one of six places, and 2^32 is no multiple of six."""
    words = iter([2**32 - 4, 2**32 - 1, 5])
    drawn = report(two_coins(3), 0, lambda count: next(words).to_bytes(count, "big"))
    assert (drawn, list(words)) == (2, [])
    assert (2**32 - 4) % 6 == 0  # the twin that takes it tells the truth


def test_the_memory_is_json_without_the_truth() -> None:
    person = Respondent(Decimal(3), take=lambda n: bytes([255, 255, 255, 255])[:n])
    told = person.answer(BRIBE, "yes")
    assert told == "no"
    again = Respondent(Decimal(3), json.loads(json.dumps(person.memory)))
    assert (again.answer(BRIBE, "yes"), again.left) == (told, person.left)
    assert [set(each) for each in person.memory["reports"].values()] == [{"report", "day"}]


def test_what_one_survey_was_told_another_is_not() -> None:
    """Memory is kept by table, question and law: none is forgotten, none is told elsewhere."""
    first = Respondent(Decimal(9), take=bytes, table="one")
    assert first.answer(BRIBE, "no") == "no"
    second = Respondent(Decimal(9), first.memory, lambda n: bytes([3] * n), table="two")
    assert second.answer(BRIBE, "no") == "yes"
    other = LocalQuestion("bribe", ("yes", "no"), best(2, Decimal(1)))
    second.answer(other, "no")
    left = second.left
    assert (first.answer(BRIBE, "yes"), second.answer(BRIBE, "no")) == ("no", "yes")
    assert second.left == left == Decimal(9) - 2 * BRIBE.epsilon - other.epsilon


def test_a_memory_of_earlier_versions_is_of_the_table_that_asks_first() -> None:
    earlier = {"report": "no", "question": BRIBE.as_json(), "day": "2026-01-01"}
    memory = {"spent": str(BRIBE.epsilon), "answers": {"bribe": earlier}}
    person = Respondent(Decimal(9), memory, bytes, table="one")
    assert person.answer(BRIBE, "yes") == "no"
    assert person.left == Decimal(9) - BRIBE.epsilon
    assert Respondent(Decimal(9), memory, bytes, table="two").answer(BRIBE, "yes") == "yes"
    assert person.answer(BRIBE, "yes") == "no"


def test_epsilon_adds_up_over_questions_and_nothing_is_drawn_beyond() -> None:
    person = Respondent(Decimal("2.0"))
    person.answer(BRIBE, "no")
    with pytest.raises(OverBudget):
        person.answer(JOB, "a")
    assert len(person.memory["reports"]) == 1
    assert Respondent(BRIBE.epsilon + JOB.epsilon, person.memory).answer(JOB, "a")


def test_what_is_asked_anew_is_charged_anew() -> None:
    """After the days that the policy says, and where its law has changed."""
    day = [date(2026, 1, 1)]
    person = Respondent(Decimal("2.5"), today=lambda: day[0])
    person.answer(JOB, "a")
    day[0] = date(2026, 1, 30)
    person.answer(JOB, "a")
    assert person.left == Decimal("2.5") - JOB.epsilon
    day[0] = date(2026, 1, 31)
    person.answer(JOB, "a")
    assert person.left == Decimal("2.5") - 2 * JOB.epsilon
    with pytest.raises(OverBudget):
        person.answer(LocalQuestion("job", tuple("abcde"), best(5, Decimal(1))), "a")


@pytest.mark.parametrize("values", [2, 10, 11, 50])
def test_the_better_law_is_the_one_of_less_variance(values: int) -> None:
    epsilon = Decimal(1)
    laws = [randomized(m, values, epsilon) for m in (LocalMechanism.GRR, LocalMechanism.OUE)]
    least = min(laws, key=lambda law: law.deviation(1))
    assert best(values, epsilon) == least
    assert (best(values, epsilon).mechanism is LocalMechanism.GRR) == (
        values < 3 * exp_down(epsilon) + 2
    )


def randomize(folder: Path, rows: str, *options: str) -> Result:
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    (folder / "truth.csv").write_text(rows, encoding="utf-8")
    command = ["local", "randomize", str(folder / "truth.csv"), "--table", "survey"]
    return CliRunner().invoke(main, ["--policy", str(folder / "dpsql.toml"), *command, *options])


ROWS = """who,town,said,status,bits,score
1,a,yes,open,open,5
2,b,no,paid,paid,1
1,a,yes,open,open,5
"""


def test_a_file_of_truths_becomes_one_of_reports(tmp_path: Path) -> None:
    options = "--person", "who", "--keep", "town", "--memory", str(tmp_path / "memory.json")
    first = randomize(tmp_path, ROWS, *options, "--budget", "5")
    assert first.exit_code == 0, first.output
    head, *rows = first.stdout.splitlines()
    assert head == "town,said,status,bits,score"
    assert rows[0] == rows[2]  # the same person
    town, said, status, bits, score = rows[1].split(",")
    assert (town, said in {"yes", "no"}, len(bits)) == ("b", True, 3)
    assert status in {"open", "paid", "returned"}
    assert score in {"1", "2", "5"}
    again = randomize(tmp_path, ROWS, *options, "--budget", "5")
    assert again.stdout == first.stdout
    kept: Any = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))
    assert set(kept) == {"1", "2"}


@pytest.mark.parametrize("missing", ["--memory", "--person"])
def test_nobody_is_drawn_anew_by_every_run(tmp_path: Path, missing: str) -> None:
    known = {"--person": "who", "--memory": str(tmp_path / "memory.json")}
    options = [word for name, value in known.items() if name != missing for word in (name, value)]
    result = randomize(tmp_path, ROWS, *options, "--budget", "9")
    assert result.exit_code != 0
    assert f"Missing option '{missing}'" in result.output


def test_wrong_twin_another_memory_for_each_run_draws_anew(tmp_path: Path) -> None:
    def drawn(name: str) -> str:
        memory = "--person", "who", "--memory", str(tmp_path / name)
        return randomize(tmp_path, MANY, *memory, "--budget", "9").stdout

    assert drawn("a") == drawn("a") != drawn("b")


def test_a_memory_is_its_owners_alone(tmp_path: Path) -> None:
    memory = tmp_path / "memory.json"
    options = "--person", "who", "--memory", str(memory), "--budget", "5"
    assert randomize(tmp_path, ROWS, *options).exit_code == 0
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.chmod(0o640)
    refused = randomize(tmp_path, ROWS, *options)
    assert refused.exit_code != 0
    assert f"chmod 600 {memory}" in refused.output


MANY = "who,town,said,status,bits,score\n" + "".join(f"{n},a,yes,open,open,5\n" for n in range(100))


def run(folder: str, output: str, began: Any, waits: Any, locked: bool) -> None:  # noqa: FBT001
    """One of two processes: the first waits, once it has read, until the other is on its way.

    The other is there when it goes for the lock, which the first has; without locks, when it has
    read, too.
    """
    local = import_module("dpsql.systems.local.local")
    read, lock = local._memory_of, respondent.lock_memory

    @contextmanager
    def memory(path: str) -> Iterator[dict[str, Any]]:
        with read(path) as people:
            if output == "first":
                began.set()
                assert waits.wait(60)
            waits.set()
            yield people

    def locking(path: str) -> AbstractContextManager[None]:
        if output == "second" and locked:
            waits.set()
        return lock(path) if locked else nullcontext()

    path = f"{folder}/{output}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_memory_of", memory)
        patch.setattr(respondent, "lock_memory", locking)
        assert output == "first" or began.wait(60)
        options = (
            "--person",
            "who",
            "--memory",
            f"{folder}/memory.json",
            "--budget",
            "9",
            "-o",
            path,
        )
        assert randomize(Path(folder), MANY, *options).exit_code == 0


def reported(folder: Path, *, locked: bool) -> set[str]:
    """What two processes report of the same people, that begin before either has ended."""
    context = get_context("spawn")
    began, waits = context.Event(), context.Event()
    ends = [
        context.Process(target=run, args=(str(folder), name, began, waits, locked))
        for name in ("first", "second")
    ]
    for process in ends:
        process.start()
    for process in ends:
        process.join(120)
        assert process.exitcode == 0
    return {(folder / name).read_text(encoding="utf-8") for name in ("first", "second")}


@pytest.mark.full("starts processes")
def test_two_processes_report_the_same_of_everybody(tmp_path: Path) -> None:
    assert len(reported(tmp_path, locked=True)) == 1


@pytest.mark.full("draws random questions or values")
def test_wrong_twin_without_a_lock_two_are_reported(tmp_path: Path) -> None:
    """Of a hundred people two draws are all the same once in 10^20."""
    assert len(reported(tmp_path, locked=False)) == 2


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        (ROWS, ("--budget", "1"), "said loses ε"),
        (ROWS.replace("paid", "lost"), ("--budget", "9"), "Line 3: 'lost' is none of the values"),
        (ROWS.replace("score", "stars"), ("--budget", "9"), "has no column score"),
    ],
)
def test_what_cannot_be_reported_writes_nothing(
    tmp_path: Path, rows: str, options: tuple[str, ...], why: str
) -> None:
    known = "--person", "who", "--memory", str(tmp_path / "memory.json")
    result = randomize(tmp_path, rows, *known, *options, "-o", str(tmp_path / "out.csv"))
    assert result.exit_code != 0
    assert why in result.output
    assert not (tmp_path / "out.csv").exists()


def test_questions_are_printed_for_other_encoders(tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    arguments = ["--policy", str(tmp_path / "dpsql.toml"), "local", "questions", "survey"]
    listed = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert listed[0] == {
        "name": "said",
        "mechanism": "two-coins",
        "values": ["yes", "no"],
        "p": [3, 4],
        "q": [1, 4],
        "epsilon": "1.098612289",
    }
    assert [LocalQuestion.of(each).as_json() for each in listed] == listed
