"""Routes of the JSON interface, and their description in OpenAPI 3.1.

The routes that are served and those that are described come from the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS
from dpsql.systems.web.answer_formats import ARROW, CSV, EVENTS, JSON, PARQUET
from dpsql.systems.web.problems import PROBLEM_TYPE
from dpsql.systems.web.request_bodies import DIGITS, MOST_STATEMENTS

PREFIX = "/v1"
ANSWERS = (JSON, CSV, ARROW, PARQUET)
ALWAYS = (400, 401, 403, 405, 406, 408, 413, 415, 421, 422, 429, 500, 503)
"""Statuses of problems that any route may have."""


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route: its operation, path and method, and the schemas of its body and its reply."""

    name: str
    method: str
    path: str
    summary: str
    body: str = ""
    reply: str = "Answer"
    formats: tuple[str, ...] = (JSON,)
    is_open: bool = False


ROUTES = (
    ApiRoute(
        "query",
        "POST",
        f"{PREFIX}/query",
        "Answer a query, which is charged unless its answer is remembered",
        body="Question",
        formats=(*ANSWERS, EVENTS),
    ),
    ApiRoute(
        "explain",
        "POST",
        f"{PREFIX}/explain",
        "Return the plan, the price and the expected errors of a query, for free",
        body="Question",
        reply="Plan",
    ),
    ApiRoute(
        "plan",
        "POST",
        f"{PREFIX}/plan",
        "Return the joint price of several queries, for free",
        body="Statements",
        reply="JointPrices",
    ),
    ApiRoute("tables", "GET", f"{PREFIX}/tables", "List the tables", formats=ANSWERS),
    ApiRoute(
        "describe",
        "GET",
        f"{PREFIX}/tables/{{table}}",
        "List the columns of a table",
        formats=ANSWERS,
    ),
    ApiRoute(
        "budget", "GET", f"{PREFIX}/budget", "Return the rest of your budget", formats=ANSWERS
    ),
    ApiRoute(
        "history",
        "GET",
        f"{PREFIX}/history",
        "List your charged queries, the newest first",
        formats=ANSWERS,
    ),
    ApiRoute(
        "cancel",
        "POST",
        f"{PREFIX}/cancel",
        "Stop your running queries with this id; charges stay",
        body="Cancel",
        reply="Cancelled",
    ),
    ApiRoute(
        "token",
        "POST",
        f"{PREFIX}/token",
        "Return a token for the header Authorization: Bearer",
        reply="Token",
    ),
    ApiRoute(
        "openapi",
        "GET",
        f"{PREFIX}/openapi.json",
        "Return this description",
        reply="OpenApi",
        is_open=True,
    ),
)


def _object(required: tuple[str, ...] = (), /, **members: Mapping[str, Any]) -> dict[str, Any]:
    closed = {"additionalProperties": False} if required else {}
    return {"type": "object", "required": list(required), "properties": members, **closed}


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_TRUTH: dict[str, Any] = {"type": "boolean"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_AMOUNT: dict[str, Any] = {"type": ["string", "number"]}
_OPTIONS: dict[str, Any] = {
    "epsilon": _AMOUNT | {"description": "Price of the query; default: the policy's."},
    "within": _AMOUNT | {"description": 'Wanted error, as 100 or "5%", instead of a price.'},
    "confidence": _AMOUNT | {"description": "Probability of that error; default 0.95."},
    "nonnegative": _TRUTH | {"description": "Raise negative counts and sums to zero."},
    "digits": {"enum": list(DIGITS), "default": DIGITS[0], "description": "Of noisy fractions."},
    "confirm": _TRUTH | {"description": "Ask even where the answer is of no use."},
}
_DIALECT: dict[str, Any] = {"enum": list(SPELLINGS), "default": DEFAULT_SPELLING}
SCHEMAS: dict[str, dict[str, Any]] = {
    "Question": _object(
        ("sql",),
        sql=_TEXT,
        parameters={"type": "array", "description": "Values of the placeholders."},
        dialect=_DIALECT,
        id=_TEXT | {"maxLength": 64, "description": "Your name of the query, for cancel."},
        **_OPTIONS,
    ),
    "Statements": _object(
        ("statements",),
        statements=_TEXTS | {"minItems": 1, "maxItems": MOST_STATEMENTS},
        dialect=_DIALECT,
        **_OPTIONS,
    ),
    "Cancel": _object(("id",), id=_TEXT),
    "Answer": _object(
        columns={"type": "array", "items": _object(name=_TEXT, type=_TEXT)},
        rows={
            "type": "array",
            "items": {
                "type": "object",
                "description": "Cells by column. A number is a Number, if it is no text of one.",
            },
        },
        notices=_TEXTS,
        receipt={"$ref": "#/components/schemas/Receipt"},
        data_version=_WHOLE,
    ),
    "Number": _object(
        estimate={"description": "The number; null if there is none."},
        low={"description": "Lower end of the 95 % interval; null if it is not known."},
        high={"description": "Upper end of the 95 % interval; null if it is not known."},
        exact=_TRUTH | {"description": "True for public numbers, which have no interval."},
    ),
    "Receipt": _object(
        text=_TEXT,
        query_id=_TEXT,
        budget=_TEXT,
        accountant=_TEXT,
        epsilon=_NUMBER,
        cap=_TEXT,
        charged=_NUMBER,
        charged_delta=_NUMBER,
        spent=_NUMBER,
        spent_delta=_NUMBER,
        limit=_NUMBER,
        limit_delta=_NUMBER,
        remembered=_TRUTH,
        recalled=_WHOLE | {"description": "Percent of the price that earlier answers replace."},
        least=_TRUTH,
        question_epsilon={"type": ["number", "null"]},
        questions_left={"type": ["integer", "null"]},
        questions_left_with_private_keys={"type": ["integer", "null"]},
    ),
    "Plan": _object(
        plan={"type": "object", "description": "The plan, as EXPLAIN PRIVACY (FORMAT JSON)."},
        text=_TEXT,
    ),
    "JointPrices": _object(text=_TEXT, statements={"type": "array", "items": {"type": "object"}}),
    "Cancelled": _object(cancelled=_WHOLE),
    "Token": _object(token=_TEXT, expires_in=_WHOLE),
    "OpenApi": {"type": "object"},
    "Problem": _object(
        type=_TEXT,
        status=_WHOLE,
        title=_TEXT,
        reason=_TEXT,
        why=_TEXT,
        fix=_TEXT,
        place=_object(line=_WHOLE, column=_WHOLE, excerpt=_TEXT),
        query_id=_TEXT,
        sqlstate=_TEXT,
        charged=_TRUTH,
    ),
}
SCHEMAS["Problem"]["properties"]["try"] = _object(sql=_TEXT, changes=_TEXTS)


def describe_api(version: str) -> dict[str, Any]:
    """Return the OpenAPI description of all routes.

    >>> sorted(describe_api("1")["paths"]["/v1/query"])
    ['post']
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    schemes = {
        "password": {"type": "http", "scheme": "basic"},
        "token": {"type": "http", "scheme": "bearer"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpsql", "version": version},
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": schemes},
        "security": [{"password": []}, {"token": []}],
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    problem = {"content": {PROBLEM_TYPE: {"schema": _reference("Problem")}}}
    contents: dict[str, Any] = {kind: {} for kind in route.formats}
    contents = contents | {JSON: {"schema": _reference(route.reply)}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": f"{route.summary}.",
        "responses": {"200": {"description": "Success.", "content": contents}}
        | {str(status): {"description": "Problem.", **problem} for status in ALWAYS},
    }
    if route.body:
        schema = {JSON: {"schema": _reference(route.body)}}
        operation["requestBody"] = {"required": True, "content": schema}
    if "{table}" in route.path:
        table = {"name": "table", "in": "path", "required": True, "schema": _TEXT}
        operation["parameters"] = [table]
    if route.name == "query":
        operation["parameters"] = [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "16 to 64 random characters, the same with each retry.",
                "schema": _TEXT,
            }
        ]
        operation["responses"] |= {
            status: {"description": "Problem.", **problem} for status in ("409", "504")
        }
    if route.is_open:
        operation["security"] = []
    return operation


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
