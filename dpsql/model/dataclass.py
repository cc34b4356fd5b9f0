"""A `dataclass` decorator like that of the standard library, made cheaply for classes with slots.

The standard library compiles six methods of every class at import. That is most of the import time
of a package with five hundred such classes, and a process that answers one question uses a third of
them. Here a method is compiled when it is called, and a constructor after it has made some
instances. `fields`, `replace`, patterns and signatures ask the standard library when they are used.
A type checker sees the standard decorator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, replace
from dataclasses import dataclass as of_library
from functools import cached_property
from itertools import count
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> Any:
        """Make a class like `dataclasses.dataclass`, with `frozen`, `slots`, `eq`, `order`, `repr`,
        `kw_only`.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), len({Point(1), Point(1)})
        (Point(x=1, y=0), True, 1)
        >>> Point(1).x = 2
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """
        make = _slotted if slots else of_library
        return make(cls, **options) if cls else lambda plain: make(plain, **options)


FEW = 8
"""Number of instances that are made before the constructor is compiled."""

_SHAPE = "__dpsql_shape__"
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class _Shape:
    """The declarations of a class, and the parts that are made from them on demand."""

    def __init__(self, plain: type, own: dict[str, Any], **options: bool) -> None:
        self._plain, self._own, self.options = plain, own, options

    @cached_property
    def fields(self) -> dict[str, Field[Any]]:
        """The fields, with those of base classes, in their order."""
        values: dict[str, Field[Any]] = {}
        for base in self._plain.__mro__[:0:-1]:
            values |= vars(base)[_SHAPE].fields if _SHAPE in vars(base) else {}
        for name, value in self._own.items():
            values[name] = value if isinstance(value, Field) else field(default=value)
            if values[name].kw_only is MISSING:
                values[name].kw_only = self.options["kw_only"]
        return values

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.fields)

    def library(self, **options: bool) -> Any:
        """Return a class with these fields as the standard library makes it, without methods."""
        bases = [base for base in self._plain.__mro__[::-1] if _SHAPE in vars(base)]
        kinds = {name: kind for base in bases for name, kind in base.__annotations__.items()}
        kinds |= self._plain.__annotations__
        body = {"__annotations__": {name: kinds[name] for name in self.names}, **self.fields}
        body["__doc__"] = self._plain.__name__  # else it would write one
        options |= {"init": False, "repr": False, "eq": False, "match_args": False}
        return of_library(**options)(type(self._plain.__name__, (), body))

    @cached_property
    def match_args(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.fields.items() if not one.kw_only)

    def is_filled(self, instance: Any, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Set the values of an instance if these arguments fit the constructor; return whether they
        do.
        """
        values = dict(zip(self.match_args, given, strict=False)) | named
        if len(values) < len(given) + len(named) or not values.keys() <= self.fields.keys():
            return False
        for name, one in self.fields.items():
            if name in values:
                continue
            if one.default is not MISSING:
                values[name] = one.default
            elif one.default_factory is not MISSING:
                values[name] = one.default_factory()
            else:
                return False
        for name in self.names:
            object.__setattr__(instance, name, values[name])
        if hasattr(self._plain, "__post_init__"):
            instance.__post_init__()
        return True

    def text(self, method: str, scope: dict[str, Any]) -> str:
        """Return a method's source, and add to `scope` the names that it uses besides setters of
        slots.
        """
        if method == "__init__":
            parameters, named, lines = ["self"], list[str](), list[str]()
            for name, one in self.fields.items():
                parameter = value = name
                if one.default is not MISSING:
                    scope[f"__default_{name}"] = one.default
                    parameter += f"=__default_{name}"
                elif one.default_factory is not MISSING:
                    scope[f"__make_{name}"] = one.default_factory
                    parameter += "=MISSING"
                    value = f"__make_{name}() if {name} is MISSING else {name}"
                (named if one.kw_only else parameters).append(parameter)
                lines.append(f" __set_{name}(self, {value})\n")
            if hasattr(self._plain, "__post_init__"):
                lines.append(" self.__post_init__()\n")
            listed = ", ".join([*parameters, *["*"] * bool(named), *named])
            return f"def __init__({listed}):\n{''.join(lines)} return"
        if method == "__repr__":
            shown = ", ".join(f"{name}={{self.{name}!r}}" for name in self.names_with("repr"))
            return f"def __repr__(self):\n return f'{{type(self).__qualname__}}({shown})'"
        mine, other = (
            "(" + "".join(f"{side}.{name}, " for name in self.names_with("compare")) + ")"
            for side in ("self", "other")
        )
        if method == "__hash__":
            return f"def __hash__(self):\n return hash({mine})"
        compared = f"{mine} {_ORDER.get(method, '==')} {other}"
        same = "other.__class__ is self.__class__"
        return f"def {method}(self, other):\n return {compared} if {same} else NotImplemented"

    def names_with(self, option: str) -> list[str]:
        return [name for name, one in self.fields.items() if getattr(one, option)]


def _slotted(
    plain: type,
    *,
    frozen: bool = False,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,  # noqa: A002 - what dataclass calls it
    kw_only: bool = False,
) -> type:
    body = {k: v for k, v in vars(plain).items() if k not in ("__dict__", "__weakref__")}
    kinds = plain.__annotations__.items()
    own = {name: body.pop(name, MISSING) for name, kind in kinds if "ClassVar" not in str(kind)}
    above = {name for base in plain.__mro__[1:] for name in vars(base).get("__slots__", ())}
    methods = ["__init__", *["__repr__"] * repr, *["__eq__"] * eq, *list(_ORDER) * order]
    if eq and body.get("__hash__") is None and ("__eq__" in body or "__hash__" not in body):
        body["__hash__"] = None
        if frozen:
            del body["__hash__"]
            methods.append("__hash__")
    shape = _Shape(plain, own, frozen=frozen, kw_only=kw_only)
    cls = type(plain)(
        plain.__name__,
        plain.__bases__,
        {
            **{name: _compiled_when_called(shape, name) for name in methods},
            **(_FROZEN if frozen else {}),
            **_READ,
            "__replace__": replace,
            **body,
            "__slots__": tuple(name for name in own if name not in above),
            _SHAPE: shape,
        },
    )
    cls.__qualname__ = plain.__qualname__
    return cls


def _compiled_when_called(shape: _Shape, name: str) -> Callable[..., Any]:
    calls = count()

    def method(self: object, /, *given: Any, **named: Any) -> Any:
        seldom = name == "__init__" and next(calls) < FEW
        if seldom and shape.is_filled(self, given, named):
            return None
        owner = next(base for base in type(self).__mro__ if vars(base).get(_SHAPE) is shape)
        return _compile(owner, name)(self, *given, **named)

    return method


def _compile(cls: Any, name: str) -> Callable[..., Any]:
    """Compile a method, with a setter for every slot, and store it in the class."""
    shape: _Shape = vars(cls)[_SHAPE]
    scope = {f"__set_{slot}": getattr(cls, slot).__set__ for slot in shape.names}
    scope["MISSING"] = MISSING
    exec(shape.text(name, scope), scope)  # noqa: S102 - names of fields, which are identifiers
    method: Callable[..., Any] = scope[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, recursive_repr()(method) if name == "__repr__" else method)
    return method


class _Read:
    """An attribute of a class that is computed when it is read."""

    def __init__(self, name: str, of: Callable[[type, _Shape], Any]) -> None:
        self._name, self._of = name, of

    def __get__(self, instance: object, owner: type) -> Any:
        cls = next(base for base in owner.__mro__ if _SHAPE in vars(base))
        values = self._of(cls, vars(cls)[_SHAPE])
        setattr(cls, self._name, values)
        return values


def _signature(cls: type, shape: _Shape) -> inspect.Signature:  # noqa: ARG001
    whole = inspect.signature(_compile(cls, "__init__"))
    return whole.replace(parameters=list(whole.parameters.values())[1:])


_READ = {
    name: _Read(name, of)
    for name, of in {
        "__dataclass_fields__": lambda _, shape: shape.library().__dataclass_fields__,
        "__dataclass_params__": lambda _, shape: (
            shape.library(**shape.options).__dataclass_params__
        ),
        "__match_args__": lambda _, shape: shape.match_args,
        "__signature__": _signature,
    }.items()
}


def _refuse_to_assign(self: object, name: str, _: object) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dpsql_shape__.names]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dpsql_shape__.names, state, strict=True):
        object.__setattr__(self, name, value)


_FROZEN = {
    "__setattr__": _refuse_to_assign,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
