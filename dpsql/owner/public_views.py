"""Public views that raise on a row: `check` names each, and continues with the other tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsql.engines import Engine, EngineFailed
from dpsql.model.dataclass import replace
from dpsql.model.errors import PolicyError
from dpsql.model.schema import Schema
from dpsql.model.table_names import address
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Policy
from dpsql.owner.findings import Finding, Severity
from dpsql.policy.draft import Draft
from dpsql.preparation.bound_policy import bound_to

_Rows = Callable[[str], Sequence[tuple[Any, ...]]]


def raising_views(draft: Draft, schema: Schema, rows: _Rows) -> tuple[Finding, ...]:
    """Find the public views that cannot be read whole."""
    public = (schema.table(table.name) for table in draft.tables if not table.private)
    views = (table for table in public if table is not None and (table.view or table.foreign))
    findings = list[Finding]()
    for view in views:
        columns = (c.name for c in view.columns if c.reading is None or not c.reading.path)
        counted = ", ".join(f"COUNT({identifier(name)})" for name in columns)
        try:
            rows(f"SELECT {counted or 'COUNT(*)'} FROM {address(view.name)}")
        except EngineFailed:
            finding = Finding(
                line=draft.lines.of(("tables", view.name)),
                table=view.name,
                column=None,
                message=f"{view.name}: reading this public view fails on one of its rows.",
                rows=0,
                fix="Mend the view, as by TRY_CAST; store its rows; or leave it out.",
                kind="raises",
                severity=Severity.ERROR,
            )
            findings.append(finding)
    return tuple(findings)


def bound_for_check(draft: Draft, engine: Engine) -> tuple[Policy, Schema, tuple[Finding, ...]]:
    """Return the policy without the views that raise, the schema, and the findings about these
    views.

    Raises `PolicyError`, which names the view, if values are listed from one of them.
    """
    try:
        policy, schema = bound_to(draft, engine)
    except EngineFailed:
        for finding in raising_views(draft, engine.schema(), engine.rows):
            raise PolicyError(draft.path, finding.line, finding.message, finding.fix) from None
        raise
    findings = raising_views(draft, schema, engine.rows)
    raising = {finding.table.lower() for finding in findings}
    readable = tuple(t for t in policy.tables if t.name.lower() not in raising)
    return replace(policy, tables=readable), schema, findings
