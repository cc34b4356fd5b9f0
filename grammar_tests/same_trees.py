"""Show that commits of words leave the code alone. `python -m grammar_tests.same_trees BASE [HEAD]`

Every module that differs between two commits must keep its syntax tree, except for docstrings and
for names of the rename map: the lines `Rename: OLD -> NEW` in the messages of those commits.
With `--messages`, texts that read as prose may differ too. The exit code is 1 where a tree differs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys

from grammar_tests.words import docstring_nodes, is_prose

_RENAME = re.compile(r"(?m)^ *Rename: `?([\w.]+)`? -> `?([\w.]+)`?$")


class _Normal(ast.NodeTransformer):
    """Rename identifiers, drop docstrings and, if asked, empty messages."""

    def __init__(self, names: dict[str, str], docstrings: set[int], *, messages: bool) -> None:
        self.names, self.docstrings, self.messages = names, docstrings, messages

    def renamed(self, name: str) -> str:
        """Apply the map to a dotted name, then to its parts."""
        whole = self.names.get(name, name)
        return ".".join(self.names.get(part, part) for part in whole.split("."))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, str) and not isinstance(node, ast.Constant):
                setattr(node, field, self.renamed(value))
        return super().generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if id(node) in self.docstrings else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            message = self.messages and is_prose(node.value)
            return ast.Constant("" if message else self.names.get(node.value, node.value))
        return node


def normal_tree(
    source: str, names: dict[str, str] | None = None, *, messages: bool = False
) -> tuple[list[str], str]:
    """Return the imports of a module, sorted, and the dump of the rest of its tree."""
    tree = ast.parse(source)
    docstrings = {id(node) for node in docstring_nodes(tree)}
    _Normal(names or {}, docstrings, messages=messages).visit(tree)
    imports = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            imports += [f"{module}.{alias.name} {alias.asname}" for alias in node.names]
            node.names = [ast.alias("")]
            if isinstance(node, ast.ImportFrom):
                node.module = ""
    return sorted(imports), ast.dump(tree)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, check=True, text=True).stdout  # noqa: S603, S607


def changed_files(base: str, head: str) -> list[tuple[str, str]]:
    """Paths of modules before and after; empty where one side lacks the module."""
    pairs = []
    for line in _git("diff", "--name-status", "-M", base, head, "--", "*.py").splitlines():
        status, *paths = line.split("\t")
        pairs.append(
            ("", paths[0])
            if status == "A"
            else (paths[0], "")
            if status == "D"
            else (paths[0], paths[-1])
        )
    return pairs


def differing(base: str, head: str, *, messages: bool = False) -> list[str]:
    """Modules that differ in more than words."""
    base = _git("merge-base", base, head).strip()
    names = dict(_RENAME.findall(_git("log", "--format=%B", f"{base}..{head}")))
    return [
        before or after
        for before, after in changed_files(base, head)
        if not (before and after)
        or normal_tree(_git("show", f"{base}:{before}"), names, messages=messages)
        != normal_tree(_git("show", f"{head}:{after}"), messages=messages)
    ]


def main() -> None:
    """Compare two commits and print each module that differs."""
    commits = [word for word in sys.argv[1:] if not word.startswith("--")]
    base, head = commits[0], commits[1] if len(commits) > 1 else "HEAD"
    found = differing(base, head, messages="--messages" in sys.argv)
    print("\n".join(found) or f"{len(changed_files(base, head))} modules: the same trees")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
