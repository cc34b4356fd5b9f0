"""Who ever took a bribe? Each throws two coins: heads, the truth; tails, whatever the second says.

ε = ln 3 for each who answers, and nobody who asks has to be trusted.
"""

from __future__ import annotations

import numpy as np

from dpsql.mechanisms.randomized_response import two_coins
from examples.local.scene import analyst, answer, dice, reports

PEOPLE, SHARE = 20_000, 0.12
VALUES = ("yes", "no")
LAW = 'answer = { values = ["yes", "no"], randomized = { mechanism = "two-coins" } }'

random = dice()
truths = np.where(random.random(PEOPLE) < SHARE, 0, 1)
said = reports(two_coins(2), VALUES, truths, random)
print(f"{said.count('yes') / PEOPLE:.1%} said yes; {np.mean(truths == 0):.1%} did.")
with analyst({"age": [40] * PEOPLE}, {"answer": said}, "age = { bounds = [0, 120] }", LAW) as ask:
    sql = "SELECT AVG(CASE WHEN answer = 'yes' THEN 1.0 ELSE 0.0 END) AS share FROM reports"
    ((share,),), ((error,),) = answer(ask, sql)
    print(f"Estimated: {share:.1%} ± {1.96 * error:.1%} (95 %), one standard error is {error:.2%}.")
