"""PREDICT(model, …) in a text: found by its words, and written out as what the model computes.

So it is an expression like another: over private rows it is summed or counted as any is, over
others it is shown. Names in the text are an analyst's own; what takes their place are released
numbers, and the texts of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.model.algebra import Aggregate, Project, Relation, Union
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Expression, Span, identifier
from dpsql.model.walk import inputs, refs, walk
from dpsql.preparation.creations import NAMES, syntax
from dpsql.systems.models.model import Model, prediction_sql

_CALL = "predict"
MOST_WRITTEN = 1 << 18
"""Characters that calls may become: an argument is written once for each value of its column."""

_TERM = 64
"""Characters of a term beside its argument, about."""

_OPENING, _CLOSING = frozenset("(["), frozenset(")]")


@dataclass(frozen=True, slots=True)
class PredictCall:
    """One call in a text: the model, the score of it that is meant, and the spans of its arguments;
    without any it is about columns of the model's names.
    """

    span: Span
    model: str
    part: str | None
    arguments: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A text without calls, which of its parts took the place of what, and the models in it, with
    those of them whose rows are limited.
    """

    sql: str
    moved: tuple[tuple[Span, Span], ...]
    models: tuple[str, ...]
    limited: tuple[str, ...]

    def among(self, relation: Relation) -> frozenset[int]:
        """The columns of a relation, by their numbers, that are made of what took its place."""
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
        """Whether an expression has a part that took a call's place, or reads such a column."""
        spans = (node.span for node in walk(expression) if node.span != NOWHERE)
        own = any(n.start <= s.start and s.stop <= n.stop for s in spans for _, n in self.moved)
        return own or bool(refs(expression) & below)

    def before(self, span: Span) -> Span:
        """Where a place in this text was in the one with calls."""
        if span == NOWHERE:
            return span
        shift = 0
        for old, new in self.moved:
            if span.start >= new.stop:
                shift = old.stop - new.stop
            elif span.stop > new.start:
                return old
        return Span(span.start + shift, span.stop + shift)

    def now(self, span: Span) -> Span:
        """Where a place in the text with calls is in this one. Raises `Refused` within a call."""
        shift = 0
        for old, new in self.moved:
            if span.start >= old.stop:
                shift = new.stop - old.stop
            elif span.stop > old.start:
                raise parameter_inside(span)
        return Span(span.start + shift, span.stop + shift)


def parameter_inside(span: Span) -> Refused:
    """What is said of a parameter among the arguments of a call."""
    why = "a parameter cannot stand within PREDICT"
    return Refused(Reason.BAD_PARAMETER, span, why=why, fix="Write its value into the text.")


def calls(text: str) -> tuple[PredictCall, ...]:
    """The outermost calls of a text. Raises `Refused` for one that is not whole.

    >>> [call.model for call in calls("SELECT AVG(PREDICT(m, age, (1))) FROM t")]
    ['m']
    """
    return tuple(_calls(list(words(text))))


def _calls(every: Sequence[Word]) -> Iterator[PredictCall]:
    place = 0
    while place < len(every) - 1:
        word, opening = every[place], every[place + 1]
        if word.value == _CALL and word.kind is WordKind.NAME and opening.text == "(":
            call, place = _call(every, place)
            yield call
        else:
            place += 1


def _call(every: Sequence[Word], start: int) -> tuple[PredictCall, int]:
    """The call that begins with this word, and the number of the word behind it."""
    place = start + 2
    if place >= len(every) or every[place].kind not in NAMES:
        raise syntax("the name of a model is expected here", every[place : place + 1])
    name, part = every[place].value, None
    if [word.text for word in every[place + 1 : place + 2]] == ["."]:
        place += 2
        part = every[place].value if place < len(every) else None
    place += 1
    arguments, begun, depth = list[Span](), place + 1, 0
    for n, word in enumerate(every[place:], place):
        closes = word.text == ")" and depth == 0
        if closes or (word.text == "," and depth == 0):
            if n > place:
                if begun == n:
                    raise syntax("an argument is expected here", [word])
                arguments.append(Span(every[begun].start, every[n - 1].stop))
                begun = n + 1
            if closes:
                span = Span(every[start].start, word.stop)
                return PredictCall(span, name, part, tuple(arguments)), n + 1
        elif n == place:
            raise syntax("a comma is expected here", [word])
        depth += (word.text in _OPENING) - (word.text in _CLOSING)
    raise syntax("PREDICT has no end", every[start : start + 1])


def written_out(text: str, look: Callable[[str], Model]) -> WrittenOut:
    """The text with every call as arithmetic; `look` finds a model by its name.

    Raises `Refused` for a model that is not there, and for another number of arguments.
    """
    pieces, moved, names = list[str](), list[tuple[Span, Span]](), dict[str, bool]()
    done = length = 0
    for call in calls(text):
        before = text[done : call.span.start]
        model = look(call.model)
        names[model.name] = bool(model.notices)
        inner = [written_out(text[a.start : a.stop], look) for a in call.arguments]
        names |= {name: name in each.limited for each in inner for name in each.models}
        columns = _columns(model, call, [each.sql for each in inner])
        terms = model.score(call.part).terms
        places = range(len(model.columns))
        times = [3 + 2 * (1 + sum(t.column == n for t in terms)) for n in places]
        size = sum(n * (len(each) + _TERM) for n, each in zip(times, columns, strict=True))
        if length + size > MOST_WRITTEN:
            what = "characters that PREDICT stands for"
            raise Refused(Reason.TOO_LARGE, call.span, what=what, limit=MOST_WRITTEN)
        sql = prediction_sql(model, call.part, columns)
        pieces += [before, sql]
        length += len(before)
        moved.append((call.span, Span(length, length + len(sql))))
        length += len(sql)
        done = call.span.stop
    limited = tuple(name for name, is_limited in names.items() if is_limited)
    return WrittenOut("".join([*pieces, text[done:]]), tuple(moved), tuple(names), limited)


def _columns(model: Model, call: PredictCall, arguments: Sequence[str]) -> Sequence[str]:
    """The texts of the model's columns. Raises `Refused` where they are not as many."""
    if not call.arguments:
        return [identifier(column.name) for column in model.columns]
    if len(arguments) != len(model.columns):
        names = ", ".join(column.name for column in model.columns)
        why = f"{model.name} is of {len(model.columns)} columns: {names}"
        raise Refused(Reason.BAD_OPTION, call.span, option="PREDICT", why=why)
    return arguments
