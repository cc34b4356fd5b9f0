"""Answers as pictures: what is drawn of one, and how: in a terminal, as SVG, as PNG, as a page."""
