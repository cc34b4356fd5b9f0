"""A process that asks an untried DuckDB the conformance probes and may crash alone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import _duckdb as duckdb

from dpsql.engines import EngineFailed, conformance
from dpsql.engines.duckdb.hardening import configuration

SECONDS = 60
"""Time limit; a longer run counts as a deviation of the core."""

PARQUET = "file.parquet"
"""Path by which probes name the Parquet file in their folder."""


def find_deviations_apart() -> frozenset[str]:
    """Return the deviations of the installed DuckDB, found in a separate process."""
    code = f"from {__name__} import main; main()"
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        return frozenset(json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError):
        return frozenset({conformance.CORE, *conformance.CORE_FUNCTIONS})


def main() -> None:
    """Print the deviations as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        deviations = conformance.find_deviations(
            conformance.load_probes("duckdb"), run_alone(Path(folder) / PARQUET)
        )
    print(json.dumps(sorted(deviations)))  # noqa: T201


def run_alone(path: Path) -> conformance.Run:
    """Return a function that runs a statement on an empty DuckDB with the usual settings.

    Writes the Parquet file that some probes read to `path`.
    """
    path.write_bytes(base64.b64decode(conformance.load_record()["file"]))
    connection = duckdb.connect(":memory:", config=configuration("1GB"))
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")

    def run(sql: str) -> Sequence[tuple[Any, ...]]:
        try:
            rows: list[tuple[Any, ...]] = connection.execute(
                sql.replace(PARQUET, str(path))
            ).fetchall()
        except (duckdb.Error, OverflowError, ValueError):
            raise EngineFailed from None
        return rows

    return run


def engine_key() -> str:
    """Return a hash of the installed engine's binary."""
    return sha256(Path(duckdb.__file__).read_bytes()).hexdigest()[:32]
