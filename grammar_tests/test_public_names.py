"""The page on stability lists the public names, and `api` their docstrings: none is missing."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

import dpsql
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.manual import page
from dpsql.interfaces.wordings import ExitCode
from grammar_tests.fakes import EXPLANATION

Surface = Mapping[str, frozenset[str]]
PRIVATE = {
    "Connection": {"proxy", "request", "run_of_session", "shown", "stopped_by"},
    "Cursor": {"only_answer", "take"},
}
"""Attributes that no program needs, and that the page does not promise."""


def listed(text: str) -> Surface:
    """Names of the `text` blocks of a page: lines `PLACE: NAME …`, which go on when indented."""
    lines = "".join(re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    pairs = (line.partition(":")[::2] for line in lines.replace("\n  ", " ").splitlines())
    return {place: frozenset(names.split()) for place, names in pairs}


def commands(command: click.Command, place: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Every command with its long options, without `--policy`."""
    options = (p for p in command.params if isinstance(p, click.Option) and not p.hidden)
    names = {name for option in options for name in option.opts if name.startswith("--")}
    yield place, frozenset(names - {"--policy"} if place else names)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, f"{place} {name}".strip())


def attributes(kind: type) -> frozenset[str]:
    """Return the attributes of a class but PEP 249's exceptions."""
    names = {name for name in dir(kind) if not name.startswith("_") and not name[0].isupper()}
    return frozenset(names - PRIVATE[kind.__name__])


@pytest.fixture(scope="module")
def surface() -> Surface:
    """Public names of the package, by place."""
    found = dict(commands(main))
    root = found.pop("")
    return found | {
        "dpsql": frozenset(dpsql.__all__),
        "dpsql command": root,
        "Connection": attributes(dpsql.Connection),
        "Cursor": attributes(dpsql.Cursor),
        "plan": frozenset(json.loads(dpsql.plan_text(EXPLANATION, "json"))),
    }


def changes(promised: Surface, found: Surface) -> list[str]:
    """Promised names that are gone, and names that the page lacks."""
    gone = [f"gone: {place}" for place in promised.keys() - found.keys()]
    new = [f"not on the page: {place}" for place in found.keys() - promised.keys()]
    for place in promised.keys() & found.keys():
        gone += [f"gone: {place} {name}" for name in promised[place] - found[place]]
        new += [f"not on the page: {place} {name}" for name in found[place] - promised[place]]
    return sorted(gone + new)


def test_the_page_lists_the_public_names(surface: Surface) -> None:
    """New commands and options are public once a release lists them."""
    strict = {"dpsql", "Connection", "Cursor", "plan"}
    found = changes(listed(page("stability")), surface)
    new = [each for each in found if each.startswith("not on the page: ")]
    assert [each for each in found if each not in new] == []
    assert [each for each in new if each.split()[4] in strict] == []


@pytest.mark.parametrize(
    ("place", "name"),
    [("dpsql", "ask"), ("Cursor", "margins"), ("query", "--within"), ("plan", "columns")],
)
def test_wrong_twin_a_removed_name_is_noticed(surface: Surface, place: str, name: str) -> None:
    promised = listed(page("stability"))
    fewer = {**surface, place: surface[place] - {name}}
    assert changes(promised, fewer) == [f"gone: {place} {name}"]
    more = {**surface, place: surface[place] | {"unheard_of"}}
    assert changes(promised, more) == [f"not on the page: {place} unheard_of"]
    without = {each: names for each, names in surface.items() if each != "watch"}
    assert "gone: watch" in changes(promised, without)


def described(place: str, value: object) -> str:
    """Return the line of a public name: its call without types, and its docstring."""
    call = ""
    if inspect.isroutine(value):
        plain = [
            each.replace(annotation=inspect.Parameter.empty)
            for each in inspect.signature(value).parameters.values()
            if each.name != "self"
        ]
        call = str(inspect.Signature(plain))
    return f"* `{place}{call}`: {' '.join((inspect.getdoc(value) or '').split())}"


def api(page_of_it: str) -> str:
    """Return the page with one line for each public name that has a docstring."""
    functions = [name for name in dpsql.__all__ if inspect.isroutine(getattr(dpsql, name))]
    errors = [name for name in dpsql.__all__ if name.endswith(("Error", "Warning"))]
    blocks = [
        [
            *(described(f"dpsql.{name}", getattr(dpsql, name)) for name in functions),
            described("dpsql.aio.connect", dpsql.aio.connect),
        ],
        [described(f"dpsql.{name}", getattr(dpsql, name)) for name in errors],
    ]
    for kind in (dpsql.Connection, dpsql.Cursor):
        members = [(name, inspect.getattr_static(kind, name)) for name in attributes(kind)]
        lines = [described(name, value) for name, value in sorted(members) if inspect.getdoc(value)]
        blocks.append([described(f"dpsql.{kind.__name__}", kind), *lines])
    heads = ("Functions", "Errors", "Connections", "Cursors")
    top = page_of_it.partition("\n## ")[0].rstrip()
    parts = (f"\n\n## {head}\n\n" + "\n".join(b) for head, b in zip(heads, blocks, strict=True))
    return top + "".join(parts) + "\n"


def test_the_page_on_the_api_prints_all_docstrings(request: pytest.FixtureRequest) -> None:
    text = page("api")
    if request.config.getoption("--update"):
        text = api(text)
        (Path(dpsql.__file__).parent / "docs" / "api.md").write_text(text, encoding="utf-8")
    assert text == api(text)
    assert text.replace("`fetchone()`", "`fetchnone()`") != text


def test_the_page_on_errors_has_every_exit_code() -> None:
    section = page("errors").partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == {*ExitCode}
