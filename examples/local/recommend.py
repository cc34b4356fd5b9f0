"""Which film to recommend: the exponential mechanism with a score written in SQL.

A film's score is how far above three stars its watchers put it, all added up; people put at most
two stars more or less, so that one of them sways a film's score by two.
"""

from __future__ import annotations

import numpy as np

from examples.local.scene import analyst, answer, dice, listed

FILMS = ("Amarcord", "Brazil", "Casablanca", "Dogville")
LIKED = np.array([0.3, 0.5, 0.8, 0.2])
PEOPLE = 400
SQL = "SELECT DP_CHOOSE(film ORDER BY stars - 3) AS best FROM people WHERE id >= {least}"

random = dice()
films = random.integers(0, len(FILMS), PEOPLE)
stars = np.clip(np.round(random.normal(3 + LIKED[films], 1.0)), 1, 5).astype(int)
scores = [int((stars[films == film] - 3).sum()) for film in range(len(FILMS))]
print("scores, which nobody sees:", dict(zip(FILMS, scores, strict=True)))
people = {"film": [FILMS[film] for film in films.tolist()], "stars": stars.tolist()}
declared = f"film = {{ values = {listed(FILMS)} }}\nstars = {{ bounds = [1, 5] }}"
nothing = 'x = { values = ["a", "b"], randomized = { mechanism = "two-coins" } }'
with analyst(people, {"x": ["a"]}, declared, nothing) as ask:
    for epsilon in ("0.01", "0.1"):
        # Another question each time, over almost the same people: the same one is told again.
        rows = [answer(ask, SQL.format(least=-n), epsilon)[0][0][0] for n in range(1, 13)]
        print(f"ε = {epsilon}: {', '.join(f'{f} {rows.count(f)}' for f in FILMS)} of {len(rows)}")
