"""The proxy starts with the engines and parsers that it is tested with, and with no others."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import dpsql
from dpsql import proxy as conductor
from dpsql.engines.versions import TESTED, require_tested, within
from dpsql.interfaces.messages import describe
from dpsql.model.errors import WrongVersion
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop

ROOT = Path(__file__).parent.parent
HERE = {package: first for package, (first, _) in TESTED.items()}


def test_the_versions_that_are_declared_are_those_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["fast"]]
    for package, (first, end) in TESTED.items():
        ranges = [re.sub(r"\[.*\]", "", one) for one in listed if one.startswith(package)]
        assert ranges
        assert set(ranges) == {f"{package}>={first},<{end}"}


@pytest.mark.parametrize(
    ("package", "found"),
    [
        *(("duckdb", text) for text in ("1.5.5", "1.4.5", "2.1.0", "2.1.0.dev12", "3.0.0", "x")),
        *(("sqlglot", text) for text in ("28.0.0", "30.19.9", "31.0.0", "")),
    ],
)
def test_others_are_refused(package: str, found: str) -> None:
    with pytest.raises(WrongVersion, match=f"pip install '{package}>={TESTED[package][0]},<"):
        require_tested(lambda name: found if name == package else HERE[name])


def test_what_is_not_there_is_refused() -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    with pytest.raises(WrongVersion, match="duckdb none is installed"):
        require_tested(absent)


def test_the_ends_of_the_ranges() -> None:
    assert all(within(first, first, end) for first, end in TESTED.values())
    assert not any(within(end, first, end) for first, end in TESTED.values())
    assert within("1.5.7", *TESTED["duckdb"])
    assert within("30.30.0", *TESTED["sqlglot"])


def test_the_proxy_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = shop(tmp_path / "shop")
    monkeypatch.setattr(conductor, "require_tested", lambda: require_tested(lambda _name: "1.5.5"))
    with pytest.raises(WrongVersion) as caught:
        Proxy.open(str(policy))
    assert describe(caught.value).code == "wrong-version"
    assert not (policy.parent / "shop.ledger").exists()
    with pytest.raises(dpsql.OperationalError, match=r"duckdb 1\.5\.5 is installed"):
        dpsql.connect(str(policy))
