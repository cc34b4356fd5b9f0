#!/usr/bin/env python3
"""Constraints for pip: each requirement of pyproject.toml at the lowest version that it admits."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"].values()
for requirement in {*project["dependencies"], *(one for extra in extras for one in extra)}:
    found = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+).*", requirement)
    # click alone is named twice: the tests want a later one than dpsql.
    if found is not None and requirement != "click>=8.2":
        print(f"{found[1]}=={found[2]}")  # noqa: T201
