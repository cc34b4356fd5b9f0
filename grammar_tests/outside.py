"""Packages that an owner has installed, as Python finds them: by entry points."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, package: str, group: str, **values: str) -> None:
    """Put a package into a folder of the path; `values` are its entry points by name."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in values.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
