"""Print how much code a question passes, how large the package is, and how it is written.

    python -m benchmarks.house

The first table traces one `SELECT COUNT(*)` and one refused question over the demo, each asked for
the first time of an open proxy. After a refusal, dpsql looks for a statement that works: its row
counts the functions that only this search enters. A room is a folder of the package. A change of
room is a function that calls a function of another room; each such pair counts once. A file did
nothing where every call of its functions returned None, False or (). To raise an error, or to make
an object, is something.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dis import opname
from functools import partial
from pathlib import Path
from types import FrameType

from benchmarks.common import table
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Request
from dpsql.policy import demo
from dpsql.preparation import offers
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dpsql"
SIDE_SYSTEMS = ("systems",)
SHORT = 4
"""Lines of the body of a helper that could stand where it is used."""

NOT_FUNCTIONS = ("<module>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
MAX_LINES, MAX_METHODS = 60, 30
QUESTIONS = {
    "COUNT(*)": "SELECT COUNT(*) AS n FROM customers",
    "refused": "SELECT age FROM customers",
}


class Trace:
    """The functions of the package that one call enters, their calls and what they returned."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, int, str]] = set()
        self.changes: set[tuple[object, object]] = set()
        self.idle: dict[str, bool] = {}

    def __call__(self, frame: FrameType, event: str, result: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name in NOT_FUNCTIONS:
            return
        if event == "return":
            raised = opname[code.co_code[frame.f_lasti]] != "RETURN_VALUE"
            none = result is None or result is False or (type(result) is tuple and not result)
            nothing = none and not raised and code.co_name != "__init__"
            self.idle[code.co_filename] = self.idle.get(code.co_filename, True) and nothing
        elif event == "call":
            self.functions.add((code.co_filename, code.co_firstlineno, code.co_name))
            caller = frame.f_back
            while caller and caller.f_code.co_name in NOT_FUNCTIONS:
                caller = caller.f_back
            if caller and caller.f_code.co_filename.startswith(str(PACKAGE)):
                came = Path(caller.f_code.co_filename)
                if came.parent != Path(code.co_filename).parent:
                    self.changes.add((caller.f_code, code))

    def run(self, action: Callable[[], object], offer: Trace) -> None:
        """Trace one call, whether it answers or refuses; `offer` traces the search for an offer."""
        searching = False

        def follow(frame: FrameType, event: str, result: object) -> None:
            nonlocal searching
            if frame.f_code is Compiler.offer.__code__ and event in ("call", "return"):
                searching = event == "call"
            (offer if searching else self)(frame, event, result)

        sys.setprofile(follow)
        try:
            action()
        except DpsqlError:
            pass
        finally:
            sys.setprofile(None)

    def row(self, name: str) -> tuple[object, ...]:
        """The counts of the first table."""
        files = {file for file, _, _ in self.functions}
        rooms = [Path(file).relative_to(PACKAGE).parts[0] for file in files]
        return (
            name,
            len(self.functions),
            len(files),
            len(self.changes),
            sum(self.idle.values()),
            sum(room in SIDE_SYSTEMS for room in rooms),
            sum(room == "ledgers" for room in rooms),
        )


def traces() -> Iterator[tuple[object, ...]]:
    """One row for each question. Tracing is slow, so the search for an offer gets more time."""
    offers.SECONDS = 60.0
    with tempfile.TemporaryDirectory() as name:
        policy = demo.build(Path(name))
        for title, sql in QUESTIONS.items():
            with Proxy.open(str(policy)) as proxy:
                trace, offer = Trace(), Trace()
                trace.run(partial(proxy.ask, Request(sql, "ana")), offer)
                yield trace.row(title)
            if offer.functions:
                offer.functions -= trace.functions
                offer.changes -= trace.changes
                yield offer.row("its offer")


def sources() -> dict[Path, ast.Module]:
    """Every module of the package."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def sizes(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, int]]:
    """Lines of the package, and of the package without side systems."""
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in trees}
    beside = {p for p in lines if set(p.relative_to(PACKAGE).parts) & {*SIDE_SYSTEMS}}
    yield "lines", sum(lines.values())
    yield "lines of the core", sum(count for path, count in lines.items() if path not in beside)
    yield "files", len(lines)


def imported(trees: dict[Path, ast.Module]) -> float:
    """Share of imports in the lines of code, without docstrings and blank lines."""
    imports = code = 0
    for path, tree in trees.items():
        rows = path.read_text("utf-8").splitlines()
        texts = {n for d in documented(tree) for n in range(d.lineno, (d.end_lineno or 0) + 1)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += (node.end_lineno or 0) - node.lineno + 1
        code += sum(bool(row.strip()) and n not in texts for n, row in enumerate(rows, 1))
    return imports / code


def documented(tree: ast.Module) -> Iterator[ast.Expr]:
    """The statements that are only texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node


def bundles(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, int, str]]:
    """Calls that unpack a sequence into parameters with names.

    A call such as `zip(*rows)` is no bundle: its callee takes any number of arguments, and a
    sequence is what it is for. Callees of that kind are functions of the package with `*`
    parameters, parameters of type `Callable[..., T]`, methods of sets, and everything that the
    package does not define.
    """
    named, spreading = set(), {*dir(builtins), *dir(set)}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            named.add(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            (spreading if node.args.vararg else named).add(node.name)
    for path, tree in trees.items():
        nodes = list(ast.walk(tree))
        free = {
            n.arg
            for n in nodes
            if isinstance(n, ast.arg)
            and n.annotation
            and "Callable[..." in ast.unparse(n.annotation)
        }
        froms = (n for n in nodes if isinstance(n, ast.ImportFrom))
        outside = {a.name for n in froms if not str(n.module).startswith("dpsql") for a in n.names}
        for call in (n for n in nodes if isinstance(n, ast.Call)):
            callee = (
                call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            )
            unpacks = any(isinstance(argument, ast.Starred) for argument in call.args)
            if unpacks and callee in named - spreading - outside - free:
                yield path, call.lineno, callee


def shapes(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, int]]:
    """Helpers that are used once, bundles of arguments, long functions and wide classes."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    helpers = 0
    for path, tree in trees.items():
        uses = Counter(re.findall(r"\b_[a-z]\w*", path.read_text("utf-8")))
        helpers += sum(
            isinstance(f, ast.FunctionDef)
            and re.match("_[a-z]", f.name) is not None
            and uses[f.name] == len(("definition", "use"))
            and (f.end_lineno or 0) - f.body[0].lineno < SHORT
            for f in ast.walk(tree)
        )
    yield f"private helpers used once, of at most {SHORT} lines", helpers
    yield "calls with bundles of starred arguments", len(list(bundles(trees)))
    long = [f for f in functions if (f.end_lineno or 0) - f.lineno >= MAX_LINES]
    yield f"functions of over {MAX_LINES} lines", len(long)
    wide = [
        c
        for c in nodes
        if isinstance(c, ast.ClassDef)
        and sum(isinstance(n, ast.FunctionDef) for n in c.body) > MAX_METHODS
        and not prints_union(c)
    ]
    yield f"classes of over {MAX_METHODS} methods", len(wide)


def prints_union(node: ast.ClassDef) -> bool:
    """Test for a printer over a closed union: it has a method for each member of the union."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    closed = any(isinstance(f, ast.Name) and f.id == "assert_never" for f in calls)
    return node.name.endswith("Printer") and closed


def main() -> None:
    """Print the two tables."""
    header = ("question", "functions", "files", "changes of room", "files that did nothing")
    table("What a question passes", (*header, "of side systems", "of ledgers"), list(traces()))
    trees = sources()
    rows = [*sizes(trees), ("imports in code", f"{imported(trees):.1%}"), *shapes(trees)]
    table("The package", ("what", "count"), rows)


if __name__ == "__main__":
    main()
