"""PREDICT(model, …) as a formula: the arithmetic of a model, for which the call stands.

The compiler replaces the call when it resolves names. The formula consists of released numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dpsql.dialects.reading.parse import parse_formula
from dpsql.model.algebra import Aggregate, Project, Relation, Union
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.system_formulas import Formula, formula_name
from dpsql.model.tree import NOWHERE, Call, Expression, Span
from dpsql.model.vocabulary import Request
from dpsql.model.walk import inputs, refs, walk
from dpsql.systems.models.model import Model, prediction_sql


@dataclass(frozen=True, slots=True)
class Predictions:
    """Formulas of the predictions in a text, the places of their calls, and names of models.

    `limited` names the models with contribution bounds that may bias them.
    """

    formulas: tuple[Formula, ...]
    places: tuple[Span, ...]
    models: tuple[str, ...]
    limited: tuple[str, ...]

    def add_to(self, request: Request) -> Request:
        """Return the request with the formulas."""
        return replace(request, formulas=self.formulas, flowing=False)

    def among(self, relation: Relation) -> frozenset[int]:
        """Return the ids of fields of a relation that depend on a prediction."""
        below = frozenset[int]().union(*map(self.among, inputs(relation)))
        match relation:
            case Project(items=items):
                here = {i.field.id for i in items if self._reads(i.expression, below)}
            case Aggregate(keys=keys, measures=measures):
                here = {k.field.id for k in keys if self._reads(k.expression, below)}
                here |= {m.field.id for m in measures if self._reads(m.call, below)}
            case Union(fields=fields, left=left, right=right):
                sides = zip(fields, left.fields, right.fields, strict=True)
                here = {f.id for f, *ends in sides if {e.id for e in ends} & below}
            case _:
                here = set()
        return below | here

    def _reads(self, expression: Expression, below: frozenset[int]) -> bool:
        """Test whether an expression contains a prediction or reads a field in `below`."""
        spans = (node.span for node in walk(expression) if node.span != NOWHERE)
        own = any(n.start <= s.start and s.stop <= n.stop for s in spans for n in self.places)
        return own or bool(refs(expression) & below)


def find_predictions(
    calls: Sequence[Call],
    dialect: str,
    look: Callable[[str], Model],
    apart: Callable[[Callable[[], Any]], Any],
) -> Predictions:
    """Return the formulas of these calls. `look` finds a model by name, `apart` runs a reader.

    Raises `Refused` for an unknown model or a model without the part that is named.
    """
    formulas, models = dict[tuple[str, str | None], Formula](), dict[str, bool]()
    for call in calls:
        name, part = formula_name(call)
        if (name, part) in formulas:
            continue
        model = look(name)
        models[model.name] = bool(model.notices)
        columns = tuple(column.name for column in model.columns)
        sql = prediction_sql(model, part, [f"a{n}" for n in range(len(columns))])
        expression = apart(partial(parse_formula, sql, dialect))
        formulas[name, part] = Formula(
            call=call.function,
            of=name,
            part=part,
            columns=columns,
            key=sql,
            expression=expression,
        )
    limited = tuple(name for name, is_limited in models.items() if is_limited)
    places = tuple(call.span for call in calls)
    return Predictions(tuple(formulas.values()), places, tuple(models), limited)
