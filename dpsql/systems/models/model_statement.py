"""CREATE MODEL name OPTIONS(…) AS SELECT …, and DROP MODEL name, read from their words."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.preparation.creations import Creation, creation, dropped
from dpsql.systems.models.bends import KNOTS

OPTIONS = ("model_type", "label", "features", "epsilon", "components", "knots")
DESCENT = ("steps", "gradient_norm", "input_norm", "momentum")
"""Options of gradient descent alone."""
_CREATE, _DROP = ("create", "model"), ("drop", "model")
_COMPONENTS = 2
MOST_STEPS = 256
LEAST_NORM, MOST_NORM = Decimal("0.01"), Decimal(20)


class ModelType(StrEnum):
    """What is computed of second moments."""

    LINEAR = "linear_reg"
    LOGISTIC = "logistic_reg"
    PCA = "pca"


class Method(StrEnum):
    """What is measured of the rows: second moments, or gradients at one weight after another."""

    AUTO = "auto"
    ONE_PASS = "one_pass"  # noqa: S105
    GRADIENT = "gradient"


@dataclass(frozen=True, slots=True)
class DescentOptions:
    """What is said of gradient descent (None: nothing): how many steps, what a row's gradient and a
    row itself are clipped to, in norm, and how much of a step is done again.
    """

    steps: int | None = None
    gradient_norm: Decimal | None = None
    input_norm: Decimal | None = None
    momentum: Decimal | None = None


@dataclass(frozen=True, slots=True)
class CreateModel:
    """The name of a model, the SELECT whose rows it is of, and what it is.

    `label` is the column that is explained by the others, or by `features` alone (none: all), None
    of principal components, of which there are so many. Columns of numbers have so many `knots`
    (None: as `dpsql.systems.models.descent.knots_of` says).
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
    """The name of a model that is to be forgotten."""

    name: str


ModelStatement: TypeAlias = CreateModel | DropModel


def statement(text: str) -> ModelStatement | None:
    """What is to be made or forgotten; None where the text begins otherwise. Raises `Refused`.

    >>> statement("CREATE MODEL m OPTIONS(model_type = 'linear_reg', label = 'y') AS SELECT x, y")
    CreateModel(name='m', query='SELECT x, y', type=<ModelType.LINEAR: 'linear_reg'>, label='y', \
epsilon=None, components=2, features=(), method=<Method.AUTO: 'auto'>, descent=DescentOptions(\
steps=None, gradient_norm=None, input_norm=None, momentum=None), knots=None)
    >>> statement("DROP MODEL m;")
    DropModel(name='m')
    """
    name = dropped(text, _DROP)
    if name is not None:
        return DropModel(name)
    said = creation(text, _CREATE, (*OPTIONS, "method", *DESCENT))
    if said is None:
        return None
    kind = _type(said)
    label, components = said.options.get("label"), said.whole("components")
    if kind is not ModelType.PCA and label is None:
        why, fix = f"{kind} explains one column by the others", "Say which, as label = 'income'."
        raise Refused(Reason.BAD_OPTION, option="label", why=why, fix=fix)
    if kind is ModelType.PCA and label is not None:
        raise Refused(Reason.BAD_OPTION, option="label", why="pca explains no column by others")
    if kind is not ModelType.PCA and components is not None:
        raise Refused(Reason.BAD_OPTION, option="components", why=f"{kind} has none")
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
    """The method, and whether the other options are of it. Raises `Refused` where they are not."""
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
    """An option that is one of some words. Raises `Refused` for another one."""
    text = said.options[option]
    if text.lower() not in words:
        raise Refused(Reason.BAD_OPTION, option=option, value=text, known=", ".join(words))
    return text.lower()
