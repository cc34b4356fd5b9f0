"""[check]: findings of `dpsql check` that an owner accepts, with reasons.

The policy is public: `at_most` is a round number that everybody may know.
"""

from __future__ import annotations

import re

from dpsql.policy.draft import AcceptedFinding
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.value_reader import Reader

_ID = re.compile(r"[a-z-]+:\S.*")


def accepted_findings(reader: Reader) -> tuple[AcceptedFinding, ...]:
    """Return the complete entries of `accept`. Raises `PolicyError`."""
    only_keys(reader, "check")
    entries = tuple(map(_accepted, reader.listed("accept")))
    reader.distinct(tuple(entry.finding for entry in entries), "accept")
    return entries


def _accepted(reader: Reader) -> AcceptedFinding:
    only_keys(reader, "check.accept")
    finding = reader.text("finding")
    if not _ID.fullmatch(finding):
        reader.fail("finding", f"{finding} is no finding.", "Write it as dpsql check prints it.")
    counts = {key: reader.count(key) for key in ("data_version", "at_most")}
    for key, count in counts.items():
        if count is None:
            reader.fail(None, f"{finding}: {key} is missing.", f"Write {key} = 1.")
    data_version, at_most = (count or 0 for count in counts.values())
    line = reader.lines.of(reader.path)
    return AcceptedFinding(finding, data_version, at_most, reader.text("reason"), line)
