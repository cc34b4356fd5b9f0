"""Where people are: each reports the cell of a grid by OUE at ε = 2, or a trusted server counts."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from dpsql.mechanisms.randomized_response import best
from examples.local.scene import analyst, answer, dice, listed, reports

PEOPLE, SIDE = 30_000, 6
CELLS = tuple(f"{chr(ord('A') + row)}{column + 1}" for row in range(SIDE) for column in range(SIDE))
SHADES = " .:-=+*#%@"


def picture(counts: dict[str, float]) -> list[str]:
    """The grid with a darker sign for more people; what is below none is blank."""
    most = max(counts.values())
    signs = [SHADES[int(max(0.0, counts[cell]) / most * (len(SHADES) - 1))] * 2 for cell in CELLS]
    return ["".join(signs[SIDE * row : SIDE * (row + 1)]) for row in range(SIDE)]


random, law = dice(), best(len(CELLS), Decimal(2))
spots = np.array([[1.2, 1.4], [4.3, 3.6]])[random.integers(0, 2, PEOPLE)]
rows, columns = np.clip(np.round(random.normal(spots, 0.9)), 0, SIDE - 1).astype(int).T
places = rows * SIDE + columns
truth = [CELLS[place] for place in places.tolist()]
how = f'{{ mechanism = "{law.mechanism}", epsilon = 2.0 }}'
laws = f"cell = {{ values = {listed(CELLS)}, randomized = {how} }}"
declared = f"cell = {{ values = {listed(CELLS)} }}"
grids = {"truth": dict(zip(CELLS, np.bincount(places, minlength=len(CELLS)).tolist(), strict=True))}
errors = {}
with analyst({"cell": truth}, {"cell": reports(law, CELLS, places, random)}, declared, laws) as ask:
    for name, table, epsilon in (("local", "reports", None), ("central", "people", "2.0")):
        cells, stated = answer(ask, f"SELECT cell, COUNT(*) FROM {table} GROUP BY cell", epsilon)
        grids[name] = {str(cell): float(str(count)) for cell, count in cells}
        errors[name] = np.sqrt(np.mean([error[1] ** 2 for error in stated]))
print("   ".join(f"{name:{2 * SIDE}}" for name in grids))
for lines in zip(*map(picture, grids.values()), strict=True):
    print("   ".join(lines))
print(f"standard error of a cell of {PEOPLE:,} people at ε = 2, by {law.mechanism}:", end=" ")
print(", ".join(f"{name} {error:.1f}" for name, error in errors.items()))
