"""Count how plainly the package is written. `python -m grammar_tests.words [FOLDER …]`

Docstrings are those of modules, classes, functions and attributes. Messages are the other texts
of the code that read as prose. Pages are the Markdown files of the package and the README.
`--list` prints each docstring that begins badly.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dpsql"

BAD_STARTS = frozenset(
    """about above after again almost also although and another anybody anything around as at
    because before behind below beneath beside besides between beyond both but by can cannot does
    each either else every everybody everything exactly few fewer for from has have he her here his
    how if in into is are its it just less let's like longer many more most neither never no nobody
    none nor not nothing of on once only or other others otherwise out over since so some somebody
    something than that their then there these they this those though through till to together told
    under unless until up upon was we were what whatever when whenever where wherever whether which
    whichever while who whoever whom whose why with within without yet you""".split()
)
"""First words that are neither a noun nor a verb, nor an article or number before a noun."""

_VERBS = "is are was were has have had can cannot could may might must does did will would".split()
HOUSE_WORDS = re.compile(
    r"\b(?:nobody|whose|whoever|whatever|anew|beside|of which|of whom|so many|told)\b"
    rf"|(?:^|[.:;,(—] *)what\b(?![^.]*\?)|\bwhat (?:{'|'.join(_VERBS)})\b",
    re.IGNORECASE,
)

_IRREGULAR = frozenset(
    """begun bought bound broken brought built chosen cut done drawn driven fallen felt fit foreseen
    forgotten found given gone grown held hidden kept known laid led left lent lost made meant met
    paid proven put read said seen sent set shown sold spent split spoken stood sought taken taught
    thought told understood undone won written""".split()
)
_NO_PARTICIPLES = frozenset("feed need seed speed embed shed exceed proceed indeed hundred".split())
_VERBS_TOO = frozenset("bound cut fit lent put read set split found felt left".split())
_PARTICLES = frozenset(
    """again alike along alone anew apart as aside at away by down first for from in into of off on
    once only out over so than through to together too under up whole with without""".split()
)
LONG = 30
"""Most words of a plain sentence."""

_PROSE = re.compile(r"[a-z]{2,}[,;:]?(?: [\w'’`{}-]+[,;:]?){4,}")
_SQL = re.compile(r"\b(?:SELECT|FROM|WHERE|CREATE|INSERT|CASE|CAST|GROUP BY|pg_\w+)\b")


@dataclass(frozen=True, slots=True)
class Text:
    """A docstring or message, and where it begins."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The measures of the ratchet, in percent, in words per 1,000 and in names."""

    bad_starts: float
    house_words: float
    house_words_of_texts: float
    participles: float
    shared_names: int
    long_sentences: float


@lru_cache(2000)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return every node of a module: each measure looks through the same ones."""
    return tuple(ast.walk(tree))


def docstring_nodes(tree: ast.Module) -> Iterator[ast.Expr]:
    """Statements that are only a text: docstrings of definitions and of attributes."""
    for node in nodes_of(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node


def read_docstrings(tree: ast.Module, place: str) -> list[Text]:
    """Docstrings of a module."""
    return [
        Text(f"{place}:{node.lineno}", node.value.value)
        for node in docstring_nodes(tree)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def is_prose(text: str) -> bool:
    """Test for five words in a row outside SQL."""
    return bool(_PROSE.search(text)) and not _SQL.search(text)


def read_messages(tree: ast.Module, place: str) -> list[Text]:
    """Texts of a module that read as prose, without its docstrings."""
    skipped = {id(node.value) for node in docstring_nodes(tree)}
    texts = []
    for node in nodes_of(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(id(part) for part in node.values)
            texts.append(Text(f"{place}:{node.lineno}", "X".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts += [Text(f"{place}:{node.lineno}", node.value)] * (id(node) not in skipped)
    return [text for text in texts if is_prose(text.text)]


@cache
def plain_text(text: str) -> str:
    """Return a text without examples, tables, titles and indented blocks; code becomes `C`."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    lines = []
    example = False
    for line in text.split("\n"):
        example = bool(line.strip()) and (example or line.strip().startswith(">>>"))
        if not example and not re.match(r"\s*[|#]|\s{8,}\S", line):
            lines.append(re.sub(r"^\s*(?:[*-]|\d+\.) ", "\n\n", line))
    text = re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`", "C", "\n".join(lines))
    return re.sub(r"\]\([^)]*\)", "]", text)


@cache
def sentences(text: str) -> tuple[str, ...]:
    """Split a text at full stops, question marks, blank lines and items of lists."""
    parts = re.split(r"(?<=[.!?])[)\"']*(?=\s|$)|\n\s*\n", plain_text(text))
    return tuple(" ".join(part.split()).rstrip(".!") for part in parts if part.strip())


def begins_badly(text: str) -> bool:
    """Test whether the first word is in the list `BAD_STARTS`."""
    first = re.match(r"\s*([\w’']+)", text)
    return first is not None and first[1].lower() in BAD_STARTS


def house_words(text: str) -> int:
    """Number of archaic words in a text."""
    return sum(len(HOUSE_WORDS.findall(sentence)) for sentence in sentences(text))


def per_thousand(texts: Iterable[str]) -> float:
    """Archaic words in 1,000 words."""
    kept = list(texts)
    words = sum(len(re.findall(r"\w+", plain_text(text))) for text in kept)
    return 1000 * sum(map(house_words, kept)) / max(1, words)


def is_participle(name: str) -> bool:
    """Test for a function name that is a participle, alone or with particles (`told_again`)."""
    words = name.split("_")
    heads = [word for word in words if word not in _PARTICLES]
    return bool(heads) and all(
        (word in _IRREGULAR and not (word in _VERBS_TOO and len(words) == 1))
        or (word.endswith("ed") and word not in _NO_PARTICIPLES)
        for word in heads
    )


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Public functions and methods of a module, without properties."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
            if not decorators & {"property", "cached_property", "setter"}:
                yield node


def prescribed_names(trees: Iterable[ast.Module]) -> set[str]:
    """Names of the methods of protocols and of functions that an entry point calls by name."""
    return {
        method.name
        for tree in trees
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef)
        and any(getattr(base, "id", "") == "Protocol" for base in node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    } | {"main", "register", "entry"}


def shared_names(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Names of public functions of modules that two files define, with the files."""
    files = defaultdict[str, set[str]](set)
    prescribed = prescribed_names(trees.values())
    for place, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                files[node.name].add(place)
    return {
        name: places for name, places in files.items() if len(places) > 1 and name not in prescribed
    }


def percent(flags: Iterable[bool]) -> float:
    """Share of true values, in percent."""
    kept = list(flags)
    return 100 * sum(kept) / max(1, len(kept))


def read_trees(folders: Iterable[Path] = (PACKAGE,)) -> dict[str, ast.Module]:
    """Parse every module of some folders."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    }


def read_pages() -> list[str]:
    """Texts of the README, of the documents and of the manual."""
    return [path.read_text("utf-8") for path in (ROOT / "README.md", *PACKAGE.rglob("*.md"))]


def count(trees: dict[str, ast.Module], pages: Iterable[str]) -> Counts:
    """Measure the texts of modules and pages."""
    docs = [text.text for place, tree in trees.items() for text in read_docstrings(tree, place)]
    others = [text.text for place, tree in trees.items() for text in read_messages(tree, place)]
    others += pages
    names = [function.name for tree in trees.values() for function in public_functions(tree)]
    long = (len(s.split()) > LONG for text in docs + others for s in sentences(text))
    return Counts(
        percent(map(begins_badly, docs)),
        per_thousand(docs),
        per_thousand(others),
        percent(map(is_participle, names)),
        sum(map(len, shared_names(trees).values())),
        percent(long),
    )


def main() -> None:
    """Print the counts of the package, or of the folders that are named."""
    options = [Path(name).resolve() for name in sys.argv[1:] if not name.startswith("--")]
    trees = read_trees(options or [PACKAGE])
    if "--list" in sys.argv:
        for place, tree in trees.items():
            for text in read_docstrings(tree, place):
                if begins_badly(text.text):
                    print(f"{text.place}: {text.text.strip().splitlines()[0]}")
    result = count(trees, [] if options else read_pages())
    print(f"docstrings that begin badly            {result.bad_starts:6.2f} %")
    print(f"house words in docstrings              {result.house_words:6.2f} per 1,000")
    print(f"house words in messages and pages      {result.house_words_of_texts:6.2f} per 1,000")
    print(f"participles as public function names   {result.participles:6.2f} %")
    print(f"public functions that share a name     {result.shared_names:6}")
    print(f"sentences above {LONG} words              {result.long_sentences:6.2f} %")


if __name__ == "__main__":
    main()
