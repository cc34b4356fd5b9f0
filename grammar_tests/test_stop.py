"""Stopping one question of many: its own wish ends it, and nobody else's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpsql.engines import Stop
from dpsql.model.errors import Failed
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, SLOW, request, shop, watched

OTHER = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"


@pytest.mark.full("opens a proxy for each item")
def test_a_stop_ends_its_own_question_only(tmp_path: Path) -> None:
    proxy, engine = watched(shop(tmp_path), Proxy)
    running, waiting = Stop(), Stop()
    with proxy, ThreadPoolExecutor(2) as pool:
        engine.instead = SLOW
        slow = pool.submit(proxy.ask, request(BY_COUNTRY), running)
        engine.running.wait(30)
        queued = pool.submit(proxy.ask, request(OTHER), waiting)
        waiting.requested = True
        with pytest.raises(Failed) as caught:
            queued.result(30)
        assert caught.value.cancelled
        assert not slow.done()
        running.requested = True
        with pytest.raises(Failed) as caught:
            slow.result(30)
        assert caught.value.cancelled
        assert caught.value.charged
        engine.instead = None
        assert proxy.ask(request(OTHER), Stop()).rows


@pytest.mark.full("opens a proxy")
def test_a_stop_before_the_charge_charges_nothing(tmp_path: Path) -> None:
    stopped = Stop(requested=True)
    with Proxy.open(str(shop(tmp_path))) as proxy:
        with pytest.raises(Failed) as caught:
            proxy.ask(request(BY_COUNTRY), stopped)
        assert not caught.value.charged
        assert proxy.ledger.history() == ()
