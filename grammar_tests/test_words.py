"""Plain English: each count of `grammar_tests.words` stays at or below its limit.

Limits are only ever lowered. The targets are those of the comments.
"""

from __future__ import annotations

import ast

import pytest

from grammar_tests.same_trees import normal_tree
from grammar_tests.words import (
    Counts,
    begins_badly,
    count,
    house_words,
    is_participle,
    read_pages,
    read_trees,
    sentences,
)

LIMITS = Counts(
    bad_starts=1.0,  # 2
    house_words=1.0,  # 2
    house_words_of_texts=3.0,  # 6
    participles=14.3,  # 4
    shared_names=370,  # 150
    long_sentences=1.5,  # 2
)


@pytest.mark.full("reads every text of the project")
def test_words_stay_plain() -> None:
    """One test, since several workers would each count the whole package."""
    counts = count(read_trees(), read_pages())
    found = {name: (getattr(counts, name), getattr(LIMITS, name)) for name in Counts.__slots__}
    assert {name: both for name, both in found.items() if both[0] > both[1]} == {}, (
        "see python -m grammar_tests.words"
    )


TWIN = '''
"""What is asked anew, whose limit nobody knows."""

def told_again() -> str:
    """Of those who ask one pays."""
    raise ValueError("all that nobody was told stands beside it")

def planned() -> int:
    """Return the number of plans."""
'''


def test_wrong_twin() -> None:
    """A module in the old style fails each measure."""
    tree = ast.parse(TWIN)
    found = count({"a.py": tree, "b.py": tree}, [f"It is {'very ' * 31} long."])
    assert found.bad_starts > LIMITS.bad_starts
    assert found.house_words > LIMITS.house_words
    assert found.house_words_of_texts > LIMITS.house_words_of_texts
    assert found.participles == 100
    assert found.shared_names == 4
    assert found.long_sentences > LIMITS.long_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is left.", True),
        ("Whether it ends.", True),
        ("Of all rows, the first.", True),
        ("Return what is left.", False),
        ("The rows that are left.", False),
        ("SELECT without FROM.", False),
    ],
)
def test_starts(text: str, *, expected: bool) -> None:
    assert begins_badly(text) is expected


def test_house_words_are_words() -> None:
    assert house_words("A question: what comes next? A toldo, besides.") == 0
    assert house_words("What comes next is told anew.") == 3


def test_participles() -> None:
    assert all(map(is_participle, ("planned", "told_again", "vouched_for", "kept")))
    assert not any(map(is_participle, ("released_columns", "read", "seed", "split", "plan_cube")))


def test_sentences_skip_examples_and_tables() -> None:
    text = "One. Two is\nhere.\n\n* three\n* four\n\n| a | b |\n\n>>> f(1)\n2\n\nFive"
    assert sentences(text) == ("One", "Two is here", "three", "four", "Five")


def test_only_words_differ() -> None:
    """Docstrings, and with the option messages, may differ; code and doctested values may not."""
    old = '"""A."""\nx = 1\n"""B."""\ndef f():\n    """C."""\n    raise E("it is not very plain")\n'
    new = old.replace("A.", "Z.").replace("C.", "D.")
    assert normal_tree(old) == normal_tree(new)
    assert normal_tree(old) != normal_tree(old.replace("x = 1", "x = 2"))
    told = old.replace("not very plain", "now quite plain")
    assert normal_tree(old) != normal_tree(told)
    assert normal_tree(old, messages=True) == normal_tree(told, messages=True)


def test_renames_follow_the_map() -> None:
    old = "from m import b, told\n__all__ = ['told']\ntold(b)\n"
    new = "from m import b, answer\n__all__ = ['answer']\nanswer(b)\n"
    assert normal_tree(old, {"told": "answer"}) == normal_tree(new)
    assert normal_tree(old, {"told": "other"}) != normal_tree(new)
