"""A chart as PNG: the SVG, drawn at twice its size on white."""

from __future__ import annotations

from functools import cache

from dpsql.interfaces.pictures.charts import Chart
from dpsql.interfaces.pictures.svg_chart import svg
from dpsql.model.errors import MissingExtra

SCALE = 2
"""Pixels for each of the SVG's, so that it is sharp on paper and on fine screens."""

_SANS = ("DejaVu Sans", "Arial", "Helvetica", "Liberation Sans", "Noto Sans", "Roboto", "Verdana")
"""What systems have as sans-serif: the drawing library looks for no other font than is named."""

_FIELD = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
_LETTER = '<text y="15" font-family="sans-serif">A</text>'


def require_png() -> None:
    """Raises MissingExtra unless a PNG can be drawn, with its letters; asked before anything is
    charged.
    """
    try:
        import resvg_py  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra("A PNG needs the extra: pip install 'dpsql[png]'.") from None
    if _font() is None:
        raise MissingExtra(f"A PNG needs one of the fonts {', '.join(_SANS)}; an SVG needs none.")


def png(chart: Chart) -> bytes:
    """The whole picture. Raises as `require_png` does."""
    require_png()
    return _drawn(svg(chart), _font())


@cache
def _font() -> str | None:
    """The first font in which a letter is seen: in others it is left out, and nothing says so."""
    blank, letter = _FIELD.format(""), _FIELD.format(_LETTER)
    return next((font for font in _SANS if _drawn(letter, font) != _drawn(blank, font)), None)


def _drawn(text: str, font: str | None) -> bytes:
    import resvg_py  # noqa: PLC0415

    drawn = resvg_py.svg_to_bytes(
        svg_string=text, zoom=SCALE, background="white", sans_serif_family=font
    )
    return bytes(drawn)
