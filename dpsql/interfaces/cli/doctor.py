"""`dpsql doctor`: versions, results of the conformance probes, and missing extras."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.engines.versions import require_tested
from dpsql.interfaces.cli.options import CommandSettings, with_settings
from dpsql.interfaces.tables import grid
from dpsql.interfaces.wordings import ExitCode

if TYPE_CHECKING:
    from dpsql.preparation.engine_admission import Conformance

_REQUIREMENT = re.compile(r"""([\w.-]+).*;.*extra == ['"]([\w-]+)['"]""")
_FOR_TESTS = ("test", "test-all")


@click.command()
@with_settings
def doctor(settings: CommandSettings) -> int:
    """Print versions, the outcome of the conformance probes, and which extras are missing."""
    require_tested()
    conformances = _conformances(Path(settings.policy))
    rows = [("python", platform.python_version(), "")]
    rows += [(each.name, each.version, _words(each)) for each in conformances]
    rows += [(f"extra {name}", "", words) for name, words in _extras()]
    click.echo("\n".join(grid([("part", "version", "state"), *rows])))
    return ExitCode.ANSWERED if all(each.usable for each in conformances) else ExitCode.UNREACHABLE


def _conformances(policy: Path) -> tuple[Conformance, ...]:
    """Return the conformance of the policy's engines, or of installed packages without a policy."""
    from dpsql.preparation.engine_admission import (  # noqa: PLC0415
        check_conformance,
        check_engines,
    )

    if not policy.is_file():
        return check_conformance(policy.resolve().parent)
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.preparation.engine_kinds import opened  # noqa: PLC0415

    draft = load(str(policy))
    with closing(opened(draft)) as engine:
        return check_engines(draft, engine)


def _words(conformance: Conformance) -> str:
    """Return words for the state of an engine."""
    if conformance.tried:
        return "tried"
    if not conformance.usable:
        return "unusable: the core deviates from tried versions"
    if conformance.deviations:
        return f"probed; refused by name: {', '.join(sorted(conformance.deviations))}"
    tried = f" ({', '.join(conformance.versions)})" if conformance.versions else ""
    return f"probed: agrees with tried versions{tried}"


def _extras() -> Iterator[tuple[str, str]]:
    """Yield each extra, and the command that installs it if it is missing."""
    missing: dict[str, bool] = {}
    for requirement in requires("dpsql") or ():
        match = _REQUIREMENT.match(requirement)
        if match and match[2] not in _FOR_TESTS:
            missing[match[2]] = missing.get(match[2], False) or not _is_installed(match[1])
    for name, absent in missing.items():
        yield name, f"missing: pip install 'dpsql[{name}]'" if absent else "installed"


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
