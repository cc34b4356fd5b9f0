"""The encoder for browsers: bit by bit that of Python, and as careful with what people told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.mechanisms.randomized_response import randomized, report, two_coins
from dpsql.model.local_reports import LocalMechanism, Randomized
from dpsql.systems.local.questions import LocalQuestion

CLIENT = Path(__file__).parent.parent / "dpsql" / "systems" / "local" / "client.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
LAWS = [
    two_coins(2),
    two_coins(7),
    *(randomized(m, k, Decimal(1)) for m in LocalMechanism for k in (2, 5)),
    Randomized(LocalMechanism.GRR, 3, Fraction(5, 9), Fraction(2, 9)),
    Randomized(LocalMechanism.UNARY, 4, Fraction(2, 3), Fraction(1, 7)),
]
MUTEX = """
const mutex = () => {
  let last = Promise.resolve()
  return { request: (_, step) => {
    const run = last.then(step)
    last = run.catch(() => 0)
    return run
  } }
}
"""
PROGRAM = (
    MUTEX
    + """
import { readFileSync } from 'node:fs'
const { report, Respondent, bucket, cell } = await import(process.argv[1])
const given = JSON.parse(readFileSync(0))
const taking = (bytes) => { let at = 0; return (n) => Uint8Array.from(bytes.slice(at, at += n)) }
const equal = given.cases.map(([q, truth, bytes]) => report(q, truth, taking(bytes)))
const kept = new Map()
const store = { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v) }
let now = 0, posted = []
const post = async (url, request) => {
  posted.push([url, request])
  return { ok: posted.length > 1, status: 503 }
}
const locks = mutex()
const options = { budget: '2.3', url: '/r', batch: 2, store, post, locks, now: () => now }
const person = () => new Respondent(options)
const [one, two] = given.questions, me = person()
const told = await Promise.all(Array.from({ length: 50 }, () => person().answer(one, 'yes')))
const first = await person().send()
const other = await person().answer(two, 'b')
const refused = await person().send(), sent = await person().send(), left = person().left
now = 29 * 86400000
const same = await person().answer(two, 'a')
now = 30 * 86400000
let over = ''
try { await person().answer(two, 'a') } catch (error) { over = error.message }
const again = await me.answer(one, 'no')
let unknown = ''
try { await me.answer(one, 'x') } catch (error) { unknown = error.message }
const nothing = { getItem: () => null, setItem() {} }
const believes = await Promise.all(given.liars.map(([q, budget]) => {
  const victim = new Respondent({ budget, url: '/r', locks, store: nothing })
  return victim.answer(q, 'yes').catch((error) => error.message)
}))
const alone = new Map(), statuses = [503, 422, 204]
const its = { getItem: (k) => alone.get(k) ?? null, setItem: (k, v) => alone.set(k, v) }
const keys = [], counts = []
const answering = async (_, { headers, body }) => {
  const status = statuses.shift()
  keys.push(headers['idempotency-key'])
  if (keys.length === 1) await you.answer(two, 'a') // while it is on its way
  counts.push(JSON.parse(body).length)
  return { status, ok: status < 300 }
}
const its_own = { url: '/r', batch: 1, store: its, locks: mutex(), post: answering }
const you = new Respondent({ budget: '9', ...its_own })
await you.answer(one, 'no')
const taken = [await you.send(), await you.send(), await you.send(), await you.send()]
const six = { values: given.six }
const places = [bucket(two, 0, [1, 5]), bucket(two, 5, [1, 5]), cell(two, 9, -9, [0, 0, 1, 1], 2)]
const cells = given.places.map(([x, y]) => cell(six, x, y, [4.7, 52.2, 5.1, 52.5], 3))
const buckets = given.places.map(([x]) => bucket(six, x, [4.5, 4.8, 4.9, 5, 5.1]))
console.log(JSON.stringify({ equal, told, first, other, refused, sent, left, same, over, places,
  waiting: person().queue.waiting, body: JSON.parse(posted[1][1].body), request: posted[1][1],
  memory: person().memory, unknown, believes, again, keys, counts, taken, cells, buckets }))
"""
)


PLACES = (np.random.default_rng(3).random((50, 2)) * [0.6, 0.5] + [4.6, 52.1]).tolist()

_NEARLY = {"p": [999999, 1000000], "q": [1, 1000000], "epsilon": "0"}
_BITS = {"p": [1, 1], "q": [1, 2], "epsilon": "0"}
LIARS = [
    ({"name": "bribe", "mechanism": "grr", "values": ["yes", "no"], **law}, budget)
    for law, budget in (
        (_NEARLY, "2"),
        (_NEARLY | {"epsilon": "-9"}, "2"),
        (_NEARLY | {"epsilon": "x"}, "2"),
        (_NEARLY, "x"),
        (_NEARLY | {"p": [1, 2], "q": [1, 2], "epsilon": "1"}, "2"),
        (_NEARLY | {"p": [1, 1000000], "q": [999999, 1000000]}, "2"),
        (_NEARLY | {"p": [3, 1], "q": [2, 1]}, "2"),
        (_NEARLY | {"p": [0.6, 1], "q": [0.4, 1]}, "2"),
        (_NEARLY | {"p": [1, 1], "q": [0, 1]}, "2"),
        (_BITS | {"mechanism": "oue"}, "2"),
        (_NEARLY | {"mechanism": "unary"}, "2"),
    )
]
"""Questions of a collector that lies about what they lose, and laws that are none."""


def feed(data: bytes) -> Callable[[int], bytes]:
    at = [0]

    def take(count: int) -> bytes:
        at[0] += count
        return data[at[0] - count : at[0]]

    return take


@pytest.fixture(scope="module")
def ran() -> dict[str, Any]:
    """All that Node says, of one process; the bytes begin with some that are drawn again."""
    random, cases = np.random.default_rng(11), []
    for law in LAWS:
        question = LocalQuestion("q", tuple(map(str, range(law.values))), law)
        for truth in range(min(law.values, 3)):
            data = b"\xff\xff\xff\xff" * truth + random.bytes(200)
            cases.append((question, truth, data))
    bribe = LocalQuestion("bribe", ("yes", "no"), two_coins(2))
    job = LocalQuestion("job", tuple("abc"), randomized(LocalMechanism.OUE, 3, Decimal(1)), days=30)
    given = {
        "liars": LIARS,
        "cases": [(q.as_json(), truth, list(data)) for q, truth, data in cases],
        "questions": [bribe.as_json(), job.as_json()],
        "places": PLACES,
        "six": list("abcdef"),
    }
    assert NODE is not None
    command = [NODE, "--input-type=module", "-e", PROGRAM, CLIENT.as_uri()]
    done = subprocess.run(  # noqa: S603
        command, input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    told["cases"] = cases
    return told


@needs_node
def test_the_same_bytes_are_the_same_report(ran: dict[str, Any]) -> None:
    expected = []
    for question, truth, data in ran["cases"]:
        drawn = report(question.law, truth, feed(data))
        expected.append(drawn if isinstance(drawn, str) else question.values[drawn])
    assert ran["equal"] == expected
    assert len(set(expected)) > 10


@needs_node
def test_it_answers_once_within_its_budget_and_remembers_across_visits(ran: dict[str, Any]) -> None:
    assert len(set(ran["told"])) == 1
    assert ran["same"] == ran["other"]
    assert ran["left"] == 2_300_000_000 - 1_098_612_289 - 1_000_000_000
    assert (ran["over"], ran["unknown"]) == ("no budget for job", "no value of bribe")
    assert ran["again"] == ran["told"][0]  # of a tab that was opened before anything was said
    assert {key for each in ran["memory"]["reports"].values() for key in each} == {"report", "day"}


@needs_node
def test_who_asks_is_not_believed_what_a_law_loses(ran: dict[str, Any]) -> None:
    assert {*ran["believes"]} == {"no budget for bribe", "no law"}
    assert ran["believes"].count("no budget for bribe") == 5


@needs_node
def test_reports_are_sent_in_batches_without_anything_else(ran: dict[str, Any]) -> None:
    """One waits for another; what is not taken is sent again; no cookie, no referrer."""
    assert (ran["first"], ran["refused"], ran["sent"]) == (0, 0, 2)
    assert ran["body"] == [{"bribe": ran["told"][0]}, {"job": ran["other"]}]
    assert ran["waiting"] == []
    request = ran["request"]
    assert (request["credentials"], request["referrerPolicy"]) == ("omit", "no-referrer")


@needs_node
def test_buckets_and_cells_are_values_of_their_questions(ran: dict[str, Any]) -> None:
    assert ran["places"] == ["a", "c", "b"]


@needs_node
def test_buckets_and_cells_are_those_of_python(ran: dict[str, Any]) -> None:
    six = LocalQuestion("six", tuple("abcdef"), two_coins(6))
    box = 4.7, 52.2, 5.1, 52.5
    assert ran["cells"] == [six.cell(x, y, box, 3) for x, y in PLACES]
    assert ran["buckets"] == [six.bucket(x, [4.5, 4.8, 4.9, 5, 5.1]) for x, _ in PLACES]
    assert {*ran["cells"]} == {*ran["buckets"], "a"} == {*"abcdef"}


@needs_node
def test_what_is_sent_again_has_the_same_key(ran: dict[str, Any]) -> None:
    """And the same rows, whatever was answered meanwhile; what is no report (422) is dropped."""
    first, again, fresh = ran["keys"]
    assert first == again != fresh
    assert all(re.fullmatch(r"[!-~]{16,64}", key) for key in (first, fresh))
    assert (ran["counts"], ran["taken"]) == ([1, 1, 1], [0, 0, 1, 0])


RACE = (
    MUTEX
    + """
import { readFileSync } from 'node:fs'
const { Respondent } = await import(process.argv[1])
const { one, old } = JSON.parse(readFileSync(0))
const unlocked = { request: async (_, step) => step() }
const bytes = (byte) => (n) => new Uint8Array(n).fill(byte)
const tabs = (locks, kept = new Map()) => {
  const keys = [], hook = { then: () => 0 }
  const setItem = (k, v) => kept.set(k, v), plain = { getItem: (k) => kept.get(k) ?? null, setItem }
  const getItem = (k) => { // another tab acts when this one has read
    const [value, then] = [plain.getItem(k), hook.then]
    hook.then = () => 0
    then()
    return value
  }
  const post = async (_, { headers }) => (keys.push(headers['idempotency-key']), { ok: true })
  const tab = (store, byte, url = '/r') =>
    new Respondent({ budget: '9', batch: 9, url, store, locks, post, take: bytes(byte) })
  return { keys, hook, kept, tab, mine: tab({ getItem, setItem }, 0), yours: tab(plain, 255) }
}
const race = async (locks) => {
  const { keys, hook, mine, yours } = tabs(locks)
  let other
  hook.then = () => { other = yours.answer(one, 'yes') }
  const told = [await mine.answer(one, 'yes'), await other]
  hook.then = () => { other = yours.send(true) }
  await mine.send(true)
  await other
  return { told, keys }
}
const { kept, tab, mine } = tabs(mutex())
const surveys = [await mine.answer(one, 'yes'), await tab(mine.store, 255, '/s').answer(one, 'yes')]
const queues = tab(mine.store, 0, '/s').queue.waiting
const before = new Map([['dpsql', JSON.stringify(old)]])
const { tab: later, mine: first } = tabs(mutex(), before)
const next = later(first.store, 255, '/s')
const moved = [await first.answer(one, 'yes'), await next.answer(one, 'yes')]
const locks = await Respondent.prototype.alone.call({}, () => 0).catch(({ message }) => message)
console.log(JSON.stringify({ safe: await race(mutex()), twin: await race(unlocked), surveys, queues,
  moved, waiting: first.queue.waiting, spent: first.memory.spent, locks }))
"""
)


@pytest.fixture(scope="module")
def raced() -> dict[str, Any]:
    """What two tabs tell that act at once, with locks and without."""
    one = LocalQuestion("bribe", ("yes", "no"), two_coins(2)).as_json()
    earlier = {"bribe": {"report": "no", "law": json.dumps(one), "day": 0}}
    old = {"spent": 1_098_612_289, "answers": earlier, "waiting": [{"bribe": "no"}]}
    assert NODE is not None
    done = subprocess.run(  # noqa: S603
        [NODE, "--input-type=module", "-e", RACE, CLIENT.as_uri()],
        input=json.dumps({"one": one, "old": old}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@needs_node
def test_tabs_that_answer_at_once_tell_one_report_under_one_key(raced: dict[str, Any]) -> None:
    assert len({*raced["safe"]["told"]}) == len({*raced["safe"]["keys"]}) == 1


@needs_node
def test_wrong_twin_without_locks_two_are_told(raced: dict[str, Any]) -> None:
    assert (len({*raced["twin"]["told"]}), len({*raced["twin"]["keys"]})) == (2, 2)


@needs_node
def test_a_second_survey_has_reports_of_its_own(raced: dict[str, Any]) -> None:
    assert raced["surveys"] == ["yes", "no"]
    assert raced["queues"] == [{"bribe": "no"}]


@needs_node
def test_reports_of_earlier_versions_are_told_again_where_they_were_asked(
    raced: dict[str, Any],
) -> None:
    assert raced["moved"] == ["no", "no"]
    assert raced["waiting"] == [{"bribe": "no"}]
    assert raced["spent"] == 1_098_612_289


@needs_node
def test_a_page_without_locks_draws_nothing(raced: dict[str, Any]) -> None:
    assert raced["locks"] == "no locks"


def test_it_is_small_and_draws_from_the_browsers_generator_alone() -> None:
    text = CLIENT.read_text(encoding="utf-8")
    assert len(text.encode()) < 6_500
    assert "Math.random" not in text
    assert "import" not in text
    assert CliRunner().invoke(main, ["local", "client"]).stdout == text
