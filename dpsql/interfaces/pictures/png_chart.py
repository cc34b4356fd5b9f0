"""A chart as PNG: the SVG at twice its size on white."""

from __future__ import annotations

from functools import cache

from dpsql.interfaces.pictures.charts import Chart
from dpsql.interfaces.pictures.svg_chart import svg
from dpsql.model.errors import MissingExtra

SCALE = 2
"""Pixels per pixel of the SVG, so that it is sharp on paper and fine screens."""

_SANS = ("DejaVu Sans", "Arial", "Helvetica", "Liberation Sans", "Noto Sans", "Roboto", "Verdana")
"""Common sans-serif fonts of systems, since the drawing library finds only named fonts."""

_FIELD = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
_LETTER = '<text y="15" font-family="sans-serif">A</text>'


def require_png() -> None:
    """Raise MissingExtra unless a PNG with letters can be drawn. Called before any charge."""
    try:
        import resvg_py  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra("A PNG needs the extra: pip install 'dpsql[png]'.") from None
    if _font() is None:
        raise MissingExtra(f"A PNG needs one of the fonts {', '.join(_SANS)}; an SVG needs none.")


def png(chart: Chart) -> bytes:
    """Return the whole picture. Raises as `require_png` does."""
    require_png()
    return _drawn(svg(chart), _font())


@cache
def _font() -> str | None:
    """Return the first font that draws a letter. The library silently omits letters of others."""
    blank, letter = _FIELD.format(""), _FIELD.format(_LETTER)
    return next((font for font in _SANS if _drawn(letter, font) != _drawn(blank, font)), None)


def _drawn(text: str, font: str | None) -> bytes:
    import resvg_py  # noqa: PLC0415

    drawn = resvg_py.svg_to_bytes(
        svg_string=text, zoom=SCALE, background="white", sans_serif_family=font
    )
    return bytes(drawn)
