"""Conformance probes: the record is that of the tried versions, and a deviation is refused."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines import conformance, versions
from dpsql.engines.conformance import CORE, RECORD, find_deviations, load_probes
from dpsql.engines.duckdb.conformance_worker import PARQUET, find_deviations_apart, run_alone
from dpsql.model.errors import Reason, Refused, WrongVersion
from dpsql.preparation import engine_admission as admission
from dpsql.preparation.engine_admission import run_parser
from dpsql.preparation.engine_kinds import OwnEngine
from dpsql.proxy import Proxy
from grammar_tests.conformance_record import STATEMENTS, statements_of
from grammar_tests.proxy_kit import request, shop


@pytest.mark.full("measures neighbours or further data sets")
def test_the_record_tries_every_function_and_is_small() -> None:
    recorded = {
        name: tuple(p.sql for p in probes) for name, probes in load_probes("duckdb").items()
    }
    assert recorded == statements_of(DUCKDB), "run python -m grammar_tests.conformance_record"
    assert len(load_probes("sqlglot")[CORE]) >= STATEMENTS
    assert RECORD.stat().st_size <= 300_000


@pytest.mark.full("every probe is asked")
def test_the_installed_versions_agree() -> None:
    assert find_deviations_apart() == frozenset()
    assert find_deviations(load_probes("sqlglot"), run_parser) == frozenset()


@pytest.mark.parametrize(
    ("wrong", "with_", "found"),
    [
        ("sqrt(", "1 + sqrt(", "sqrt"),
        ("upper(", "lower(", "upper"),
        ("COUNT(*)", "2 * COUNT(*)", CORE),
    ],
)
def test_an_engine_with_one_changed_function_deviates(
    tmp_path: Path, wrong: str, with_: str, found: str
) -> None:
    run = run_alone(tmp_path / PARQUET)

    def changed(sql: str) -> Sequence[tuple[Any, ...]]:
        return run(sql.replace(wrong, with_))

    assert found in find_deviations({found: load_probes("duckdb")[found]}, changed)


def test_an_engine_that_crashes_breaks_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.engines.duckdb.conformance_worker.sys.executable", "/bin/false")
    assert conformance.breaks_core(find_deviations_apart())


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No version is tried; the probes of DuckDB find what the list names."""
    found: list[str] = []
    monkeypatch.setattr(admission, "TRIED", {"duckdb": (), "sqlglot": versions.TRIED["sqlglot"]})
    monkeypatch.setattr(admission, "version", lambda name: versions.TRIED[name][-1])
    own = OwnEngine("duckdb", lambda: "key", lambda: frozenset(found))
    monkeypatch.setattr(admission, "own_engine", lambda: own)
    return found


@pytest.mark.full("opens a proxy for each item")
def test_what_deviates_is_refused_by_name(tmp_path: Path, untried: list[str]) -> None:
    untried += ["sqrt", "median of groups"]
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy:
        for text in ("SUM(sqrt(age))", "MEDIAN(age)"):
            with pytest.raises(Refused) as caught:
                proxy.ask(request(f"SELECT {text} AS s FROM customers"))
            assert caught.value.reason is Reason.ENGINE_LACKS
            assert caught.value.span.start == 7 + 4 * text.startswith("SUM")
        assert proxy.ask(request("SELECT COUNT(*) AS n FROM customers")).rows


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("deviation", [CORE, "add"])
def test_a_deviating_core_does_not_start(
    tmp_path: Path, untried: list[str], deviation: str
) -> None:
    untried.append(deviation)
    with pytest.raises(WrongVersion, match="Install one of these"):
        Proxy.open(str(shop(tmp_path / "shop")))


@pytest.mark.full("opens a proxy for each item")
def test_a_core_that_deviates_once_is_asked_again(tmp_path: Path, untried: list[str]) -> None:
    policy = shop(tmp_path / "shop")
    untried.append(CORE)
    with pytest.raises(WrongVersion):
        Proxy.open(str(policy))
    untried.clear()
    Proxy.open(str(policy)).close()


@pytest.mark.full("starts processes")
def test_the_outcome_is_kept_for_its_owner_alone(tmp_path: Path, untried: list[str]) -> None:
    policy = shop(tmp_path / "shop")
    untried.append("sqrt")
    Proxy.open(str(policy)).close()
    (kept,) = (policy.parent / admission.STATE).iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    untried.append(CORE)  # is not asked again
    Proxy.open(str(policy)).close()
    kept.write_text("{", encoding="utf-8")
    with pytest.raises(WrongVersion):
        Proxy.open(str(policy))
