"""Superset's REST API, as far as a dashboard needs it; of the standard library only."""

from __future__ import annotations

import json
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

API = "/api/v1"


class SupersetError(Exception):
    """Superset refused something; its own words."""


class Superset:
    """A logged-in user of a running Superset."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self._headers = {"Referer": url}
        login = {"username": user, "password": password, "provider": "db", "refresh": False}
        token = self.post("/security/login", login)["access_token"]
        self._headers["Authorization"] = f"Bearer {token}"
        self._headers["X-CSRFToken"] = self.get("/security/csrf_token/")["result"]

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self._call("POST", path, body)

    def put(self, path: str, body: object) -> dict[str, Any]:
        return self._call("PUT", path, body)

    def _call(self, method: str, path: str, body: object | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        headers = {**self._headers, **kind}
        request = Request(self._url + API + path, data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=120) as reply:
                told: dict[str, Any] = json.load(reply)
        except HTTPError as error:
            words = error.read().decode(errors="replace")
            raise SupersetError(f"{method} {path}: {error.code} {words}") from None
        return told
