"""PREDICT(model, …) in a text: found by its tokens and replaced by the model's arithmetic.

The result is an ordinary expression. Over private rows it can be aggregated, over released rows it
can be shown. Names in the text are those of the analyst. The replacement consists of released
numbers and the texts of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.dialects.statements.creations import NAMES, syntax
from dpsql.model.algebra import Aggregate, Project, Relation, Union
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Expression, Span, identifier
from dpsql.model.walk import inputs, refs, walk
from dpsql.systems.models.model import Model, prediction_sql

_CALL = "predict"
MOST_WRITTEN = 1 << 18
"""Maximum number of characters of replaced calls. An argument is repeated for each value."""

_TERM = 64
"""Approximate number of characters of a term without its argument."""

_OPENING, _CLOSING = frozenset("(["), frozenset(")]")


@dataclass(frozen=True, slots=True)
class PredictCall:
    """One call in a text: the model, the name of a score, and the spans of the arguments.

    Without arguments, it reads columns with the names in the model.
    """

    span: Span
    model: str
    part: str | None
    arguments: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A text without calls, the old and new spans of its replaced parts, and the names of
    models.

    `limited` names the models with contribution bounds that may bias them.
    """

    sql: str
    moved: tuple[tuple[Span, Span], ...]
    models: tuple[str, ...]
    limited: tuple[str, ...]

    def among(self, relation: Relation) -> frozenset[int]:
        """Return the ids of fields of a relation that depend on a replaced call."""
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
        """Test whether an expression contains a replaced call or reads a field in `below`."""
        spans = (node.span for node in walk(expression) if node.span != NOWHERE)
        own = any(n.start <= s.start and s.stop <= n.stop for s in spans for _, n in self.moved)
        return own or bool(refs(expression) & below)

    def before(self, span: Span) -> Span:
        """Return the span in the text with calls for a span in this text."""
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
        """Return the span in this text for a span in the text with calls. Raises `Refused` inside a
        call.
        """
        shift = 0
        for old, new in self.moved:
            if span.start >= old.stop:
                shift = new.stop - old.stop
            elif span.stop > old.start:
                raise parameter_inside(span)
        return Span(span.start + shift, span.stop + shift)


def parameter_inside(span: Span) -> Refused:
    """Return the refusal of a parameter among the arguments of a call."""
    why = "a parameter cannot stand within PREDICT"
    return Refused(Reason.BAD_PARAMETER, span, why=why, fix="Write its value into the text.")


def calls(text: str) -> tuple[PredictCall, ...]:
    """Return the outermost calls of a text. Raises `Refused` for an incomplete call.

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
    """Return the call that begins at a word, and the index of the next word."""
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
    """Return the text with each call replaced by arithmetic. `look` finds a model by name.

    Raises `Refused` for an unknown model or a wrong number of arguments.
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
    """Return the texts of the model's columns. Raises `Refused` for a wrong number of arguments."""
    if not call.arguments:
        return [identifier(column.name) for column in model.columns]
    if len(arguments) != len(model.columns):
        names = ", ".join(column.name for column in model.columns)
        why = f"{model.name} is of {len(model.columns)} columns: {names}"
        raise Refused(Reason.BAD_OPTION, call.span, option="PREDICT", why=why)
    return arguments
