"""CREATE MODEL name OPTIONS(…) AS SELECT …, and DROP MODEL name, with their options read."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from dpsql.dialects.statements.creations import Creation, Drop, SystemStatement
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.systems.models.bends import KNOTS

DESCENT = ("steps", "gradient_norm", "input_norm", "momentum")
"""Options that apply to gradient descent only."""
_COMPONENTS, MOST_COMPONENTS = 2, 20
MOST_STEPS = 256
LEAST_NORM, MOST_NORM = Decimal("0.01"), Decimal(20)


class ModelType(StrEnum):
    """Type of a model."""

    LINEAR = "linear_reg"
    LOGISTIC = "logistic_reg"
    PCA = "pca"


class Method(StrEnum):
    """Measurement of a model: second moments, or gradients at successive weights."""

    AUTO = "auto"
    ONE_PASS = "one_pass"  # noqa: S105
    GRADIENT = "gradient"


@dataclass(frozen=True, slots=True)
class DescentOptions:
    """Options of gradient descent; None stands for the default.

    `gradient_norm` and `input_norm` are the clipping bounds of a row's gradient and of a row.
    `momentum` is the part of a step that the next step repeats.
    """

    steps: int | None = None
    gradient_norm: Decimal | None = None
    input_norm: Decimal | None = None
    momentum: Decimal | None = None


@dataclass(frozen=True, slots=True)
class CreateModel:
    """A CREATE MODEL statement: the name, the SELECT of the rows, and the options.

    `label` is the explained column, or None for principal components; `components` is their number.
    `features` are the explanatory columns; () stands for all others. Numeric columns have `knots`
    knots (None: see `dpsql.systems.models.descent.knots_of`).
    """

    name: str
    query: str
    type: ModelType
    label: str | None = None
    epsilon: Decimal | None = None
    components: int = _COMPONENTS
    features: tuple[str, ...] = ()
    method: Method = Method.AUTO
    descent: DescentOptions = DescentOptions()
    knots: int | None = None


@dataclass(frozen=True, slots=True)
class DropModel:
    """A DROP MODEL statement: the name of the model."""

    name: str


ModelStatement: TypeAlias = CreateModel | DropModel


def model_statement(said: SystemStatement) -> ModelStatement:
    """Return the model's statement. Raises `Refused` for options that do not fit.

    >>> model_statement(Drop("model", "m"))
    DropModel(name='m')
    """
    if isinstance(said, Drop):
        return DropModel(said.name)
    kind = _type(said)
    label, components = said.options.get("label"), said.whole("components")
    if kind is not ModelType.PCA and label is None:
        why, fix = f"{kind} explains one column by the others", "Say which, as label = 'income'."
        raise Refused(Reason.BAD_OPTION, option="label", why=why, fix=fix)
    if kind is ModelType.PCA and label is not None:
        raise Refused(Reason.BAD_OPTION, option="label", why="pca explains no column by others")
    if kind is not ModelType.PCA and components is not None:
        raise Refused(Reason.BAD_OPTION, option="components", why=f"{kind} has none")
    if components is not None and components > MOST_COMPONENTS:
        why = f"more than {MOST_COMPONENTS} take long to compute"
        raise Refused(Reason.BAD_OPTION, option="components", why=why)
    return CreateModel(
        said.name,
        said.query,
        kind,
        label,
        said.epsilon,
        components=components or _COMPONENTS,
        features=tuple(filter(None, map(str.strip, said.options.get("features", "").split(",")))),
        method=_method(said, kind),
        descent=_descent(said),
        knots=_knots(said, kind),
    )


def _knots(said: Creation, kind: ModelType) -> int | None:
    knots = said.whole("knots")
    if knots is not None and kind is ModelType.PCA:
        raise Refused(Reason.BAD_OPTION, option="knots", why="components are of numbers themselves")
    if knots is not None and knots not in KNOTS:
        counts = ", ".join(map(str, KNOTS))
        raise Refused(Reason.BAD_OPTION, option="knots", value=knots, known=counts)
    return knots


def _descent(said: Creation) -> DescentOptions:
    steps, momentum = said.whole("steps"), said.number("momentum")
    if steps is not None and steps > MOST_STEPS:
        raise Refused(Reason.TOO_LARGE, what="steps", limit=MOST_STEPS)
    if momentum is not None and not 0 <= momentum < 1:
        why = "it is a part of a step, from 0 to less than 1"
        raise Refused(Reason.BAD_OPTION, option="momentum", value=momentum, why=why)
    norms = {name: said.number(name) for name in ("gradient_norm", "input_norm")}
    for name, norm in norms.items():
        if norm is not None and not LEAST_NORM <= norm <= MOST_NORM:
            why = f"it is a number from {LEAST_NORM} to {MOST_NORM}"
            raise Refused(Reason.BAD_OPTION, option=name, value=norm, why=why)
    return DescentOptions(steps, norms["gradient_norm"], norms["input_norm"], momentum)


def _type(said: Creation) -> ModelType:
    if "model_type" not in said.options:
        fix = f"Say one of {', '.join(ModelType)}."
        raise Refused(Reason.BAD_OPTION, option="model_type", why="it is missing", fix=fix)
    return ModelType(_word(said, "model_type", tuple(ModelType)))


def _method(said: Creation, kind: ModelType) -> Method:
    """Return the method of a statement. Raises `Refused` if other options do not fit it."""
    named = "method" in said.options
    method = Method(_word(said, "method", tuple(Method))) if named else Method.AUTO
    if kind is ModelType.PCA and method is Method.GRADIENT:
        raise Refused(Reason.BAD_OPTION, option="method", why="pca is computed of second moments")
    stray = [name for name in DESCENT if name in said.options]
    if stray and method is not Method.GRADIENT:
        why, fix = "only gradient descent has it", "Say method = 'gradient'."
        raise Refused(Reason.BAD_OPTION, option=stray[0], why=why, fix=fix)
    return method


def _word(said: Creation, option: str, words: Sequence[str]) -> str:
    """Return an option with a fixed set of values. Raises `Refused` for other values."""
    text = said.options[option]
    if text.lower() not in words:
        raise Refused(Reason.BAD_OPTION, option=option, value=text, known=", ".join(words))
    return text.lower()
