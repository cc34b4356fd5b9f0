"""A model of private people: who is married, by age and sex, and how often it is right."""

from __future__ import annotations

from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from dpsql.systems.models.models import FindModel
from examples.adult.people import demonstration

PEOPLE = """SELECT age, sex, hours_per_week > 45 AS long_hours,
marital_status = 'Married-civ-spouse' AS married FROM people"""
CREATE = f"""CREATE MODEL married
OPTIONS(model_type = 'logistic_reg', label = 'married', epsilon = 1)
AS {PEOPLE} WHERE age BETWEEN 18 AND 80"""
RIGHT = f"""SELECT AVG(CASE WHEN (PREDICT(married) > 0.5) = married THEN 1.0 ELSE 0.0 END) AS share
FROM ({PEOPLE}) AS p"""
BY_AGE = """SELECT n, PREDICT(married, n, 'Male', FALSE) AS men,
PREDICT(married, n, 'Female', FALSE) AS women FROM generate_series(18, 80) AS g(n) ORDER BY n"""

with demonstration("models") as (people, axes):
    with Proxy.open(people.policy) as proxy:
        made = proxy.ask(Request(CREATE, "zcdp"))
        model = proxy.run(FindModel("married", "zcdp"))
        (score,) = model.scores
        for term in (score.intercept, *score.terms):
            name = "intercept" if term.column < 0 else model.columns[term.column].name
            print(f"{name:>14} {term.coefficient:8.3f} ± {term.margin:.3f}")
        right = proxy.ask(Request(RIGHT, "zcdp"))
        print(f"right for {right.rows[0][0]:.3f} ± {right.margins[0][0]:.4f} of the people")
        rows = proxy.ask(Request(BY_AGE, "zcdp")).rows
    exact = people.truth(
        f"SELECT age, sex, AVG(married::INTEGER) FROM ({PEOPLE}) GROUP BY age, sex"
    )
    if axes:
        for place, sex in ((1, "Male"), (2, "Female")):
            color = f"C{place}"
            ages, shares = zip(*[(age, p) for age, s, p in exact if s == sex], strict=True)
            axes.plot(ages, shares, ".", color=color, label=f"{sex}, private")
            axes.plot([row[0] for row in rows], [row[place] for row in rows], color=color)
        axes.set(xlabel="age", ylabel="married (lines: the model, ε = 1)")
        axes.legend(frameon=False)
