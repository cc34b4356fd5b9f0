"""The example of ibis, run against a server."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

from grammar_tests.wire_kit import PASSWORD, door

EXAMPLE = Path(__file__).parents[1] / "examples" / "ibis_over_the_wire.py"


@pytest.mark.skipif(find_spec("ibis") is None, reason="ibis is not installed")
def test_the_example_is_answered(tmp_path: Path) -> None:
    with door(tmp_path) as served:
        url = f"postgres://ana:{quote(PASSWORD)}@127.0.0.1:{served.port}/dpsql"
        done = subprocess.run(  # noqa: S603
            [sys.executable, str(EXAMPLE), url],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        charged = [entry.loss.amount for entry in served.proxy.ledger.history()]
    assert len(charged) == 4
    assert min(charged) > 0
    assert "adults:" in done.stdout


def test_without_a_server_it_says_what_it_needs() -> None:
    if find_spec("ibis") is None:
        pytest.skip("ibis is not installed")
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, "dpsql serve" in done.stderr) == (1, True)
