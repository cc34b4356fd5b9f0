"""Bodies of requests: limits on size, time and depth, then the fields of a question.

A body is read before anything is parsed or charged: SECURITY.md S31.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.requests import ClientDisconnect

from dpsql.interfaces.dbapi.dbapi_errors import ProgrammingError
from dpsql.interfaces.dbapi.statement_options import StatementOptions
from dpsql.interfaces.shown_intervals import PLAIN, show_answer
from dpsql.model.bound_parameters import frozen
from dpsql.model.dataclass import dataclass, field
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS, Answer, Request
from dpsql.systems.web.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

MOST_BYTES = 1 << 20
MOST_DEPTH = 32
"""Maximum depth of arrays and objects in a body."""
MOST_STATEMENTS = 100
"""Maximum number of statements that are priced together."""
BODY_SECONDS = 20.0
FIELDS = (
    "sql parameters dialect epsilon within confidence nonnegative digits confirm id statements"
).split()
_TYPES = {
    "sql": (str, "a text"),
    "parameters": (list, "an array"),
    "dialect": (str, "a text"),
    "nonnegative": (bool, "true or false"),
    "digits": (str, "a text"),
    "confirm": (bool, "true or false"),
    "id": (str, "a text"),
    "statements": (list, "an array"),
}
_LONGEST_ID = 64
DIGITS = ("all", "interval")
"""Digits of noisy fractions: all, or those that their intervals leave."""


@dataclass(frozen=True, slots=True)
class QuestionBody:
    """Fields of a question, as the client wrote them."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        return str(self.fields["sql"])

    @property
    def id(self) -> str:
        return str(self.fields.get("id", ""))

    def show(self, answer: Answer) -> Answer:
        """Return the answer with the digits that the question asks for."""
        return show_answer(answer, PLAIN, self.fields.get("digits", DIGITS[0]))

    def canonical(self) -> str:
        """Return the question as one text. The order of fields and their `id` do not matter.

        >>> QuestionBody({"sql": "SELECT 1", "id": "a"}).canonical()
        '{"sql": "SELECT 1"}'
        """
        fields = {name: value for name, value in self.fields.items() if name != "id"}
        return json.dumps(fields, sort_keys=True, default=repr)

    def request(self, analyst: str, door: str, client: str) -> Request:
        """Return the request of an analyst. Raises `Problem`, or `Refused` for an impossible
        precision.
        """
        fields = self.fields
        options = StatementOptions(
            _exact(fields.get("epsilon")), fields.get("within"), _exact(fields.get("confidence"))
        )
        try:
            epsilon, precision = options.exact_epsilon, options.precision
        except ProgrammingError as error:
            raise bad_body(str(error)) from None
        return Request(
            self.sql,
            analyst,
            fields.get("dialect", DEFAULT_SPELLING),
            frozen(fields.get("parameters", ())),
            epsilon,
            precision=precision,
            nonnegative=fields.get("nonnegative", False),
            confirmed=fields.get("confirm", False),
            door=door,
            client=client,
        )


def _exact(amount: Any) -> Any:
    """Return a whole number of JSON as a decimal, and other values as they are."""
    return Decimal(amount) if type(amount) is int else amount


def bad_body(why: str) -> Problem:
    """Return the problem of a body that is not a question."""
    fix = 'Send an object such as {"sql": "SELECT COUNT(*) FROM …"}.'
    return Problem(400, "bad-body", "The body is not a valid question.", why, fix)


def read_question(body: Any, needed: str = "sql") -> QuestionBody:
    """Return the question of a parsed body. Raises `Problem`.

    >>> read_question({"sql": "SELECT 1"}).sql
    'SELECT 1'
    """
    if not isinstance(body, dict):
        raise bad_body("The body is not a JSON object.")
    for name, value in body.items():
        if name not in FIELDS:
            near = nearest(name, FIELDS)
            meant = f" Did you mean {near}?" if near else ""
            raise bad_body(f"There is no field {name[:40]!r}.{meant}")
        kind, words = _TYPES.get(name, (type(value), ""))
        if type(value) is not kind:
            raise bad_body(f"{name} must be {words}.")
    if needed not in body:
        raise bad_body(f"The field {needed} is missing.")
    if body.get("dialect", DEFAULT_SPELLING) not in SPELLINGS:
        raise bad_body(f"The dialects are {', '.join(SPELLINGS)}.")
    if body.get("digits", DIGITS[0]) not in DIGITS:
        raise bad_body(f"digits must be one of {', '.join(DIGITS)}.")
    if len(body.get("id", "")) > _LONGEST_ID:
        raise bad_body(f"An id has at most {_LONGEST_ID} characters.")
    if any(isinstance(value, dict) for value in body.get("parameters", ())):
        raise bad_body("A parameter cannot be an object.")
    return QuestionBody(body)


def read_statements(body: Any) -> tuple[list[str], QuestionBody]:
    """Return the statements of a parsed body, and what it says of all of them. Raises `Problem`.

    >>> read_statements({"statements": ["SELECT 1"], "epsilon": "0.1"})[0]
    ['SELECT 1']
    """
    fields = dict(read_question(body, "statements").fields)
    texts = fields.pop("statements")
    if not texts or not all(isinstance(text, str) for text in texts):
        raise bad_body("statements must be texts, at least one.")
    if len(texts) > MOST_STATEMENTS:
        raise bad_body(f"More than {MOST_STATEMENTS} statements cannot be priced together.")
    return texts, QuestionBody({**fields, "sql": ""})


async def read_json(request: HttpRequest) -> Any:
    """Read the body of a request as JSON, within its limits. Raises `Problem`."""
    return parse_json(await read_body(request))


async def read_body(request: HttpRequest) -> bytes:
    """Read the body of a request that is declared as JSON. Raises `Problem`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        title = "The body is not declared as JSON."
        raise Problem(415, "content-type", title, fix="Send Content-Type: application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            is_open = True
            while is_open:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += message.get("body", b"")
                if len(body) > MOST_BYTES:
                    raise Problem(413, "body-size", f"The body is larger than {MOST_BYTES} bytes.")
                is_open = message.get("more_body", False)
    except TimeoutError:
        raise Problem(
            408, "slow-body", f"The body did not arrive within {BODY_SECONDS:g} s."
        ) from None
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """Parse JSON of bounded depth, without repeated names. Numbers are exact. Raises `Problem`.

    >>> parse_json(b'{"a": [1.50]}')
    {'a': [Decimal('1.50')]}
    """
    try:
        text = body.decode()
        if _depth(text) > MOST_DEPTH:
            raise bad_body(f"Arrays and objects are nested deeper than {MOST_DEPTH}.")
        return json.loads(
            text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_unrepeated
        )
    except (ValueError, ArithmeticError):  # its text may hold anything
        raise bad_body("The body is not JSON in UTF-8.") from None


def _depth(text: str) -> int:
    """Return the depth of arrays and objects in a JSON text, outside of its strings."""
    depth = most = 0
    in_string = escaped = False
    for c in text:
        if in_string:
            in_string = escaped or c != '"'
            escaped = c == "\\" and not escaped
        elif c == '"':
            in_string = True
        elif c in "[{":
            depth += 1
            most = max(most, depth)
        elif c in "]}":
            depth -= 1
    return most


def _no_number(_text: str) -> NoReturn:
    raise ValueError


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise bad_body("An object has a name twice.")
    return members
