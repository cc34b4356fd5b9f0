"""Answers of the proxy and the catalogue for one session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpsql.answering.any_statement import ColumnsOf
from dpsql.dialects.postgres.words import Numbered, Piece, numbered, pieces
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Load, Stop
from dpsql.interfaces.amounts import significant_places
from dpsql.interfaces.asking import answered
from dpsql.interfaces.doors import WIRE
from dpsql.interfaces.listing import columns_of, listed
from dpsql.interfaces.pgwire.catalogue.listed_views import Views
from dpsql.interfaces.pgwire.catalogue.naming import searched
from dpsql.interfaces.pgwire.catalogue.spending import REPORTS, report
from dpsql.interfaces.pgwire.faults import Fault, fault_of
from dpsql.interfaces.pgwire.kept_bytes import FLAT
from dpsql.interfaces.pgwire.portals import Result
from dpsql.interfaces.pgwire.settings import with_settings
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn, WireResult
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.shown_intervals import PLAIN, TEXT, show_answer, shown_columns
from dpsql.model.bound_parameters import frozen
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.delegation import Chain
from dpsql.model.errors import DpsqlError
from dpsql.model.tree import SqlType
from dpsql.model.vocabulary import Answer, Column, Loss, Request, TablePolicy
from dpsql.preparation import long_texts

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


T = TypeVar("T")
DIALECT = "postgres"
FREE = Loss(0)
_SILENT = frozenset({"warning", "error"})
"""Values of client_min_messages that suppress notices."""
REMEMBERED_CHARACTERS = 1 << 19
"""Maximum size in characters of a session's cache of catalogue tests."""


class CatalogueAnswers(Protocol):
    """Answers queries about tables, types and settings from the policy alone."""

    def claims(self, sql: str, stop: Stop) -> bool:
        """Test whether a statement reads only catalogue relations and functions."""

    def describe(self, sql: str, parameters: int, stop: Stop) -> tuple[WireColumn, ...]:
        """Return its columns before its parameters are known."""

    def parameter_types(self, sql: str, parameters: int, stop: Stop) -> tuple[int, ...]:
        """Return the types of its parameters."""

    def ask(
        self, sql: str, parameters: tuple[Any, ...], given: Sequence[Load], stop: Stop
    ) -> WireResult:
        """Return its answer, from the catalogue and the tables in `given`."""

    def shown(self, views: Views, synthetic: Sequence[TablePolicy] = ()) -> Sequence[Load]:
        """Return the tables for `given`: the session's views and the analyst's `synthetic`
        tables.
        """


@dataclass(frozen=True, slots=True)
class Description:
    """Parameter types and columns of a statement; columns are None if it returns no rows."""

    parameters: tuple[int, ...]
    columns: tuple[WireColumn, ...] | None


class Answers:
    """The proxy and the catalogue for one analyst."""

    def __init__(
        self,
        proxy: Proxy,
        catalogue: Callable[..., CatalogueAnswers],
        analyst: str,
    ) -> None:
        self.analyst = analyst
        self.take_up(proxy, catalogue)

    def take_up(self, proxy: Proxy, catalogue: Callable[..., CatalogueAnswers]) -> None:
        """Use another proxy and catalogue from now on. An agent's `catalogue` is made of its
        chain.
        """
        self.proxy, self._make_catalogue = proxy, catalogue
        self._catalogue: CatalogueAnswers | None = None
        self._chain: Chain = ()
        self._claimed: BoundedCache[tuple[bool, int]] = BoundedCache(
            REMEMBERED_CHARACTERS, lambda entry: entry[1]
        )

    @property
    def catalogue(self) -> CatalogueAnswers:
        """The catalogue, made on first use, and when the chain of an agent is another.

        Raises `Fault` if the analyst may not ask any more. The server then ends the connection.
        """
        if self.is_of_policy:
            self._catalogue = self._catalogue or self._make_catalogue()
            return self._catalogue
        if not may_ask(self.proxy, self.analyst):
            raise Fault("57P01", "the user may no longer log in")
        chain = self.proxy.chain(self.analyst)
        if self._catalogue is None or chain != self._chain:
            self._catalogue, self._chain = self._make_catalogue(chain), chain
        return self._catalogue

    @property
    def is_of_policy(self) -> bool:
        """True for an analyst of the policy, false for an agent of one."""
        return self.analyst in dict(self.proxy.policy.analysts)

    @property
    def person(self) -> str:
        """The person for whom an agent asks, else the analyst; shares of the server are theirs."""
        return self.proxy.ledger.person_of(self.analyst)

    def stamp(self, seconds: float) -> object:
        """Return the stamp of cached answers; see `answer_stamp`.

        None for an agent, which has no such answers: its delegation may end at any moment.
        """
        return answer_stamp(self.proxy, seconds) if self.is_of_policy else None

    def read(self, reader: Callable[[Piece], T], piece: Piece, stop: Stop) -> T:
        """Return the result of a reader of statements. Raises as `long_texts.read` does."""
        return long_texts.read(self.proxy.compiler.apart, len(piece.text), stop, reader, piece)

    def pieces(self, text: str, stop: Stop) -> tuple[Piece, ...]:
        """Return the statements of a text. Raises as `read` does."""
        return long_texts.read(self.proxy.compiler.apart, len(text), stop, pieces, text)

    def claims(self, piece: Piece, stop: Stop) -> bool:
        """Test whether the catalogue answers this statement."""
        entry = self._claimed.get(piece.text)
        if entry is None:
            entry = self.catalogue.claims(piece.text, stop), FLAT + len(piece.text)
            self._claimed.put(piece.text, entry)
        return entry[0]

    def describe(
        self, piece: Piece, declared: Sequence[int], settings: Mapping[str, str], stop: Stop
    ) -> Description:
        """Return parameter types and columns of a query. Raises `Fault`."""
        with placed(piece):
            return self._described(piece, declared, settings, stop)

    def _described(
        self, piece: Piece, declared: Sequence[int], settings: Mapping[str, str], stop: Stop
    ) -> Description:
        wish = read_listing(piece.text)
        if wish is not None:
            return Description((), told_columns(columns_of(wish)))
        query, claimed = self._read(piece, stop)
        count = max((*query.numbers, len(declared)), default=0)
        given = [*declared, *[0] * (count - len(declared))]
        if claimed:
            expected = self.catalogue.parameter_types(piece.text, count, stop)
            types = tuple(a or b for a, b in zip(given, expected, strict=True))
            return Description(types, self.catalogue.describe(piece.text, count, stop))
        request = self._request(query, (), settings)
        kinds = [type_oids.kind_of(given[number - 1]) for number in query.numbers]
        signature = self.proxy.run(ColumnsOf(request, query.places, kinds), stop)
        types = _settled(given, query, signature.parameters)
        if any(n > 1 for n in map(query.numbers.count, query.numbers)):
            kinds = [type_oids.kind_of(types[number - 1]) for number in query.numbers]
            signature = self.proxy.run(ColumnsOf(request, query.places, kinds), stop)
        columns = signature.columns
        if types:  # a value that comes later may be larger
            columns = tuple(replace(column, small=False) for column in columns)
        return Description(types, told_columns(columns, settings["dpsql.errors"]))

    def ask(
        self,
        piece: Piece,
        values: Sequence[Any],
        transaction: Transaction,
        stop: Stop,
        announced: Sequence[WireColumn] = (),
    ) -> Result:
        """Return the answer with its notices. Its columns may be `announced`. Raises `Fault`."""
        with placed(piece):
            return self._result(piece, values, transaction, stop, announced)

    def _result(
        self,
        piece: Piece,
        values: Sequence[Any],
        transaction: Transaction,
        stop: Stop,
        announced: Sequence[WireColumn],
    ) -> Result:
        settings = transaction.settings
        wish = read_listing(piece.text)
        if wish is not None:
            synthetic = self.proxy.own_tables(self.analyst, stop)
            policy = self.proxy.policy_of(self.analyst)
            rows = listed(wish, policy, searched(settings["search_path"]), synthetic)
            columns = told_columns(rows.columns)
            return Result(columns, rows.rows, "SELECT", counted=True)
        query, claimed = self._read(piece, stop)
        _require_given(query, len(values), piece)
        if claimed:
            reports = [
                report(self.proxy, self.analyst, function)
                for function in self.read(_named_reports, piece, stop)
            ]
            synthetic = self.proxy.own_tables(self.analyst, stop)
            given = [*reports, *self.catalogue.shown(transaction.views, synthetic)]
            table = self.catalogue.ask(piece.text, tuple(values), given, stop)
            return Result(table.columns, table.rows, "SELECT", counted=True, repeatable=not reports)
        ordered = frozen(values[number - 1] for number in query.numbers)
        narrow = frozenset(n for n, c in enumerate(announced) if type_oids.is_narrow(c.oid))
        # The announced columns must come, even if settings changed since.
        errors = settings["dpsql.errors"]
        if announced:
            errors = next((c.errors for c in announced if c.errors), PLAIN)
        request = self._request(query, ordered, settings)
        request = replace(request, narrow=narrow, flowing=errors == PLAIN)
        if is_scan(piece) and self.proxy.explain(request, stop).charge > FREE:
            raise refusal()
        return _answered(answered(self.proxy, request, stop, WIRE), settings, errors)

    def _request(
        self, query: Numbered, values: tuple[Any, ...], settings: Mapping[str, str]
    ) -> Request:
        request = Request(query.text, self.analyst, DIALECT, values, flowing=True, door=DIALECT)
        return with_settings(request, settings)

    def _read(self, piece: Piece, stop: Stop) -> tuple[Numbered, bool]:
        """Return the statement with numbered parameters, and whether the catalogue answers it."""
        return self.read(numbered, piece, stop), self.claims(piece, stop)


def answer_stamp(proxy: Proxy, seconds: float) -> object:
    """Return a value that stays equal while all cached answers do; None if the ledger is busy
    longer.
    """
    stamp = proxy.vault.stamp(seconds, proxy.policy.limits.time_resolution)
    return stamp and (stamp, proxy.systems.changes)


def may_ask(proxy: Proxy, name: str) -> bool:
    """Test whether a name is an analyst of the policy, or an agent of one; false in doubt."""
    try:
        person = chain[-1].delegator if (chain := proxy.chain(name)) else name
    except DpsqlError:
        return False
    return proxy.policy.budget_of(person) is not None


def _answered(answer: Answer, settings: Mapping[str, str], errors: str) -> Result:
    """Return an answer for the wire, with intervals as columns or in texts if `errors` says so."""
    columns = told_columns(answer.columns, errors)
    notices = _notices(answer, settings)
    answer = show_answer(answer, errors, settings["dpsql.digits"])
    return Result(
        columns,
        answer.rows,
        "SELECT",
        counted=True,
        notices=notices,
        repeatable=is_lasting(answer),
        receipt=answer.receipt,
        flow=answer.flow,
    )


def _named_reports(piece: Piece) -> list[str]:
    """Return the report functions in a statement."""
    return sorted({word.value for word in piece.words} & REPORTS.keys())


def is_lasting(answer: Answer) -> bool:
    """Test whether a repeated query has the same answer until data, ledger or day change.

    This holds for remembered answers and for public rows.
    """
    if answer.receipt is None:
        return answer.explanation is None
    return answer.receipt.remembered


def _require_given(query: Numbered, count: int, piece: Piece) -> None:
    """Raise `Fault` unless every `$n` has a value."""
    for number, place in zip(query.numbers, query.places, strict=True):
        if not 1 <= number <= count:
            missing = f"there is no parameter ${number}"
            raise Fault("42P02", missing, position=piece.position(place.start))


@contextmanager
def placed(piece: Piece) -> Iterator[None]:
    """Turn errors about a statement into faults, with positions in the whole message."""
    try:
        yield
    except DpsqlError as error:
        raise fault_of(error, piece) from None


def told_columns(columns: Sequence[Column], errors: str = PLAIN) -> tuple[WireColumn, ...]:
    """Return columns for the wire, as `shown_columns` has them; those of intervals are marked."""
    shown = shown_columns(columns, errors)
    marks = [errors == TEXT and c.type.is_measured for c in columns]
    marks += [True] * (len(shown) - len(columns))
    return tuple(
        WireColumn(
            c.name,
            type_oids.oid_of(c.type, wide=c.wide, small=c.small),
            errors=errors if mark else "",
        )
        for c, mark in zip(shown, marks, strict=True)
    )


def _settled(given: Sequence[int], query: Numbered, kinds: Sequence[SqlType]) -> tuple[int, ...]:
    """Return the type of each `$n`: as declared, or as at its first place, or text."""
    types = list(given)
    for number, kind in zip(query.numbers, kinds, strict=True):
        if types[number - 1] in (0, type_oids.UNKNOWN):
            types[number - 1] = type_oids.oid_of(kind)
    return tuple(kind or type_oids.TEXT for kind in types)


def _notices(answer: Answer, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the notices of an answer, and its cost and errors if dpsql.notices is on.

    A plan has no notices, since it contains them.
    """
    if answer.explanation is not None or settings["client_min_messages"] in _SILENT:
        return ()
    texts = sentences(answer.notices, answer.columns, WIRE)
    if settings["dpsql.notices"] != "on":
        return texts
    errors = _errors(answer) if settings["dpsql.errors"] == "none" else ()
    return (cost_text(answer.receipt), *errors, *texts)


def _errors(answer: Answer) -> Iterator[str]:
    """Yield the largest error of each noisy column."""
    for n, column in enumerate(answer.columns):
        margins = [row[n] for row in answer.margins]
        finite = [m for m in margins if m is not None and not isnan(m)]
        if any(m is not None and isnan(m) for m in margins):
            yield f"{column.name}: ± ?"
        elif finite:
            most = max(finite)
            places = significant_places(most) if most > 0 else 0
            yield f"{column.name}: ± {most:,.{places}f} at 95 %"


_UNASKED = re.compile(r"--\s*Metabase\s*\Z")


def is_scan(piece: Piece) -> bool:
    r"""Test whether a statement is an automatic scan of Metabase.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> [is_scan(*pieces(f"-- Metabase{who}\nSELECT 1")) for who in ("", ":: userID: 1")]
    [True, False]
    """
    return _UNASKED.match(piece.remark) is not None


def refusal() -> Fault:
    """Return the refusal of a scan that would cost something."""
    return Fault(
        "42501",
        "Metabase scans this column by itself, and that would cost.",
        "Values that the policy lists are free; other values of a column cost.",
        "Turn off scans of this column in Metabase, or ask for its values as a question.",
    )
