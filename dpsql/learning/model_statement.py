"""CREATE MODEL name OPTIONS(…) AS SELECT …, and DROP MODEL name, read from their words."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.preparation.creations import NAMES, creation, statement_words, syntax

OPTIONS = ("model_type", "label", "features", "epsilon", "components")
_CREATE, _DROP = ("create", "model"), ("drop", "model")
_COMPONENTS = 2


class ModelType(StrEnum):
    """What is computed of second moments."""

    LINEAR = "linear_reg"
    LOGISTIC = "logistic_reg"
    PCA = "pca"


@dataclass(frozen=True, slots=True)
class CreateModel:
    """The name of a model, the SELECT whose rows it is of, and what it is.

    `label` is the column that is explained by the others, or by `features` alone (none: all), None
    of principal components, of which there are so many.
    """

    name: str
    query: str
    type: ModelType
    label: str | None = None
    epsilon: Decimal | None = None
    components: int = _COMPONENTS
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropModel:
    """The name of a model that is to be forgotten."""

    name: str


ModelStatement: TypeAlias = CreateModel | DropModel


def begins(text: str) -> bool:
    """Whether a text may be about a model, as far as it can be told without its words.

    >>> begins("create model m as select 1"), begins("SELECT 1")
    (True, False)
    """
    return _CREATE[1] in text.lower()


def statement(text: str) -> ModelStatement | None:
    """What is to be made or forgotten; None where the text begins otherwise. Raises `Refused`.

    >>> statement("CREATE MODEL m OPTIONS(model_type = 'linear_reg', label = 'y') AS SELECT x, y")
    CreateModel(name='m', query='SELECT x, y', type=<ModelType.LINEAR: 'linear_reg'>, label='y', \
epsilon=None, components=2, features=())
    >>> statement("DROP MODEL m;")
    DropModel(name='m')
    """
    every = statement_words(text)
    if tuple(word.value for word in every[:2]) == _DROP:
        name, more = every[2:3], every[3:]
        if not name or name[0].kind not in NAMES or more:
            raise syntax("one name is expected here", more or name)
        return DropModel(name[0].value)
    said = creation(text, _CREATE, OPTIONS)
    if said is None:
        return None
    kind = _type(said.options.get("model_type"))
    label, components = said.options.get("label"), said.whole("components")
    if kind is not ModelType.PCA and label is None:
        why, fix = f"{kind} explains one column by the others", "Say which, as label = 'income'."
        raise Refused(Reason.BAD_OPTION, option="label", why=why, fix=fix)
    if kind is ModelType.PCA and label is not None:
        raise Refused(Reason.BAD_OPTION, option="label", why="pca explains no column by others")
    if kind is not ModelType.PCA and components is not None:
        raise Refused(Reason.BAD_OPTION, option="components", why=f"{kind} has none")
    names = said.options.get("features", "").split(",")
    return CreateModel(
        said.name,
        said.query,
        kind,
        label,
        said.epsilon,
        components=components or _COMPONENTS,
        features=tuple(filter(None, map(str.strip, names))),
    )


def _type(text: str | None) -> ModelType:
    names = tuple(ModelType)
    if text is None:
        fix = f"Say one of {', '.join(names)}."
        raise Refused(Reason.BAD_OPTION, option="model_type", why="it is missing", fix=fix)
    if text.lower() not in names:
        raise Refused(Reason.BAD_OPTION, option="model_type", value=text, known=", ".join(names))
    return ModelType(text.lower())
