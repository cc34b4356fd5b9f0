"""A picture for a notebook, a terminal or a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from dpsql.interfaces.pictures.charts import Chart, chart_of
from dpsql.interfaces.pictures.png_chart import png
from dpsql.interfaces.pictures.svg_chart import svg
from dpsql.interfaces.pictures.terminal_chart import picture
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Answer


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """Numbers of an answer with whiskers for their 95 % intervals."""

    answer: Answer

    def __repr__(self) -> str:
        return picture(self.answer)

    def _repr_svg_(self) -> str:
        return svg(chart_of(self.answer))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG, or as PNG with the extra `png`, by the suffix of the file.

        Raises ValueError for other suffixes, MissingExtra without the extra.
        """
        save_chart(chart_of(self.answer), path)


PICTURES = (".svg", ".png")
"""Suffixes of pictures."""


def save_chart(chart: Chart, path: str | PathLike[str]) -> None:
    """Write a chart by the suffix of the file. Raises as `Drawing.save` does."""
    match Path(path).suffix.lower():
        case "" | ".svg":
            Path(path).write_text(svg(chart), encoding="utf-8")
        case ".png":
            Path(path).write_bytes(png(chart))
        case _:
            raise ValueError("A picture is SVG or PNG: its name ends in .svg or .png.")
