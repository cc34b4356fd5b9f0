"""Answers as pictures: charts for a terminal, SVG, PNG and HTML pages."""
