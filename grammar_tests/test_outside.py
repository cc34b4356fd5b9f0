"""What is added from the outside: as the map says (`dpsql/README.md`), and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql import accountants
from dpsql.interfaces.amounts import loss_text
from dpsql.model.errors import PolicyError
from dpsql.model.installed import Unusable
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests import outside
from grammar_tests.outside_accountant import BASIC
from grammar_tests.proxy_kit import policy, request, shop

BY_KEY = "SELECT device, COUNT(*) AS n FROM events GROUP BY device"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that Python finds."""
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    return packages


# --- accountants ---

ACCOUNTANTS = "dpsql.accountants"
NAMED = ('accountant = "zcdp"', 'accountant = "basic"')


def test_an_accountant_is_a_file_and_an_entry_point(installed: Path, tmp_path: Path) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, basic="grammar_tests.outside_accountant:BASIC")
    with Proxy.open(str(shop(tmp_path / "shop", NAMED))) as proxy:
        before = proxy.explain(request(BY_KEY))
        answer = proxy.ask(request(BY_KEY))
        assert answer.receipt is not None
        assert before.event is not None
        assert answer.receipt.accountant == before.accountant == "basic"
        assert answer.receipt.charged == before.charge == BASIC.loss(before.event)
        assert proxy.ledger.spent("default") == before.charge
        ((_, _, limit),) = proxy.budgets()
        assert limit == BASIC.limit(proxy.policy.budgets[0])
        assert loss_text(before.charge, "basic").startswith("ε = ")


def test_nothing_is_imported_that_the_policy_does_not_name(installed: Path, tmp_path: Path) -> None:
    (installed / "loud.py").write_text("raise RuntimeError('imported')\n")
    values = {"basic": "grammar_tests.outside_accountant:BASIC", "loud": "loud:LOUD"}
    outside.install(installed, "both", ACCOUNTANTS, **values)
    assert accountants.get("basic") is BASIC
    assert load(str(policy(tmp_path))).budgets[0].accountant == "zcdp"
    with pytest.raises(PolicyError, match=r"loud:LOUD raises RuntimeError: imported"):
        load(str(policy(tmp_path, (NAMED[0], 'accountant = "loud"'))))


def test_an_error_says_what_is_installed(installed: Path, tmp_path: Path) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, basic="grammar_tests.outside_accountant:BASIC")
    path = policy(tmp_path, (NAMED[0], 'accountant = "renyi"'))
    with pytest.raises(PolicyError, match="one of zcdp, pure, approximate, basic") as caught:
        load(str(path))
    line = path.read_text().splitlines()[(caught.value.line or 0) - 1]
    assert line == 'accountant = "renyi"'


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"other": "grammar_tests.outside_accountant:BASIC"}, "none of that name"),
        ({"other": "grammar_tests.outside_accountant:Basic"}, "none of that name"),
        ({"other": "grammar_tests.outside_accountant:NOWHERE"}, "AttributeError"),
        ({"other": "nowhere_at_all:BASIC"}, "ModuleNotFoundError"),
    ],
)
def test_what_is_no_accountant_of_that_name_is_refused(
    installed: Path, values: dict[str, str], error: str
) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, **values)
    with pytest.raises(Unusable, match=error):
        accountants.get("other")


def test_two_packages_cannot_share_a_name(installed: Path) -> None:
    for package in ("ours", "theirs"):
        value = f"grammar_tests.outside_accountant:{'BASIC' if package == 'ours' else 'Basic'}"
        outside.install(installed, package, ACCOUNTANTS, basic=value)
    with pytest.raises(Unusable, match="ours and theirs"):
        accountants.get("basic")


def test_nobody_replaces_our_own(installed: Path) -> None:
    own = accountants.get("zcdp")
    outside.install(installed, "ours", ACCOUNTANTS, zcdp="grammar_tests.outside_accountant:BASIC")
    assert accountants.get("zcdp") is own
