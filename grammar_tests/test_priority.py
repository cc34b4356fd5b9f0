"""A server's workers give way to it, and so to whoever is answered from memory."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from dpsql.engines.priority import NICENESS
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.pgwire.catalogue import LIMITS, Catalogue
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads is Linux's")

GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275}
FIRST_KERNEL = (6, 12)


def process_of(worker: Any) -> int:
    """The number of the process of an engine or of a compiler, which has begun."""
    process: int = worker._worker._process.pid
    return process


def threads(process: int) -> list[int]:
    return [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]


def niceness(process: int) -> set[int]:
    """How nice the threads of a process are."""
    return {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads(process)}


def slice_seconds(thread: int) -> float:
    """How long a thread wants to work at a time."""
    attributes = ctypes.create_string_buffer(48)
    number = GET_ATTRIBUTES[os.uname().machine]
    assert ctypes.CDLL(None).syscall(number, thread, attributes, 48, 0) == 0
    nanoseconds: int = struct.unpack("=IIQiIQQQ", attributes.raw)[5]
    return nanoseconds / 1e9


@pytest.mark.full("starts processes")
def test_a_servers_workers_give_way_to_it_and_others_do_not(tmp_path: Path) -> None:
    policy = str(shop(tmp_path))
    with CommandSettings().open_server(policy) as proxy, Proxy.open(policy) as alone:
        for asked in (proxy, alone):
            assert asked.ask(request(BY_COUNTRY)).rows
        catalogue = Catalogue(proxy.policy, "ana", {})
        catalogue.ask("SELECT relname FROM pg_class", ())
        pools: list[Any] = [proxy.vault.engine, catalogue._engine]
        own = os.getpriority(os.PRIO_PROCESS, 0)
        for pool, further in zip(pools, (NICENESS, LIMITS.niceness), strict=True):
            assert niceness(process_of(pool._first)) == {own + further}
        compiler: Any = proxy.compiler
        compiling = process_of(compiler._work.workers._first)
        assert os.getpriority(os.PRIO_PROCESS, compiling) == own + NICENESS
        single: Any = alone.vault.engine
        assert niceness(process_of(single._first)) == {own}


@pytest.mark.full("starts processes")
@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < FIRST_KERNEL
    or os.uname().machine not in GET_ATTRIBUTES,
    reason="slices are asked for from Linux 6.12 on",
)
def test_what_computes_pauses_as_soon_as_somebody_wakes(tmp_path: Path) -> None:
    """That is so of whoever asks for longer slices than the others."""
    with CommandSettings().open_server(str(shop(tmp_path))) as proxy:
        assert proxy.ask(request(BY_COUNTRY)).rows
        engine: Any = proxy.vault.engine
        own = slice_seconds(0)
        computing = threads(process_of(engine._first))
        assert all(slice_seconds(thread) > own for thread in computing)
