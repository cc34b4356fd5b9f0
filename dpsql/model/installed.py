"""Registries of values that other installed packages add through entry points.

Their code is from the owner's own Python environment, and as trusted: SECURITY.md S23.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from dpsql.model.dataclass import dataclass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


class Unusable(ValueError):
    """Error: no usable value is installed under a name. `fix` lists the names, or explains the
    problem.
    """

    def __init__(self, message: str, fix: str) -> None:
        self.message, self.fix = message, fix
        super().__init__(f"{message} {fix}")


@dataclass(frozen=True, slots=True)
class Registry(Generic[T]):
    """Values of one kind by name: built-in ones, which cannot be replaced, and entry points of
    `group`.

    `accepts` returns an installed value if it is valid for its name.
    """

    kind: str
    group: str
    own: Mapping[str, T]
    accepts: Callable[[object, str], T | None]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of built-in and installed values; nothing is imported."""
        installed = sorted(point.name for point in _points(self.group))
        return tuple(dict.fromkeys([*self.own, *installed]))

    def get(self, name: str) -> T:
        """Return the value of that name, and import only that. Raises `Unusable`."""
        if name in self.own:
            return self.own[name]
        points = _points(self.group).select(name=name)
        if not points:
            raise Unusable(f"{self.kind} is {name!r}.", f"Write one of {', '.join(self.names)}.")
        if len(points) > 1:
            where = " and ".join(sorted(map(_package, points)))
            raise Unusable(f"{self.kind} {name!r} is in {where}.", "Uninstall one of them.")
        (point,) = points
        value = self.accepts(_loaded(point, self.kind), name)
        if value is None:
            message = f"{self.kind} {name!r} of {_package(point)} is none of that name."
            raise Unusable(message, f"It is {point.value}; install a version that fits.")
        return value


def _points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - what is our own needs none

    return entry_points(group=group)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "a package"


@cache
def _loaded(point: EntryPoint, kind: str) -> object:
    """Import the value of an entry point, once."""
    try:
        return point.load()
    except Exception as error:
        message = f"{kind} {point.name!r} of {_package(point)} cannot be imported."
        raise Unusable(message, f"{point.value} raises {type(error).__name__}: {error}") from error
