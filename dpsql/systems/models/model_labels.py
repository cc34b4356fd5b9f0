"""The label and the features of a model: tests that the named columns exist and fit."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.model.errors import Reason, Refused
from dpsql.systems.models.model_inputs import Input, NumberInput, PairInput
from dpsql.systems.models.model_statement import CreateModel, ModelType


def require_columns(columns: Sequence[Input], wish: CreateModel) -> None:
    """Refuse an invalid label, and features that are unknown or the label itself."""
    names = {column.name.lower() for column in columns}
    there = ", ".join(column.name for column in columns)
    for name in wish.features:
        if name.lower() not in names:
            raise Refused(Reason.UNKNOWN_COLUMN, column=name, fix=f"There are: {there}.")
        if wish.label is not None and name.lower() == wish.label.lower():
            raise Refused(Reason.BAD_OPTION, option="features", why=f"{name} is the label")
    if wish.type is not ModelType.PCA:
        label_of(columns, wish)


def label_of(columns: Sequence[Input], wish: CreateModel) -> tuple[int, int]:
    """Return the index of the label and of its explained cell.

    Raises `Refused` if there is no such column, or if it cannot be the label of such a model.
    """
    assert wish.label is not None
    names = [column.name.lower() for column in columns]
    if wish.label.lower() not in names:
        there = ", ".join(column.name for column in columns)
        raise Refused(Reason.UNKNOWN_COLUMN, column=wish.label, fix=f"There are: {there}.")
    if len(columns) == 1:
        raise Refused(Reason.BAD_OPTION, option="label", why="there is no other column")
    place = names.index(wish.label.lower())
    column = columns[place]
    match wish.type, column:
        case ModelType.LINEAR, NumberInput():
            return place, 0
        case ModelType.LOGISTIC, PairInput():
            return place, 0
        case ModelType.LOGISTIC, _:
            fix = "Take a condition, such as income = 'high' AS rich."
            why = f"{column.name} does not have two values"
        case _:
            fix, why = "Take logistic_reg.", f"{column.name} is no number"
    raise Refused(Reason.BAD_OPTION, option="label", why=why, fix=fix)
