"""Free answers of the command line and Python: the catalogue, as over the wire.

Catalogue queries read only the policy and the analyst's own spending (SECURITY.md S17).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from dpsql.dialects.postgres.words import WordKind, words
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Stop
from dpsql.interfaces.asking import answered
from dpsql.interfaces.listing import listed
from dpsql.model.tree import VARCHAR, SqlType
from dpsql.model.vocabulary import Answer, Column, Request

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

_WIDE = Context(prec=60)
_REPORTED = ("dpsql_budget", "dpsql_history", "dpsql_values")
_NAMES_IT = re.compile(rf"\b(information_schema|pg_[a-z_]+|{'|'.join(_REPORTED)})\b", re.IGNORECASE)
"""Names that occur only in catalogue queries. Other texts skip the catalogue."""


def answered_here(proxy: Proxy, request: Request, stop: Stop | None = None) -> Answer:
    """Answer from the catalogue if a text reads only that, else from the proxy; see `answered`."""
    catalogued = free_answer(proxy, request, stop)
    return answered(proxy, request, stop) if catalogued is None else catalogued


def free_answer(proxy: Proxy, request: Request, stop: Stop | None = None) -> Answer | None:
    """Answer SHOW TABLES, DESCRIBE and catalogue queries for free; None for other queries.

    Raises `Refused` for an unknown table, and as `Catalogue.ask` does.
    """
    wish = read_listing(request.sql)
    if wish is not None:
        synthetic = proxy.own_tables(request.analyst)
        policy = proxy.policy_of(request.analyst)
        return listed(wish, policy, request.search_path, synthetic)
    if _NAMES_IT.search(request.sql) is None:
        return None
    from dpsql.interfaces.pgwire.catalogue import Catalogue  # noqa: PLC0415

    chain, text = proxy.chain(request.analyst), _numbered(request.sql)
    catalogue = Catalogue(proxy.policy, request.analyst, {}, chain)
    if not catalogue.claims(text, stop):
        return None
    from dpsql.interfaces.pgwire.catalogue.spending import report  # noqa: PLC0415
    from dpsql.interfaces.pgwire.values.type_oids import kind_of  # noqa: PLC0415

    named = {word.value for word in words(text)}
    reports = [report(proxy, request.analyst, name) for name in _REPORTED if name in named]
    given = [*reports, *catalogue.shown((), proxy.own_tables(request.analyst))]
    table = catalogue.ask(text, request.parameters, given, stop)
    return _exact([(c.name, kind_of(c.oid) or VARCHAR) for c in table.columns], table.rows)


def spending(proxy: Proxy, analyst: str, function: str) -> Answer:
    """Return a report of `_REPORTED` for an analyst, without a catalogue query."""
    from dpsql.interfaces.pgwire.catalogue.spending import report  # noqa: PLC0415

    table = report(proxy, analyst, function)
    kinds = [kind for _, kind in table.columns]
    rows = [tuple(map(_trimmed, row, kinds)) for row in table.rows]
    return _exact(table.columns, rows)


def _trimmed(value: Any, kind: SqlType) -> Any:
    """Return an amount with the decimal places of its column."""
    if not isinstance(value, Decimal):
        return value
    return value.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)


def _numbered(sql: str) -> str:
    """Return the text with `$n` for every `?`, as the catalogue reads it."""
    parts, at, number = [], 0, 0
    for word in words(sql):
        if word.kind is WordKind.SIGN and word.text == "?":
            number += 1
            parts += [sql[at : word.start], f"${number}"]
            at = word.stop
    return "".join([*parts, sql[at:]])


def _exact(columns: Sequence[tuple[str, SqlType]], rows: Sequence[Sequence[Any]]) -> Answer:
    """Return exact rows as an answer. Unknown types become text."""
    texts = [kind == VARCHAR for _, kind in columns]
    cells = tuple(
        tuple(str(v) if text and v is not None else v for v, text in zip(row, texts, strict=True))
        for row in rows
    )
    nothing = ((None,) * len(columns),) * len(cells)
    return Answer(tuple(Column(name, kind) for name, kind in columns), cells, nothing, nothing)
