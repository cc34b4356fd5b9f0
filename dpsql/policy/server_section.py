"""The table [server] of a policy file → ServerSettings."""

from __future__ import annotations

from pathlib import Path

from dpsql.policy.draft import ServerSettings
from dpsql.policy.value_reader import Reader

MOST_SECONDS = 10**6
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
_SECONDS = ("login_seconds", "idle_seconds", "idle_in_transaction_seconds", "answer_seconds")
_MEMORY = ("memory", "session_memory", "analyst_memory")
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
"""Least size of a message, which must have room for the longest query."""


ERRORS = ("none", "columns", "superset", "text")
"""Forms in which intervals are shown over the wire."""


def server(reader: Reader, folder: Path, analysts: Reader) -> ServerSettings:
    """Return the settings as written, with files relative to the policy's folder. Raises
    `PolicyError`.
    """
    texts = ("host", "metrics_host", "errors", *_MEMORY, *_FILES)
    reader.only(*texts, "log_statements", *_COUNTS, *_SECONDS)
    default = ServerSettings()
    if ("certificate" in reader.values) != ("key" in reader.values):
        reader.fail(None, "A certificate needs its key.", "Give both certificate and key.")
    if "client_ca" in reader.values and "certificate" not in reader.values:
        reader.fail("client_ca", "Client certificates need TLS.", "Give certificate and key, too.")
    given = [name for name in _FILES if name in reader.values or name == "users"]
    own = ((name, reader) for name, reader in analysts.tables() if "errors" in reader.values)
    return ServerSettings(
        host=reader.text("host", default.host),
        metrics_host=reader.text("metrics_host", default.metrics_host),
        **{n: str(folder / reader.text(n, getattr(ServerSettings(), n))) for n in given},
        log_statements=reader.flag("log_statements"),
        memory=reader.memory("memory", default.memory),
        session_memory=reader.memory("session_memory", default.session_memory),
        analyst_memory=reader.memory("analyst_memory", default.analyst_memory),
        port=_count(reader, "port") or default.port,
        max_connections=_count(reader, "max_connections") or default.max_connections,
        max_connections_per_analyst=_count(reader, "max_connections_per_analyst"),
        max_message_bytes=_message(reader) or default.max_message_bytes,
        metrics_port=_count(reader, "metrics_port"),
        login_seconds=seconds_of(reader, "login_seconds", default.login_seconds),
        workers=_count(reader, "workers") or default.workers,
        idle_seconds=seconds_of(reader, "idle_seconds", default.idle_seconds),
        idle_in_transaction_seconds=seconds_of(
            reader, "idle_in_transaction_seconds", default.idle_in_transaction_seconds
        ),
        answer_seconds=seconds_of(reader, "answer_seconds", default.answer_seconds),
        max_late=_count(reader, "max_late") or default.max_late,
        errors=reader.choice("errors", ERRORS, default.errors),
        analyst_errors=tuple((name, reader.choice("errors", ERRORS)) for name, reader in own),
    )


def _count(reader: Reader, key: str) -> int | None:
    count = reader.count(key)
    if count is not None and count > _MOST[key]:
        reader.fail(key, f"{key} is at most {_MOST[key]}.", "Write a smaller one.")
    return count


def _message(reader: Reader) -> int | None:
    size = _count(reader, "max_message_bytes")
    if size is not None and size < LEAST_MESSAGE:
        least = f"A query may take {LEAST_MESSAGE} bytes."
        reader.fail("max_message_bytes", least, f"Write at least {LEAST_MESSAGE}.")
    return size


def seconds_of(reader: Reader, key: str, default: float) -> float:
    """Return a duration in seconds. Raises `PolicyError`."""
    seconds = reader.amount(key, str(default))
    if not 0 < seconds <= MOST_SECONDS:
        reader.fail(
            key,
            f"{key} must be above zero, and at most {MOST_SECONDS}.",
            f"Write {key} = {default:g}.",
        )
    return float(seconds)
