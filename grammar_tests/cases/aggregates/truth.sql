-- BOOL_OR and BOOL_AND: whether the noisy number of deciding rows is at least one.
-- catalog: shop

-- case: any and every
SELECT BOOL_OR(age > 30) AS o, BOOL_AND(age > 10) AS a FROM customers;
-- rows: customers (customer_id, age): (1, 40), (2, 5), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- integers: () 1 2 1 2
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."age" > 30 AS x0,
--       NOT coalesce(t1."age" > 30, FALSE) AS x1,
--       NOT t1."age" > 10 AS x2,
--       NOT coalesce(NOT t1."age" > 10, FALSE) AS x3
--     FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*) FILTER (WHERE x2)::HUGEINT, 0) AS p2,
--     COALESCE(COUNT(*) FILTER (WHERE x3)::HUGEINT, 0) AS p3
--   FROM rows
--   SELECT t2.c9 AS c0, t2.c10 AS c1
--   FROM (SELECT t1.c0 >= 1 AS c9, t1.c2 < 1 AS c10 FROM release_0 AS t1) AS t2

-- case: per key
SELECT country, BOOL_OR(income > 90000) AS rich FROM customers GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: with the rows that a filter keeps
SELECT BOOL_AND(quantity > 3) FILTER (WHERE status = 'paid') AS a FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: as Postgres spells it
SELECT EVERY(age IS NOT NULL) AS e FROM customers;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: as GoogleSQL spells it
SELECT LOGICAL_AND(vip) AS every_one, LOGICAL_OR(vip) AS any_one FROM customers WHERE customer_id IS NOT NULL;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: in HAVING
SELECT country, COUNT(*) AS n FROM customers GROUP BY 1 HAVING BOOL_OR(age > 3);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."country" AS k0, t1."age" > 3 AS x0, NOT coalesce(t1."age" > 3, FALSE) AS x1
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p2
--   FROM rows
--   GROUP BY k0
--   SELECT t2.c9 AS c0, t2.c10 AS c1
--   FROM (SELECT t1.c0 AS c9, t1.c1 AS c10, t1.c2 >= 1 AS c11 FROM release_0 AS t1) AS t2
--   WHERE (t2.c11)

-- case: of numbers is refused
SELECT BOOL_OR(age) AS o FROM customers;
-- refuse: type-mismatch at 1:8
