-- Found by the fuzz: measures that no output shows.
-- catalog: shop

-- case: a sum and a count beside another count that nothing shows
SELECT r.m0, r.m1 AS a0 FROM (SELECT SUM(COALESCE(t0.age, 0)) AS m0, COUNT(*) FILTER (WHERE t0.country IS NOT NULL) AS m1, COUNT(*) AS m2 FROM customers t0) AS r;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
