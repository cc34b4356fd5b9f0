"""A `dataclass` decorator like that of the standard library, made cheaply for classes with slots.

The standard library compiles six methods of every class at import. That is most of the import time
of a package with five hundred such classes. Here a constructor is compiled once for all classes
with as many fields, and has the names of their fields in each. Other methods are compiled when they
are called. `fields` and `replace` ask the standard library when they are used. A type checker sees
the standard decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, replace
from dataclasses import dataclass as of_library
from functools import cache
from itertools import pairwise
from reprlib import recursive_repr
from types import CodeType, FunctionType
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


_SHAPE = "__dpsql_shape__"
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class _Shape:
    """The declarations of a class, and the methods that are made from them."""

    def __init__(self, plain: type, own: dict[str, Any], **options: bool) -> None:
        self._plain, self.options = plain, options
        self.fields: dict[str, Field[Any]] = {}
        for base in plain.__mro__[:0:-1]:
            self.fields |= vars(base)[_SHAPE].fields if _SHAPE in vars(base) else {}
        for name, value in own.items():
            self.fields[name] = value if isinstance(value, Field) else field(default=value)
            if self.fields[name].kw_only is MISSING:
                self.fields[name].kw_only = options["kw_only"]
        self.match_args = tuple(name for name, one in self.fields.items() if not one.kw_only)

    def library(self, **options: bool) -> Any:
        """Return a class with these fields as the standard library makes it, without methods."""
        bases = [base for base in self._plain.__mro__[::-1] if _SHAPE in vars(base)]
        kinds = {name: kind for base in bases for name, kind in base.__annotations__.items()}
        kinds |= self._plain.__annotations__
        body = {"__annotations__": {name: kinds[name] for name in self.fields}, **self.fields}
        body["__doc__"] = self._plain.__name__  # else it would write one
        options |= {"init": False, "repr": False, "eq": False, "match_args": False}
        return of_library(**options)(type(self._plain.__name__, (), body))

    def names_with(self, option: str) -> list[str]:
        return [name for name, one in self.fields.items() if getattr(one, option)]

    def constructor(self, cls: type) -> FunctionType:
        """Return `__init__`, which calls the setter of each slot of `cls`."""
        parameters, lines, defaults = ["self"], list[str](), dict[str, object]()
        scope: dict[str, Any] = {"MISSING": MISSING}
        names = [*self.match_args, *self.names_with("kw_only")]
        for n, name in enumerate(names):
            one, value = self.fields[name], f"x{n}"
            scope[f"set_{n}"] = getattr(cls, name).__set__
            if one.default_factory is not MISSING:
                scope[f"make_{n}"] = one.default_factory
                value = f"make_{n}() if x{n} is MISSING else x{n}"
            if one.default is not MISSING or one.default_factory is not MISSING:
                defaults[name] = one.default
            parameters += [*["*"] * (n == len(self.match_args)), f"x{n}"]
            lines.append(f" set_{n}(self, {value})\n")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()\n")
        text = f"def __init__({', '.join(parameters)}):\n{''.join(lines)} return"
        code = _compiled(text).replace(co_varnames=("self", *names))
        method = _method(cls, code, scope)
        named = names[len(self.match_args) :]
        method.__kwdefaults__ = {name: defaults[name] for name in named if name in defaults}
        for before, following in pairwise(self.match_args):
            if before in defaults and following not in defaults:
                raise TypeError(f"non-default argument {following!r} follows default argument")
        method.__defaults__ = tuple(defaults[n] for n in self.match_args if n in defaults)
        return method

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method that is compiled when it is called the first time."""

        def compiled_when_called(instance: object, other: object = MISSING, /) -> Any:
            cls = next(base for base in type(instance).__mro__ if vars(base).get(_SHAPE) is self)
            method: Any = _method(cls, _compiled(self.text(name)), {})
            setattr(cls, name, recursive_repr()(method) if name == "__repr__" else method)
            return method(instance) if other is MISSING else method(instance, other)

        return compiled_when_called

    def text(self, method: str) -> str:
        """Return the source of `__repr__`, `__eq__`, `__hash__` or a method of an order."""
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


def _method(cls: type, code: CodeType, scope: dict[str, Any]) -> FunctionType:
    method = FunctionType(code, scope)
    method.__qualname__ = f"{cls.__qualname__}.{code.co_name}"
    return method


@cache
def _compiled(text: str) -> CodeType:
    scope: dict[str, Any] = {}
    exec(text, scope)  # noqa: S102 - names of fields, which are identifiers
    code: CodeType = scope.popitem()[1].__code__
    return code


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
    shape = _Shape(plain, own, frozen=frozen, kw_only=kw_only)
    methods = [*["__repr__"] * repr, *["__eq__"] * eq, *list(_ORDER) * order]
    if eq and body.get("__hash__") is None and ("__eq__" in body or "__hash__" not in body):
        body["__hash__"] = None
        if frozen:
            del body["__hash__"]
            methods.append("__hash__")
    cls = type(plain)(
        plain.__name__,
        plain.__bases__,
        {
            **{name: shape.method(name) for name in methods},
            **(_FROZEN if frozen else {}),
            **_READ,
            "__replace__": replace,
            "__match_args__": shape.match_args,
            **body,
            "__slots__": tuple(name for name in own if name not in above),
            _SHAPE: shape,
        },
    )
    cls.__qualname__ = plain.__qualname__
    if "__init__" not in body:
        setattr(cls, "__init__", shape.constructor(cls))  # noqa: B010 - for the type checker
    return cls


class _Read:
    """An attribute of a class that is computed when it is read."""

    def __init__(self, name: str, of: Callable[[_Shape], Any]) -> None:
        self._name, self._of = name, of

    def __get__(self, instance: object, owner: type) -> Any:
        cls = next(base for base in owner.__mro__ if _SHAPE in vars(base))
        values = self._of(vars(cls)[_SHAPE])
        setattr(cls, self._name, values)
        return values


_READ = {
    "__dataclass_fields__": _Read(
        "__dataclass_fields__", lambda shape: shape.library().__dataclass_fields__
    ),
    "__dataclass_params__": _Read(
        "__dataclass_params__", lambda shape: shape.library(**shape.options).__dataclass_params__
    ),
}


def _refuse_to_assign(self: object, name: str, _: object) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dpsql_shape__.fields]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dpsql_shape__.fields, state, strict=True):
        object.__setattr__(self, name, value)


_FROZEN = {
    "__setattr__": _refuse_to_assign,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
