"""Integer scores of histogram cells for private choices, and how far one row moves them.

A histogram counts rows in cells that are ordered and public. A quantile's score is the distance of
its rank from the target rank. It is measured to the nearest row of a cell rather than to its
middle, so the quantile itself is best, however many rows share its value.

Proof (PRIVACY.md R49). A row that comes moves the target p·n + o by p, and d·below and d·upto by d
or 0 each. Both differences move by -p or d - p, and a maximum moves no more than its arguments.
Rows that come only raise counts.

`Peak` chooses the histogram that reaches highest. There is a list of counts for each option, over
the same levels. The target is the option with the highest level that m rows reach. One row is too
few, since any single row may be the highest. Option c is the target if, at some level t, at least m
of its rows are at or above t, and every other option has fewer than m above t. The rows that must
come or go until then are

    d(c) = min over t of max(0, m - n_c(>= t)) + Σ_{c' ≠ c} max(0, n_c'(> t) - (m - 1)).

Proof (PRIVACY.md R50). A row that comes to option x lowers the first term of x and raises the
second of all others, each by at most one at every t, and a row that goes does the reverse. All d
move by at most one, that of x one way and those of the others the other way, so that differences
move by at most two. It is a distance, and so the score of the inverse sensitivity mechanism (Asi
and Duchi 2020).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias, assert_never

import numpy as np

from dpsql.mechanisms.entropy import distinct
from dpsql.mechanisms.exponential import Candidates
from dpsql.model.dataclass import dataclass, replace

MOST_STEPS = 1 << 21
"""Largest denominator of a rank."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The cell that holds the row of rank (numerator·n + offset) / denominator among n rows.

    With `below` rows in lower cells and `upto` in those and its own, a cell's score is minus the
    distance of numerator·n + offset from [denominator·below, denominator·upto]. A row that comes
    or goes moves either end by at most max(numerator, denominator - numerator).

        >>> Rank(1, 2).spread, Rank(2, 2, -1).spread
        (2, 4)
    """

    numerator: int
    denominator: int
    offset: int = 0

    @property
    def spread(self) -> int:
        """Largest change of the difference of two cells' scores by one row."""
        return 2 * max(self.numerator, self.denominator - self.numerator)

    @property
    def per_row(self) -> int:
        """Cost in score of one rank away from the target."""
        return self.denominator

    @property
    def is_extreme(self) -> bool:
        """True if the rank is a number of rows from one end."""
        return self.numerator in (0, self.denominator)

    @property
    def rows(self) -> int:
        """Distance of an extreme rank from its end, in rows; the outermost row is 1."""
        return (abs(self.offset) + 1) // 2

    @property
    def fraction(self) -> Fraction:
        """Fraction of the rows that is below the rank."""
        return Fraction(self.numerator, self.denominator)

    @property
    def place(self) -> tuple[Fraction, int]:
        """Sort key among ranks of the same rows, for any number of rows."""
        return self.fraction, self.offset

    def at(self, rows: int) -> Rank:
        """Return an extreme rank with denominator 2, at this number of rows from its end.

        >>> Rank(2, 2, -1).at(3)
        Rank(numerator=2, denominator=2, offset=-5)
        """
        offset = 2 * rows - 1
        return replace(self, offset=-offset if self.numerator else offset)


@dataclass(frozen=True, slots=True)
class Most:
    """The cell with the most rows: a cell's score is its number of rows.

    Rows that come move all scores upwards, rows that go downwards: one row changes the difference
    of two scores by 1.
    """

    @property
    def spread(self) -> int:
        """Largest change of the difference of two cells' scores by one row."""
        return 1

    @property
    def per_row(self) -> int:
        """Cost in score of one row less."""
        return 1


@dataclass(frozen=True, slots=True)
class Reached:
    """The outermost cell that `rows` rows reach: rows in it or beyond, towards the outer end.

    A cell's score is the number of rows that reach it. Rows that come or go move all scores one
    way, each row some of them by 1. Sparse vector asks cell after cell, from the outer end on, for
    the first that is reached: see `mechanisms.sparse_vector`.
    """

    highest: bool
    rows: int = 1

    @property
    def spread(self) -> int:
        """Largest change of the difference of two cells' scores by one row."""
        return 1

    @property
    def per_row(self) -> int:
        """Cost in score of one row less."""
        return 1


@dataclass(frozen=True, slots=True)
class Peak:
    """The option with the highest (or lowest) level that `rows` rows reach: see
    `mechanisms.scores`.

    A cell is an option at a level, numbered level · `options` + option.
    """

    options: int
    lowest: bool
    rows: int = 1

    @property
    def spread(self) -> int:
        """Largest change of the difference of two options' scores by one row."""
        return 2

    @property
    def per_row(self) -> int:
        """Cost in score of one row less."""
        return 1


Aim: TypeAlias = Rank | Most | Peak | Reached


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """Histograms of `size` cells, one for each of `lists`. The repr hides them, as `Exact` does.

    `places` are the cells with rows, counted through all histograms, increasing; `counts` are their
    rows.
    """

    lists: int
    size: int
    places: np.ndarray
    counts: np.ndarray

    def __repr__(self) -> str:
        return "Counted(<hidden>)"

    def between(self, first: int, last: int) -> HistogramCounts:
        """Return the histograms from `first` up to, but without, `last`."""
        begin, end = np.searchsorted(self.places, [first * self.size, last * self.size])
        places = self.places[begin:end] - first * self.size
        return HistogramCounts(last - first, self.size, places, self.counts[begin:end])

    def nodes(self, width: int) -> HistogramCounts:
        """Return the counts of nodes of `width` cells; a node may occur several times."""
        size = -(-self.size // width)
        own, cell = np.divmod(self.places, self.size)
        return HistogramCounts(self.lists, size, own * size + cell // width, self.counts)

    def below(self, nodes: np.ndarray, width: int) -> HistogramCounts:
        """Return the cells of these nodes of `width` cells as histograms; nodes must be sorted."""
        size = -(-self.size // width)
        own, cell = np.divmod(self.places, self.size)
        node = own * size + cell // width
        indices = np.minimum(np.searchsorted(nodes, node), len(nodes) - 1)
        inside = nodes[indices] == node
        places = (indices * width + cell % width)[inside]
        return HistogramCounts(len(nodes), width, places, self.counts[inside])

    def table(self) -> np.ndarray:
        """Return all counts, a histogram in each row, zeros included."""
        wide = int(self.counts.sum()) >= 1 << 62
        table = np.zeros(self.lists * self.size, dtype=object if wide else np.int64)
        np.add.at(table, self.places, self.counts.astype(table.dtype))
        return table.reshape(self.lists, self.size)


def candidates(counted: HistogramCounts, aim: Aim) -> Candidates:
    """Return the cells of histograms as candidates; cells without rows are in few runs.

    >>> found = candidates(HistogramCounts(1, 10, np.array([2, 5]), np.array([3, 1])), Rank(1, 2))
    >>> found.starts.tolist(), found.behind.tolist()
    ([0, 2, 3, 5, 6], [4, 0, 2, 2, 4])
    """
    if isinstance(aim, Peak):
        return _options(counted, aim)
    lists, size, cells, counts = counted.lists, counted.size, counted.places, counted.counts
    borders = np.arange(lists + 1) * size
    if int(counts.sum()) * MOST_STEPS >= 1 << 62:
        counts = counts.astype(object)
    starts = distinct(np.concatenate([borders[:-1], cells, cells + 1]))
    starts = starts[starts < lists * size]
    before = np.concatenate([[0], np.cumsum(counts)])
    ends = before[np.searchsorted(cells, borders)]
    own = starts // size
    below = before[np.searchsorted(cells, starts)] - ends[own]
    upto = before[np.searchsorted(cells, starts, side="right")] - ends[own]
    scores = _scores(below, upto, ends[own + 1] - ends[own], aim)
    best = np.maximum.reduceat(scores, np.searchsorted(starts, borders[:-1]))
    return Candidates(lists, size, starts, best[own] - scores, best)


def _options(counted: HistogramCounts, aim: Peak) -> Candidates:
    """Return the options of every histogram as candidates, with or without rows."""
    behind = []
    for number in range(counted.lists):
        own = counted.between(number, number + 1)
        level, option = np.divmod(own.places, aim.options)
        levels, column = np.unique(level, return_inverse=True)
        table = np.zeros((aim.options, max(1, len(levels))), dtype=np.int64)
        table[option, column] = own.counts
        scores = distances(table[:, ::-1] if aim.lowest else table, aim.rows)
        behind.append(scores - scores.min())
    places = np.arange(counted.lists * aim.options)
    return Candidates(
        counted.lists, aim.options, places, np.concatenate(behind), np.zeros(counted.lists)
    )


def _scores(
    below: np.ndarray, upto: np.ndarray, rows: np.ndarray, aim: Rank | Most | Reached
) -> np.ndarray:
    """Return the scores of cells, from the rows below them, in or below them, and in all cells."""
    match aim:
        case Most():
            return np.asarray(upto - below)
        case Reached(highest=highest):
            return np.asarray(rows - below if highest else upto)
        case Rank(numerator=numerator, denominator=denominator, offset=offset):
            target = numerator * rows + offset
            beyond = np.maximum(denominator * below - target, target - denominator * upto)
            return np.asarray(-np.maximum(beyond, 0))
        case _:
            assert_never(aim)


def distances(counts: np.ndarray, rows: int) -> np.ndarray:
    """Return the distance d of each option, from its `counts` by option and increasing level.

    Levels without rows may be left out: at the next lower level with rows, both terms are as small
    or smaller.

    >>> distances(np.array([[5, 0, 2], [0, 4, 0]]), 3).tolist()
    [1, 0]
    """
    reached = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    beyond = np.maximum(reached - counts - (rows - 1), 0)
    missing = np.maximum(rows - reached, 0)
    return np.asarray(np.min(missing + beyond.sum(axis=0) - beyond, axis=1))
