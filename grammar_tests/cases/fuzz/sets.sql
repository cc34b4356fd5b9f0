-- Groupings of several levels, where the cells of the finest are not there to be summed.
-- catalog: shop

-- case: the count of a total over no cell is 0
SELECT status, COUNT(*) AS n FROM orders WHERE status = 'lost' GROUP BY ROLLUP (status);
-- accept
-- keys: 0 public, l0 proved
-- release: rows l0=0 linf=10

-- case: a total per public row without private ones
SELECT p.category, SUM(i.units) AS n FROM items i RIGHT JOIN products p USING (product_id) GROUP BY ROLLUP (p.category);
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=2 linf=200

-- case: a private key beside public rows without private ones
SELECT i.units, SUM(i.units) AS n FROM items i RIGHT JOIN products p USING (product_id) GROUP BY ROLLUP (i.units);
-- refuse: unsupported-private-operator at 1:106
