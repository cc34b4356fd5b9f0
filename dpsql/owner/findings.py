"""Findings of a check: severity, counts, and the owner's acceptances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from dpsql.model.dataclass import dataclass
from dpsql.policy.draft import AcceptedFinding


class Severity(StrEnum):
    """Severity of a finding.

    An error removes a fact on which proofs rely, or leaves people unprotected; it must be fixed and
    cannot be accepted. A warning names values that are clipped or left out of answers. A reminder
    is not a mistake: the policy says so.
    """

    ERROR = "error"
    WARNING = "warning"
    REMINDER = "reminder"


@dataclass(frozen=True, slots=True)
class Finding:
    """One misfit: its place in the policy, its counts, and how to fix it.

    `kind` names the misfit. `rows` is the number of affected rows (or units, or values), `total`
    the number of all; None if it is not part of a whole.
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
        """Identifier in every data version: the kind, and the place.

        >>> Finding(1, "t", "c", "", rows=1, fix="", kind="bounds").id
        'bounds:t.c'
        """
        return f"{self.kind}:{self.table}" + (f".{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A finding with the owner's acceptance; `why` is its reason, or why it does not count, ""
    without one.
    """

    finding: Finding
    accepted: bool
    why: str

    @property
    def fails(self) -> bool:
        """True if the owner has to act."""
        return self.finding.severity is not Severity.REMINDER and not self.accepted


def reviewed(
    findings: Iterable[Finding], accepted: Sequence[AcceptedFinding], data_version: int
) -> tuple[Reviewed, ...]:
    """Return each finding with its acceptance, and the acceptances without a finding.

    An acceptance counts for one data version and up to its ceiling, never for an error.
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
