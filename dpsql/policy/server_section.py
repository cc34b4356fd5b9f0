"""[server]: where `dpsql serve` listens, whom it lets in, and its limits."""

from __future__ import annotations

from pathlib import Path

from dpsql.policy.draft import ServerSettings
from dpsql.policy.value_reader import Reader

_FILES = ("users", "certificate", "key", "client_ca")
_COUNTS = (
    "port",
    "max_connections",
    "max_connections_per_analyst",
    "max_message_bytes",
    "metrics_port",
    "workers",
    "max_late",
)
_SECONDS = ("login_seconds", "idle_seconds", "answer_seconds")
_MOST = {
    "port": 65_535,
    "metrics_port": 65_535,
    "max_connections": 10_000,
    "max_connections_per_analyst": 10_000,
    "max_message_bytes": 1 << 26,
    "workers": 64,
    "max_late": 1_000_000,
}
LEAST_MESSAGE = 1 << 16
"""A message must have room for the longest query."""


def server(reader: Reader, folder: Path) -> ServerSettings:
    """The table as written, its files relative to the policy's folder. Raises `PolicyError`."""
    reader.only("host", "log_statements", "memory", *_FILES, *_COUNTS, *_SECONDS)
    default = ServerSettings()
    if ("certificate" in reader.values) != ("key" in reader.values):
        reader.fail(None, "A certificate needs its key.", "Give both certificate and key.")
    if "client_ca" in reader.values and "certificate" not in reader.values:
        why = "Clients show certificates over TLS only."
        reader.fail("client_ca", why, "Give certificate and key, too.")
    paths = {
        name: str(folder / reader.text(name, getattr(default, name)))
        for name in _FILES
        if name in reader.values or name == "users"
    }
    return ServerSettings(
        host=reader.text("host", default.host),
        users=paths["users"],
        certificate=paths.get("certificate"),
        key=paths.get("key"),
        client_ca=paths.get("client_ca"),
        log_statements=reader.flag("log_statements"),
        memory=reader.memory("memory", default.memory),
        port=_count(reader, "port") or default.port,
        max_connections=_count(reader, "max_connections") or default.max_connections,
        max_connections_per_analyst=_count(reader, "max_connections_per_analyst"),
        max_message_bytes=_message(reader) or default.max_message_bytes,
        metrics_port=_count(reader, "metrics_port"),
        login_seconds=_seconds(reader, "login_seconds", default.login_seconds),
        workers=_count(reader, "workers") or default.workers,
        idle_seconds=_seconds(reader, "idle_seconds", default.idle_seconds),
        answer_seconds=_seconds(reader, "answer_seconds", default.answer_seconds),
        max_late=_count(reader, "max_late") or default.max_late,
    )


def _count(reader: Reader, key: str) -> int | None:
    found = reader.count(key)
    if found is not None and found > _MOST[key]:
        reader.fail(key, f"{key} is at most {_MOST[key]}.", "Write a smaller one.")
    return found


def _message(reader: Reader) -> int | None:
    found = _count(reader, "max_message_bytes")
    if found is not None and found < LEAST_MESSAGE:
        least = f"A query may take {LEAST_MESSAGE} bytes."
        reader.fail("max_message_bytes", least, f"Write at least {LEAST_MESSAGE}.")
    return found


def _seconds(reader: Reader, key: str, default: float) -> float:
    seconds = float(reader.amount(key, str(default)))
    if not 0 < seconds <= 10**6:
        reader.fail(key, f"{key} must be above zero, and at most 1000000.", f"Write {key} = 60.")
    return seconds
