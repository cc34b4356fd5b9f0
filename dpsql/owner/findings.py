"""What a check finds: how grave it is, of how many, and which of it an owner has accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from dpsql.model.dataclass import dataclass
from dpsql.policy.draft import AcceptedFinding


class Severity(StrEnum):
    """How grave a finding is.

    An error takes a fact away on which proofs lean, or leaves people unprotected: it can be mended,
    and not accepted. A warning says what is clipped or left out of answers. A reminder is no
    mistake: the policy says so.
    """

    ERROR = "error"
    WARNING = "warning"
    REMINDER = "reminder"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit: what and where in the policy, how many of how many, how to mend
    it.

    `kind` is what is wrong, in a few words, `rows` how many rows (or units, or values) it is true
    of, and `total` how many there are; None where that is no part of a whole.
    """

    line: int
    table: str
    column: str | None
    message: str
    rows: int
    fix: str
    kind: str = "reminder"
    severity: Severity = Severity.REMINDER
    total: int | None = None

    @property
    def id(self) -> str:
        """What it is called, in every data version: the kind, and where.

        >>> Finding(1, "t", "c", "", rows=1, fix="", kind="bounds").id
        'bounds:t.c'
        """
        return f"{self.kind}:{self.table}" + (f".{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A finding beside what its owner said of it: accepted, or why that does not count; "" where
    nothing was said.
    """

    finding: Finding
    accepted: bool
    why: str

    @property
    def fails(self) -> bool:
        """Whether the owner has something to do."""
        return self.finding.severity is not Severity.REMINDER and not self.accepted


def reviewed(
    findings: Iterable[Finding], accepted: Sequence[AcceptedFinding], data_version: int
) -> tuple[Reviewed, ...]:
    """Each finding beside what was accepted, and what was accepted and is not found.

    That counts for one data version and up to its ceiling, never for what breaks a proof.
    """
    findings = tuple(findings)
    by_id = {each.finding: each for each in accepted}
    result = [_review(finding, by_id.get(finding.id), data_version) for finding in findings]
    for each in accepted:
        if each.finding not in {finding.id for finding in findings}:
            message = f"{each.finding} is accepted and is not found."
            idle = Finding(each.line, "check", None, message, rows=0, fix="Remove it from accept.")
            result.append(Reviewed(idle, accepted=False, why=""))
    return tuple(sorted(result, key=lambda review: review.finding.line))


def _review(finding: Finding, said: AcceptedFinding | None, data_version: int) -> Reviewed:
    if said is None:
        return Reviewed(finding, accepted=False, why="")
    if finding.severity is Severity.ERROR:
        return Reviewed(finding, accepted=False, why="what breaks a proof cannot be accepted")
    if said.data_version != data_version:
        why = f"accepted for data version {said.data_version}, and this is {data_version}"
        return Reviewed(finding, accepted=False, why=why)
    if finding.rows > said.at_most:
        return Reviewed(finding, accepted=False, why=f"accepted up to {said.at_most:,}")
    return Reviewed(finding, accepted=True, why=said.reason)
