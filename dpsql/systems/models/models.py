"""Models by name: CREATE MODEL, DROP MODEL, and queries that contain PREDICT.

A model is computed from releases that its analyst paid for, and can be recomputed for free. A query
with a prediction costs the same as a query with the numbers of the model in its text.

Readers of a model: PRIVACY.md R69, R82.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import nan
from typing import Any

from dpsql.answering.any_statement import ask_any, explain_any
from dpsql.answering.explain import PlannedCreation, explained_creation
from dpsql.answering.paid_names import DROPPED, Owner, PaidNames, owner, request_of
from dpsql.answering.side_systems import InPeriods, OpenSystem, OtherAnswers, PaidSource, Parts
from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.engines import Stop
from dpsql.ledgers import Entry
from dpsql.model.algebra import Relation
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.row_notices import Modelled
from dpsql.model.table import Repeated
from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.vocabulary import Answer, Column, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Explanation, unknown_errors
from dpsql.preparation.question import Question
from dpsql.systems.models import released_gradients
from dpsql.systems.models.methods import ModelPlan, planned
from dpsql.systems.models.model import CONFIDENT, Model, descended, fitted
from dpsql.systems.models.model_statement import (
    CreateModel,
    DropModel,
    ModelStatement,
    model_statement,
)
from dpsql.systems.models.moment_answers import MomentSums, PaidMoments, sums_of_moments
from dpsql.systems.models.moments_plan import MomentsPlan, MomentsWish
from dpsql.systems.models.predictions import Predictions, find_predictions
from dpsql.systems.models.released_moments import measured, remembered
from dpsql.vault.vault import Vault

CREATED = (
    Column("model", VARCHAR),
    Column("rows", INTEGER),
    Column("lasts", VARCHAR),
)
"""Columns of the answer to CREATE MODEL. Names last as described in
`dpsql.answering.paid_names`.
"""
MOST_KEPT = 256
"""Maximum number of models in the cache. Others are recomputed when needed."""


@dataclass(frozen=True, slots=True)
class _Named:
    """The statements that recreate a model, and whether the ledger holds its name."""

    wish: CreateModel
    of: MomentsWish
    recorded: bool = False

    @property
    def name(self) -> str:
        return self.wish.name

    @property
    def what(self) -> object:
        """The definition without name and ε: two names with equal definitions hold the same."""
        return replace(self.wish, name="", epsilon=None)

    @property
    def identity(self) -> tuple[object, ...]:
        """Key that distinguishes the model from all others."""
        return self.wish, self.of.request.epsilon

    def as_recorded(self, *, recorded: bool) -> _Named:
        return replace(self, recorded=recorded)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The moments of a model; None if it has none."""

    named: _Named
    moments: PaidMoments | None


class Models(OpenSystem):
    """The models of all analysts by name. Thread-safe."""

    in_periods = True

    def __init__(self) -> None:
        self.names = PaidNames("model", _recorded)
        self._models: BoundedCache[Model] = BoundedCache(MOST_KEPT)
        self._moments: BoundedCache[_Kept] = BoundedCache(MOST_KEPT)

    @property
    def changes(self) -> int:
        return self.names.changes

    def ask(self, parts: Parts, request: Request, statement: ModelStatement) -> Answer:
        """Make a model or forget one."""
        if isinstance(statement, DropModel):
            return self.names.drop(parts.compiler, parts.vault, request, statement.name)
        return self.create(parts.compiler, parts.vault, request, statement, parts.stop)

    def explain(self, parts: Parts, request: Request, statement: ModelStatement) -> Explanation:
        """Return the plan of a statement: runs nothing, charges nothing."""
        return self.explained(parts.compiler, parts.vault, request, statement, parts.stop)

    def columns(self, statement: ModelStatement) -> tuple[Column, ...]:
        return DROPPED if isinstance(statement, DropModel) else CREATED

    def instead(self, parts: Parts, request: Request, refused: Refused) -> OtherAnswers | None:
        """Return the question with the formulas of its predictions; None if it has none."""
        del refused
        calls = () if request.formulas else parts.compiler.formula_calls(request, parts.stop)
        if not calls:
            return None

        def look(name: str) -> Model:
            return self.model(parts.compiler, parts.vault, request.analyst, name, parts.stop)

        def apart(reader: Callable[[], Any]) -> Any:
            return parts.compiler.apart(reader, parts.stop)

        return PredictedQuestion(find_predictions(calls, request.dialect, look, apart))

    def source(self, parts: Parts, query: Question) -> PaidSource | None:
        """Return the answer to a question from the moments of models."""
        return self.sums(parts.compiler, parts.vault, query)

    def create(
        self,
        compiler: Compiler,
        vault: Vault,
        request: Request,
        said: CreateModel,
        stop: Stop,
    ) -> Answer:
        """Create a model. It is charged unless its measurement is remembered.

        Raises as `Proxy.ask` does.
        """
        named, whose = _named(request, said), owner(compiler, vault, request.analyst)
        self.names.require_free(vault, whose, named)
        plan = planned(compiler, vault, named.of, said, stop)
        model = _fitted(compiler, vault, named, plan, stop)
        own = replace(request, epsilon=named.of.request.epsilon)
        lasts = self.names.put(compiler, vault, own, named, model.receipt)
        self._models.put((whose, named.identity, data_of(compiler)), model)
        row = (said.name, model.rows, lasts)
        doubt = None, model.rows_error, None
        margins = None, CONFIDENT * model.rows_error, None
        return Answer(CREATED, (row,), (doubt,), (margins,), model.receipt, notices=plan.notices)

    def explained(
        self,
        compiler: Compiler,
        vault: Vault,
        request: Request,
        said: ModelStatement,
        stop: Stop,
    ) -> Explanation:
        """Return the plan of a statement: runs nothing, charges nothing."""
        if isinstance(said, DropModel):
            raise Refused(Reason.UNSUPPORTED_STATEMENT, statement="EXPLAIN of DROP MODEL")
        named = _named(request, said)
        plan = planned(compiler, vault, named.of, said, stop)
        expected = None, plan.margin_of_rows, None
        creation = PlannedCreation(CREATED, expected, plan.rows, plan.summary, plan.notices)
        return explained_creation(compiler, vault, plan.payer, plan.cost, creation)

    def listed(self, compiler: Compiler, vault: Vault, analyst: str, stop: Stop) -> Sequence[Model]:
        """Return the available models of an analyst, sorted by name."""
        whose = owner(compiler, vault, analyst)
        names = sorted(self.names.of(vault, whose))
        result = (self._model(compiler, vault, whose, name, stop) for name in names)
        return [model for model in result if model is not None]

    def model(self, compiler: Compiler, vault: Vault, analyst: str, name: str, stop: Stop) -> Model:
        """Return one model. Raises `Refused` if the name is unknown or has lapsed."""
        whose = owner(compiler, vault, analyst)
        model = self._model(compiler, vault, whose, name.lower(), stop)
        if model is None:
            raise self.names.unknown(vault, whose, name)
        return model

    def _model(
        self, compiler: Compiler, vault: Vault, whose: Owner, name: str, stop: Stop
    ) -> Model | None:
        """Return a model, recomputed from remembered releases; None if they are not remembered."""
        named = self.names.of(vault, whose).get(name)
        if named is None:
            return None
        key = whose, named.identity, data_of(compiler)
        model = self._models.get(key)
        if model is None:
            with suppress(Refused):  # in another spelling, say
                plan = planned(compiler, vault, named.of, named.wish, stop)
                model = _remade(compiler, vault, named, plan, stop)
            if model is not None:
                self._models.put(key, model)
        return model

    def sums(self, compiler: Compiler, vault: Vault, query: Question) -> MomentSums | None:
        """Return the answer to a query from the moments of the analyst's models, or None.

        Models of periods of people answer no other query.
        """
        if compiler.policy.period is not None:
            return None
        whose = owner(compiler, vault, query.request.analyst)
        names = tuple(self.names.of(vault, whose).items())
        moments = (self._paid(compiler, vault, (whose, *each), query.stop) for each in names)
        return sums_of_moments(compiler, vault, query, filter(None, moments))

    def _paid(
        self, compiler: Compiler, vault: Vault, of: tuple[Owner, str, _Named], stop: Stop
    ) -> PaidMoments | None:
        """Return the moments of a model if they are remembered, else None."""
        whose, name, named = of
        entry = self._moments.get((whose, name))
        if entry is None or entry.named != named:
            moments = None
            with suppress(Refused):
                plan = planned(compiler, vault, named.of, named.wish, stop)
                if isinstance(plan, MomentsPlan):
                    there = remembered(compiler, vault, named.of, plan, stop)
                    moments = PaidMoments(named.wish.name, plan, there) if there else None
            entry = _Kept(named, moments)
            self._moments.put((whose, name), entry)
        return entry.moments


def data_of(compiler: Compiler) -> object:
    """Return the data versions of periods of people, which begin new models (PRIVACY.md R103)."""
    return compiler.policy.period and compiler.policy.period.versions


def predicted(answer: Answer, predictions: Predictions, outer: Relation | None) -> Answer:
    """Return the answer to a query with predictions, with the errors of predicted numbers
    unknown.

    This concerns numbers without noise, and numbers that `outer` predicts from released ones. A
    notice names the models.
    """
    notices = (*answer.notices, Modelled(predictions.models, predictions.limited))
    if answer.receipt is None:
        doubts = Repeated(unknown_errors(answer.columns), len(answer.rows))
        return replace(answer, errors=doubts, margins=doubts, notices=notices)
    doubtful = _doubtful(predictions, outer, answer.columns)
    if not any(doubtful):
        return replace(answer, notices=notices)
    errors, margins = (
        tuple(_doubted(row, doubtful) for row in rows) for rows in (answer.errors, answer.margins)
    )
    return replace(answer, errors=errors, margins=margins, notices=notices)


def foreseen(
    explanation: Explanation, predictions: Predictions, outer: Relation | None
) -> Explanation:
    """Return the plan of a query with predictions, with the errors of predicted numbers unknown."""
    notices = (*explanation.notices, Modelled(predictions.models, predictions.limited))
    if not explanation.blocks and explanation.event is None:
        expected = unknown_errors(explanation.columns)
    else:
        doubtful = _doubtful(predictions, outer, explanation.columns)
        expected = (
            _doubted(explanation.expected, doubtful) if any(doubtful) else explanation.expected
        )
    return replace(explanation, expected=expected, notices=notices)


def _doubtful(
    predictions: Predictions, outer: Relation | None, columns: Sequence[Column]
) -> Sequence[bool]:
    """Return a flag per column: whether it is a number predicted from released ones."""
    if outer is None:
        return [False] * len(columns)
    among = predictions.among(outer)
    pairs = zip(columns, outer.fields, strict=True)
    return [column.type.is_measured and field.id in among for column, field in pairs]


def _doubted(row: Sequence[float | None], doubtful: Sequence[bool]) -> tuple[float | None, ...]:
    return tuple(nan if doubt else own for own, doubt in zip(row, doubtful, strict=True))


def _fitted(compiler: Compiler, vault: Vault, named: _Named, plan: ModelPlan, stop: Stop) -> Model:
    """Return the model, measured and charged now unless its measurement is remembered."""
    if isinstance(plan, MomentsPlan):
        model = fitted(measured(compiler, vault, named.of, plan, stop), named.wish)
    else:
        gradients = released_gradients.descended(compiler, vault, named.of, named.wish, plan, stop)
        model = descended(gradients, named.wish)
    return replace(model, notices=plan.notices)


def _remade(
    compiler: Compiler, vault: Vault, named: _Named, plan: ModelPlan, stop: Stop
) -> Model | None:
    """Return the model from an earlier charged measurement; None if it is not remembered."""
    if isinstance(plan, MomentsPlan):
        moments = remembered(compiler, vault, named.of, plan, stop)
        model = None if moments is None else fitted(moments, named.wish)
    else:
        gradients = released_gradients.remembered(compiler, vault, named.of, named.wish, plan, stop)
        model = None if gradients is None else descended(gradients, named.wish)
    return None if model is None else replace(model, notices=plan.notices)


def _recorded(entry: Entry) -> tuple[str, _Named | None] | None:
    """Return the name and model of a CREATE MODEL entry, name and None of a DROP MODEL, or None."""
    text = entry.inquiry.sql
    written = read_system_statement(text) if "model" in text.lower() else None
    if written is None or written.kind != "model":
        return None
    said = model_statement(written)
    if isinstance(said, DropModel):
        return said.name, None
    return said.name, replace(_named(request_of(entry), said), recorded=True)


def _named(request: Request, said: CreateModel) -> _Named:
    epsilon = request.epsilon if said.epsilon is None else said.epsilon
    of_query = replace(request, sql=said.query, epsilon=epsilon, flowing=False)
    never_null = () if said.label is None else (said.label.lower(),)
    knots = {} if said.knots is None else {"knots": said.knots}
    return _Named(said, MomentsWish(of_query, never_null, request.sql, **knots))


@dataclass(frozen=True, slots=True)
class PredictedQuestion:
    """A question with predictions, and their formulas."""

    predictions: Predictions

    def answer(self, parts: Parts, request: Request) -> Answer:
        whole = self.predictions.add_to(request)
        return predicted(ask_any(parts, whole), self.predictions, _outer(parts, whole))

    def explain(self, parts: Parts, request: Request) -> Explanation:
        whole = self.predictions.add_to(request)
        return foreseen(explain_any(parts, whole), self.predictions, _outer(parts, whole))

    def inside(self, parts: Parts, request: Request) -> tuple[Parts, Request]:
        """Return the request with the formulas of its predictions."""
        return parts, self.predictions.add_to(request)


def _outer(parts: Parts, request: Request) -> Relation | None:
    """Return the outer query over releases of a question over private rows; None for others."""
    with suppress(Refused):  # over synthetic tables, say
        plan = parts.compiler.prepared(parts.compiler.read(request, parts.stop)).plan
        return None if plan is None else plan.outer
    return None


@dataclass(frozen=True, slots=True)
class FindModel(InPeriods):
    """Search for a model of an analyst, free."""

    name: str
    analyst: str

    def run(self, parts: Parts) -> Model:
        """Return the model. Raises `Refused` if there is none."""
        models: Models = parts.systems.open("models")
        return models.model(parts.compiler, parts.vault, self.analyst, self.name, parts.stop)


@dataclass(frozen=True, slots=True)
class ListModels(InPeriods):
    """List of the models of an analyst, by name."""

    analyst: str

    def run(self, parts: Parts) -> Sequence[Model]:
        """Return the models."""
        models: Models = parts.systems.open("models")
        return models.listed(parts.compiler, parts.vault, self.analyst, parts.stop)
