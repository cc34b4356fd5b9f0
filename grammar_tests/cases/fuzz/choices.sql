-- What is chosen where nothing can be, and what comes of dates that no calendar of ours has.
-- catalog: shop

-- case: a choice in each of no groups
SELECT t1.category AS k, MAX(t0.age) AS m FROM customers AS t0 JOIN products AS t1 ON t0.country = t1.category GROUP BY k;
-- accept
-- keys: 0 public, l0 proved
-- choice: 2/2 of 121 l0=1 rows=1 greatest

-- case: dates of public numbers, some before the year one
SELECT t1.category AS k, COUNT(MAKE_DATE(t0.units, t1.product_id, t1.product_id)) AS n FROM items AS t0 JOIN products AS t1 USING (product_id) GROUP BY k;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=20

-- case: such a date has no bounds to choose between
SELECT MAX(MAKE_DATE(t0.units, t1.product_id, t1.product_id)) AS m FROM items AS t0 JOIN products AS t1 USING (product_id);
-- refuse: unbounded-input at 1:12
