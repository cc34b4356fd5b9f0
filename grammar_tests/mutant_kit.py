"""Mutants of the package by the operators of mutmut: of a file, all of them, or drawn by a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

ROOT = Path(__file__).parent.parent
PER_LINE = 8
"""No file has more mutants than this per line."""


@dataclass(frozen=True)
class Mutant:
    """The changed lines of one function, or of no function; `number` is its place in the file."""

    file: str
    number: int
    function: str
    old: str
    new: str


class _Visitor(MutationVisitor):  # type: ignore[misc, unused-ignore]  # where mutmut is absent
    """Mutates the bodies of decorated functions too, which mutmut cannot put beside each other."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        decorated = isinstance(node, cst.FunctionDef) and bool(node.decorators)
        return not decorated and super()._skip_node_and_children(node)


class MutatedFile:
    """All mutants of a file."""

    def __init__(self, file: str) -> None:
        self.file, self.path = file, ROOT / "dpsql" / file
        self.text = self.path.read_text(encoding="utf-8")
        visitor = _Visitor(mutation_operators, IgnoredCode(set(), set(), set()))
        self._module = MetadataWrapper(cst.parse_module(self.text)).visit(visitor)
        self._found, self._names = visitor.mutations, dict[cst.CSTNode, str]()
        for part in self._module.body:
            methods: tuple[cst.CSTNode, ...] = (part,)
            owner = ""
            if isinstance(part, cst.ClassDef):
                methods, owner = tuple(part.body.body), f"{part.name.value}."
            for method in methods:
                if isinstance(method, cst.FunctionDef):
                    self._names[method] = owner + method.name.value

    def __len__(self) -> int:
        return len(self._found)

    def _code(self, part: Any, name: str) -> str:
        """Return the text of a part, with the indent of a method."""
        if "." not in name:
            return str(self._module.code_for_node(part))
        shell = cst.ClassDef(cst.Name("_"), cst.IndentedBlock([part]))
        return str(self._module.code_for_node(shell)).partition("\n")[2]

    def mutant(self, number: int) -> tuple[Mutant, str]:
        """Return a mutant and the text of its file."""
        found = self._found[number]
        within = found.contained_by_top_level_function
        name = self._names.get(within, "") if within is not None else ""
        part = self._module if within is None or not name else within
        if self.text.count(before := self._code(part, name)) != 1:
            part, before = self._module, self.text
        changed = part.deep_replace(found.original_node, found.mutated_node)
        after = self._code(changed, "" if part is self._module else name)
        old, new = before.splitlines(), after.splitlines()
        while old and new and old[0] == new[0]:
            old, new = old[1:], new[1:]
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        lines = "\n".join(old).strip(), "\n".join(new).strip()
        return Mutant(self.file, number, name, *lines), self.text.replace(before, after)


mutated_file = cache(MutatedFile)


def files_of(chosen: Sequence[str]) -> list[str]:
    found = (path for room in chosen for path in sorted((ROOT / "dpsql" / room).glob("*.py")))
    return [str(path.relative_to(ROOT / "dpsql")) for path in found]


def draw_mutants(files: Sequence[str], seed: int, count: int) -> Iterator[tuple[Mutant, str]]:
    """Draw mutants without replacement; all mutants of all files are equally likely.

    A draw is a place of a list in which each file has `PER_LINE` places per line. It counts where
    the file has so many mutants, so that few files have to be mutated for few draws.
    """
    dice, drawn = Random(seed), set[tuple[str, int]]()  # noqa: S311 - no secret
    places = [PER_LINE * len((ROOT / "dpsql" / file).read_bytes().splitlines()) for file in files]
    while len(drawn) < count:
        (file,) = dice.choices(files, places)
        place = dice.randrange(places[files.index(file)])
        assert len(mutated_file(file)) <= places[files.index(file)]
        if place < len(mutated_file(file)) and (file, place) not in drawn:
            drawn.add((file, place))
            yield mutated_file(file).mutant(place)


def all_mutants(files: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    return (mutated_file(file).mutant(n) for file in files for n in range(len(mutated_file(file))))
