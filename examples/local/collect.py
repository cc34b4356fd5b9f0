"""A survey without a trusted collector, from the people to the answer.

300 people draw their reports and post them to `dpsql local collect`, each once more, as if the
network had failed; the owner's refresh makes rows of them, and an analyst counts.

    python -m examples.local.collect
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from secrets import token_hex

import dpsql
from dpsql.systems.local.questions import LocalQuestion
from dpsql.systems.local.respondent import Respondent

POLICY = """
[database]
engine = "duckdb"
files = { people = "people.csv", survey = "survey/*.parquet" }
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
file = {}
columns = { id = { type = "BIGINT" } }
[tables.survey]
access = "public"
[tables.survey.columns]
bribe = { values = ["yes", "no"], randomized = { mechanism = "two-coins" } }
[budgets.default]
epsilon = 1.0
delta = 1e-6
[analysts.ana]
budget = "default"
"""
PEOPLE, PAID = 200, 160


def send(port: int) -> int:
    """How many posts were acknowledged."""
    server = http.client.HTTPConnection("127.0.0.1", port)
    server.request("GET", "/survey/questions.json")
    (written,) = json.loads(server.getresponse().read())
    question, acknowledged = LocalQuestion.of(written), 0
    for n in range(PEOPLE):
        person = Respondent(budget=Decimal("1.2"))
        body = json.dumps([{question.name: person.answer(question, "yes" if n < PAID else "no")}])
        headers = {"Content-Type": "application/json", "Idempotency-Key": token_hex(16)}
        for _ in range(2):
            server.request("POST", "/survey/reports", body, headers)
            answer = server.getresponse()
            answer.read()
            acknowledged += answer.status == http.client.NO_CONTENT
    server.close()
    return acknowledged


def main() -> None:
    """Collect, refresh, ask."""
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "dpsql.toml"
        policy.write_text(POLICY, encoding="utf-8")
        (Path(folder) / "people.csv").write_text("id\n1\n", encoding="utf-8")
        command = [sys.executable, "-m", "dpsql", "--policy", str(policy)]
        collect = [*command, "local", "collect", "survey", "--port", "0"]
        with subprocess.Popen(collect, stderr=subprocess.PIPE, text=True) as collector:  # noqa: S603
            assert collector.stderr is not None
            port = int(collector.stderr.readline().strip(" .\n").rpartition(":")[2])
            print(f"{send(port)} posts of {PEOPLE} people were acknowledged")
            collector.terminate()
            print(*collector.stderr, sep="", end="")
        subprocess.run([*command, "refresh"], check=True)  # noqa: S603
        with dpsql.connect(str(policy)) as connection:
            cursor = connection.execute("SELECT COUNT(*) FROM survey WHERE bribe = 'yes'")
            ((count,),), ((error,),) = cursor.fetchall(), cursor.errors
        print(f"{count:.0f} of them paid a bribe, ± {1.96 * (error or 0.0):.0f}; it was {PAID}")


if __name__ == "__main__":
    main()
