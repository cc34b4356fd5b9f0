"""Models by name: predictions, whom they are of, and what limits their rows."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.answering.any_statement import ColumnsOf
from dpsql.answering.paid_names import AS_THE_DATA, AS_THE_PROCESS
from dpsql.answering.side_systems import SideSystems
from dpsql.answering.together import PlanTogether
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.messages import describe
from dpsql.interfaces.pgwire.answers import answer_stamp
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentences
from dpsql.ledgers import Stopped
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Clipped
from dpsql.model.row_notices import Modelled
from dpsql.model.tree import VARCHAR, Kind, Span, identifier
from dpsql.model.vocabulary import (
    Loss,
    Request,
)
from dpsql.proxy import Proxy
from dpsql.systems.models import gradient_plan, moment_layout, moments_plan
from dpsql.systems.models.model import design, prediction_sql
from dpsql.systems.models.model import test_sql as of_holdout
from dpsql.systems.models.model_inputs import ListedInput
from dpsql.systems.models.models import FindModel, ListModels
from dpsql.systems.models.moment_layout import Layout
from grammar_tests import proxy_kit
from grammar_tests.model_kit import PEOPLE
from grammar_tests.session_kit import Client
from grammar_tests.test_models import LINEAR, LOGISTIC, history, spent


@pytest.mark.full("processes are started and killed")
def test_a_prediction_is_free_of_released_rows_and_an_expression_of_private_ones(
    proxy: Proxy,
) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    proxy.ask(Request(LOGISTIC, "ana"))
    before = spent(proxy)
    text = "SELECT code, PREDICT(aged, 'consumer', TRUE, code) AS x FROM countries ORDER BY code"
    answer = proxy.ask(Request(text, "ana"))
    assert answer.receipt is None
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        assert isinstance(row[1], float)
        assert margins[0] is None
        assert margins[1] is not None
        assert isnan(margins[1])
    assert sentences(answer.notices, answer.columns)[-1].startswith("aged is a model")
    assert plan_text(proxy.explain(Request(text, "ana"))).startswith("Public tables only: at no")
    assert spent(proxy) == before
    score = proxy.run(FindModel("aged", "ana")).scores[0]
    (se,) = (t.coefficient for t in score.terms if t.value == "SE")
    rows = dict(answer.rows)
    assert rows["SE"] - rows["IT"] == pytest.approx(se, rel=1e-9)
    private = "SELECT AVG(PREDICT(vips, segment, country, age)) AS p FROM customers"
    paid = proxy.ask(Request(private, "ana"))
    assert paid.receipt is not None
    assert paid.receipt.charged > Loss(0)
    assert 0 <= paid.rows[0][0] <= 1
    assert proxy.ledger.history("ana", 1)[0].inquiry.sql == private
    same = proxy.ask(Request("SELECT AVG(PREDICT(vips)) AS p FROM customers", "ana"))
    assert list(same.rows) == list(paid.rows)
    assert not isnan(paid.margins[0][0] or 0.0)
    counted = "(SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t"
    text = f"SELECT n, n * PREDICT(aged, segment, TRUE, 'NO') AS x FROM {counted}"
    released = proxy.ask(Request(text, "ana"))
    for n, x in released.margins:
        assert n is not None
        assert x is not None
        assert n > 0
        assert isnan(x)
    expected = proxy.explain(Request(text, "ana")).expected
    assert [e is not None and isnan(e) for e in expected] == [False, True]


@pytest.mark.full("opens a proxy for each item")
def test_predictions_over_synthetic_rows_say_both(proxy: Proxy) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    proxy.ask(Request("CREATE SYNTHETIC TABLE some AS SELECT segment, vip FROM customers", "ana"))
    before = spent(proxy)
    text = "SELECT segment, AVG(PREDICT(aged, segment, vip, 'NO')) AS x FROM some GROUP BY segment"
    answer = proxy.ask(Request(text, "ana"))
    said = " ".join(sentences(answer.notices, answer.columns))
    assert "synthetic" in said
    assert "aged is a model" in said
    assert spent(proxy) == before


NESTED = "'NO'"
for _ in range(30):
    NESTED = f"CAST(PREDICT(aged, 'a', TRUE, {NESTED}) AS VARCHAR)"
NESTED = f"SELECT {NESTED}"


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("SELECT PREDICT(aged) FROM customers", Reason.RAW_ROWS, "customers"),
        ("SELECT nix, PREDICT(aged, 'a', TRUE, 'NO')", Reason.UNKNOWN_COLUMN, "nix"),
        ("SELECT PREDICT(aged, 'a', TRUE, 'NO'), nix", Reason.UNKNOWN_COLUMN, "nix"),
        ("SELECT PREDICT(aged, 'a', nix, 'NO')", Reason.UNKNOWN_COLUMN, "nix"),
        ("SELECT PREDICT(aged, 'a', 'NO')", Reason.BAD_OPTION, "PREDICT(aged, 'a', 'NO')"),
        ("SELECT PREDICT(aged.pc1)", Reason.BAD_OPTION, ""),
        (NESTED, Reason.TOO_LARGE, ""),
    ],
)  # fmt: skip
def test_what_is_refused_of_a_prediction_is_shown_at_its_place(
    proxy: Proxy, text: str, reason: Reason, place: str
) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(text, "ana"))
    assert refused.value.reason is reason
    if reason is not Reason.TOO_LARGE:
        assert text[refused.value.span.start : refused.value.span.stop] == place


def test_a_prediction_is_a_call_in_the_tree_and_takes_parameters(proxy: Proxy) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    text = "SELECT PREDICT(aged, 'consumer', TRUE, ?)"
    place = Span(text.index("?"), text.index("?") + 1)
    told = proxy.run(ColumnsOf(Request(text, "ana"), [place], [None]))
    assert [column.name for column in told.columns] == ["predict"]
    assert [kind.kind for kind in told.parameters] == [Kind.VARCHAR]
    written = proxy.ask(Request(text.replace("?", "'NO'"), "ana"))
    assert list(proxy.ask(Request(text, "ana", parameters=("NO",))).rows) == list(written.rows)
    joint = proxy.run(PlanTogether([Request(text.replace("?", "'NO'"), "ana")]))
    assert [refused.reason for _, refused in joint.refusals] == [Reason.UNKNOWN_FUNCTION]


@pytest.mark.full("processes are started and killed")
def test_models_are_of_whom_the_charge_binds_and_last_as_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = proxy_kit.shop(tmp_path)
    with Proxy.open(str(path)) as own:
        own.ask(Request(LINEAR, "ana"))
        model = own.run(FindModel("aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            own.ask(Request("SELECT PREDICT(aged, 'consumer', TRUE, 'NO')", "bob"))
        again = own.ask(Request(LINEAR.replace("aged", "other"), "ana"))
        assert again.rows[0][2] == AS_THE_DATA
        with pytest.raises(Refused, match="there is a model aged"):
            own.ask(Request(LINEAR.replace("country, ", ""), "ana"))
        before = spent(own)
        own.systems = SideSystems()  # as another process has it
        assert own.run(FindModel("aged", "ana")).scores == model.scores
        assert [model.name for model in own.run(ListModels("ana"))] == ["aged", "other"]
        assert list(own.ask(Request("DROP MODEL aged", "ana")).rows) == [("aged",)]
        told = [(each["text"], each["epsilon"], each["requested"]) for each in history(own)]
        other = LINEAR.replace("aged", "other"), None, None
        assert told[:3] == [("DROP MODEL aged", None, None), other, (LINEAR, 1, 1)]
        own.systems = SideSystems()
        assert [model.name for model in own.run(ListModels("ana"))] == ["other"]
        stamp = answer_stamp(own, 1)
        monkeypatch.setattr("dpsql.answering.paid_names.MOST_FREE", 1)
        assert own.ask(Request(LINEAR, "ana")).rows[0][2] == AS_THE_PROCESS  # remembered still
        assert answer_stamp(own, 1) != stamp  # though the ledger says nothing of it
        assert spent(own) == before
        own.refresh()
        with pytest.raises(Refused, match="unknown-name"):
            own.run(FindModel("aged", "ana"))
        fewer = LINEAR.replace("country, ", "").replace("aged", "other")
        assert own.ask(Request(fewer, "ana")).rows[0][2] == AS_THE_DATA
        own.vault.ledger.stop(Stopped("default", None), "")
        for text in (LINEAR, "CREATE SYNTHETIC TABLE s AS SELECT age FROM customers"):
            assert "stopped" in own.explain(Request(text, "ana")).notes[0]
        assert "stopped" not in own.explain(Request(fewer, "ana")).notes[0]  # remembered


@pytest.mark.full("opens a proxy for each item")
def test_a_name_is_of_what_was_paid_for_it_and_not_of_a_default_epsilon(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(Request(LINEAR, "ana", epsilon=Decimal("0.5")))
        own.systems = SideSystems()
        assert [model.name for model in own.run(ListModels("ana"))] == ["aged"]


@pytest.mark.full("opens a proxy for each item")
def test_a_model_whose_text_is_read_otherwise_now_is_lost_until_it_is_made_again(
    tmp_path: Path,
) -> None:
    halves = LINEAR.replace("age FROM", "age / 2 AS age FROM")
    made = Request(halves, "ana", "postgres", door="Python")
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(made)
        before = spent(own)
        own.systems = SideSystems()
        with pytest.raises(Refused) as refused:
            own.run(FindModel("Aged", "ana"))
        told = describe(refused.value)
        assert told.headline == "The model aged cannot be made again from remembered answers."
        assert told.fix.startswith("Create aged again")
        own.ask(made)
        assert own.run(FindModel("aged", "ana")).name == "aged"
        assert spent(own) == before


@pytest.mark.full("opens a proxy for each item")
def test_who_asks_a_model_never_pays_for_it_though_its_data_change_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(Request(LINEAR, "ana"))
        before, ledger = spent(own), own.vault.ledger
        recall = ledger.recall

        def then_changed(*asked: Any) -> object:
            try:
                return recall(*asked)
            finally:
                ledger.refresh()

        own.systems = SideSystems()
        monkeypatch.setattr(ledger, "recall", then_changed)
        own.run(FindModel("aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            own.run(FindModel("aged", "ana"))
        assert spent(own) == before


@pytest.mark.full("opens servers or connects clients")
def test_a_session_makes_a_model_and_asks_it(proxy: Proxy) -> None:
    session = Client(proxy)
    session.query(LINEAR)
    assert session.rows[0][0] == "aged"
    session.query("SELECT PREDICT(aged, 'consumer', TRUE, 'NO') AS x")
    assert float(str(session.rows[0][0])) != 0
    assert any(b"aged is a model" in notice for notice in session.of(b"N"))
    session.query("SELECT PREDICT(nobody) AS x")
    assert session.error["C"] == "22023"


@pytest.mark.full("starts processes")
def test_the_commands_fit_show_list_and_drop(proxy: Proxy) -> None:
    opened: Any = lambda _path: nullcontext(proxy)  # noqa: E731
    settings = CommandSettings(open=opened)

    def command(*words: str) -> Any:
        done = CliRunner().invoke(main, [*words, "--analyst", "bob"], obj=settings)
        assert done.exit_code == 0, done.stderr
        return done

    fit = ("fit", "aged", PEOPLE, "--type", "linear_reg", "--label", "age", "--epsilon", "2")
    told = command(*fit)
    assert "intercept" in told.stdout
    assert "standard error" in told.stdout
    assert "cost: ε = 2" in told.stderr
    shown = json.loads(command("model", "show", "aged", "--format", "json").stdout)
    assert re.search(r"; explains [\d.]+ ± [\d.]+ %", told.stderr)
    assert shown["explained_error"] > 0
    assert [column["name"] for column in shown["columns"]] == ["segment", "vip", "country"]
    tested = command("model", "test", "aged", f"{PEOPLE} WHERE income > 0", "--epsilon", "2")
    assert tested.stdout.strip().startswith("off_by")
    assert "± ?" not in tested.stdout
    assert "cost: ε = 2" in tested.stderr
    assert "forgotten" in command("model", "drop", "aged").stderr
    assert "aged" not in command("model", "list").stdout


@pytest.mark.full("opens a proxy for each item")
def test_a_holdout_is_asked_how_often_a_model_is_right(proxy: Proxy) -> None:
    """As a question of its own, whose answer is what the rows and the released numbers say."""
    proxy.ask(Request(LOGISTIC, "ana"))
    model, before = proxy.run(FindModel("vips", "ana")), spent(proxy)
    rows = "SELECT vip, segment, country, age FROM customers WHERE income > 100"
    request = Request(of_holdout(model, rows), "ana")
    proxy.ask(request)
    assert spent(proxy) > before
    instead = prediction_sql(model, None, [identifier(column.name) for column in model.columns])
    ((share,),) = proxy.vault.engine.rows(request.sql.replace('PREDICT("vips")', instead))
    truth = proxy.vault.engine.rows(rows)
    slopes = np.array([term.coefficient for term in model.scores[0].terms])
    numbers = design(model, [row[1:] for row in truth])
    guess = model.scores[0].intercept.coefficient + numbers @ slopes >= 0
    assert share == pytest.approx(np.mean(guess == [row[0] for row in truth]))


@pytest.mark.full("opens servers or connects clients")
def test_what_another_process_makes_of_a_model_is_seen(tmp_path: Path) -> None:
    path, of_rows = str(proxy_kit.shop(tmp_path)), "SELECT PREDICT(aged, 'consumer', TRUE) AS x"
    create = (
        "CREATE MODEL aged OPTIONS(model_type = 'linear_reg', label = 'y', epsilon = 5) AS SELECT"
    )
    with Proxy.open(path) as server, Proxy.open(path) as other:
        server.ask(Request(f"{create} segment, vip, age AS y FROM customers", "ana"))
        ((age,),) = server.ask(Request(of_rows, "ana")).rows
        other.ask(Request("DROP MODEL aged", "ana"))
        other.ask(Request(f"{create} segment, vip, income AS y FROM customers", "ana"))
        ((income,),) = other.ask(Request(of_rows, "ana")).rows
        assert list(server.ask(Request(of_rows, "ana")).rows) == [(income,)]
        assert income != age
        other.ask(Request("DROP MODEL aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            server.ask(Request(of_rows, "ana"))


@pytest.mark.parametrize("method", ["one_pass", "gradient"])
def test_a_model_that_would_fill_the_memory_is_refused_before_it_is_paid(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(moments_plan, "MOST_CELLS", 4)
    monkeypatch.setattr(gradient_plan, "MOST_SUMS", 4)
    before = spent(proxy)
    wide = f"OPTIONS(model_type = 'linear_reg', label = 'age', method = '{method}')"
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(f"CREATE MODEL wide {wide} AS {PEOPLE}", "ana"))
    assert refused.value.reason is Reason.TOO_LARGE
    assert refused.value.facts["limit"] == 4
    assert spent(proxy) == before


def test_the_largest_model_has_matrices_that_fit() -> None:
    cells = moment_layout.MOST_CELLS
    numbers = tuple(ListedInput(f"c{n}", VARCHAR, ("a", "b"), nullable=False) for n in range(9))
    layout = Layout(numbers)
    assert layout.places.nbytes == 8 * sum(layout.sizes) ** 2
    assert 8 * cells**2 <= 32 << 20


RICH = "SELECT amount, quantity FROM orders"
SPENDING = "model_type = 'linear_reg', label = 'amount', epsilon = 2"
SPENDING = "model_type = 'linear_reg', label = 'amount', epsilon = 2"
MADE = {
    "one_pass": f"CREATE MODEL m1 OPTIONS({SPENDING}, method = 'one_pass') AS {RICH}",
    "gradient": f"CREATE MODEL m2 OPTIONS({SPENDING}, method = 'gradient', steps = 2) AS {RICH}",
    "synthetic": "CREATE SYNTHETIC TABLE m3 AS SELECT status FROM orders OPTIONS(epsilon = 2)",
}


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("how", MADE)
def test_what_limits_the_rows_of_a_model_is_told_as_of_a_count(proxy: Proxy, how: str) -> None:
    count = proxy.ask(Request("SELECT COUNT(*) AS n FROM orders", "ana"))
    limits = {n.rows for n in count.notices if isinstance(n, Clipped)}
    assert limits
    plan = proxy.explain(Request(MADE[how], "ana"))
    answer = proxy.ask(Request(MADE[how], "ana"))
    for notices in (plan.notices, answer.notices):
        clipped = [notice for notice in notices if isinstance(notice, Clipped)]
        assert {notice.rows for notice in clipped} == limits
        assert {notice.columns for notice in clipped} == {(1,)}
    assert sentences(answer.notices, answer.columns)


@pytest.mark.parametrize("how", ["one_pass", "gradient"])
def test_limits_of_rows_are_told_with_a_model_and_its_predictions(proxy: Proxy, how: str) -> None:
    created = proxy.ask(Request(MADE[how], "ana"))
    name = created.rows[0][0]
    assert proxy.run(FindModel(name, "ana")).notices == created.notices
    proxy.systems = SideSystems()  # made again, as by a process that starts
    assert proxy.run(FindModel(name, "ana")).notices == created.notices
    text = f"SELECT PREDICT({name}, PREDICT({name}, 3)) AS at_3"
    for notices in (
        p.notices for p in (proxy.ask(Request(text, "ana")), proxy.explain(Request(text, "ana")))
    ):
        (told,) = [notice for notice in notices if isinstance(notice, Modelled)]
        assert told.limited == (name,)
    opened: Any = lambda _path: nullcontext(proxy)  # noqa: E731
    settings = CommandSettings(open=opened)
    shown = CliRunner().invoke(main, ["model", "show", name, "--analyst", "ana"], obj=settings)
    for sentence in sentences(created.notices, created.columns):
        assert sentence in shown.stderr


@pytest.mark.full("opens a proxy for each item")
def test_rows_that_nothing_limits_are_told_nothing_of(proxy: Proxy) -> None:
    one = proxy.ask(Request(LINEAR.replace("aged", "unlimited"), "ana"))
    assert one.notices == ()
    assert proxy.run(FindModel("unlimited", "ana")).notices == ()
