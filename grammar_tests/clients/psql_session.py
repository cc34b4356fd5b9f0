"""What psql's users type: commands that look around, and scripts of a psql of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from grammar_tests.clients.asked import CODES, CONSTANTS, SLOW, tell, until_done

COMMANDS = (
    "\\l", "\\dt", "\\dn", "\\du", "\\dv", "\\dp orders", "\\dT", "\\df abs", "\\d customers",
    "\\d+ orders", "\\d items", "\\d orders_pkey", "\\dd", "\\det", "\\encoding",
    "\\x \\\\ SELECT code FROM countries ORDER BY code;",
)  # fmt: skip
SCRIPTS = {
    "constants": CONSTANTS,
    "fetched": f"\\set FETCH_COUNT 2\n{CODES}",
    "described": "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment \\gdesc",
    "prepared": "PREPARE p (text) AS SELECT code FROM countries WHERE code = $1; EXECUTE p ('NO');",
    "copied": f"\\copy ({CODES}) TO STDOUT WITH (FORMAT csv, HEADER)",
    "crossed": "SELECT region, code, 1 AS one FROM countries ORDER BY 1, 2 \\crosstabview",
    "failure": f"BEGIN;\nSAVEPOINT a;\nSELECT nothing FROM customers;\n{CODES};\nROLLBACK TO a;\n"
    f"{CODES};\nSELECT 1 FROM nowhere;\nCOMMIT;\n{CODES};",
    "kept going": f"\\set ON_ERROR_ROLLBACK on\nBEGIN;\nSELECT 1 FROM nowhere;\n{CODES};\nCOMMIT;",
    "timeout": f"SET statement_timeout = '300ms';\n{SLOW};",
}


def psql(*arguments: str, script: str = "") -> Any:
    return subprocess.run(  # noqa: S603
        ["psql", "-X", "-v", "VERBOSITY=sqlstate", *arguments],  # noqa: S607
        input=script + "\n",
        capture_output=True,
        text=True,
        check=False,
    )


def cancelled() -> list[Any]:
    """Interrupted as by Ctrl-C, when it says that it listens."""
    command = ["psql", "-X", "-v", "VERBOSITY=sqlstate", "-c", "\\! echo ready", "-c", SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:  # noqa: S603
        assert running.stdout is not None
        running.stdout.readline()
        out, err = until_done(running.communicate, lambda: os.kill(running.pid, signal.SIGINT))
        sent = [line for line in err.decode().splitlines() if line != "Cancel request sent"]
        return [out.decode(), sent]


def main() -> None:
    marked = "\n".join(f"\\echo %%\n{command}" for command in COMMANDS)
    done = psql(script=marked)
    parts = done.stdout.split("%%\n")[1:]
    tell("errors", [done.returncode, done.stderr])
    for command, told in zip(COMMANDS, parts, strict=True):
        tell(command, told)
    for name, script in SCRIPTS.items():
        done = psql("-q", script=script)
        tell(name, [done.returncode, done.stdout, done.stderr])
    tell("cancel", cancelled())


if __name__ == "__main__":
    main()
