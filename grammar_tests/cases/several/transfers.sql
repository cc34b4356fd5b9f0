-- Rows that belong to several people each: filters, public joins, direct counts and sums.
-- catalog: transfers

-- case: all of them
SELECT COUNT(*) FROM t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: direct counts and sums
SELECT COUNT(*), COUNT(v), SUM(v), AVG(v) FROM t WHERE payee >= 2;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=24

-- case: public keys
SELECT g, COUNT(*), SUM(v) FROM t GROUP BY g;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=30

-- case: a filter that compares two people
SELECT g, SUM(v) FILTER (WHERE payer <> payee) FROM t GROUP BY g;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=1 linf=30

-- case: an expression of a second person
SELECT payee % 2 AS odd, SUM(v * v) FROM t WHERE payee IS NOT NULL GROUP BY odd;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=300

-- case: renamed and filtered
SELECT SUM(payer), SUM(v) FROM (SELECT payer, v, g FROM t WHERE v > 0) s WHERE g = 'a';
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=27
-- release: sum l0=1 linf=30

-- case: joined with constants by a second person
SELECT n, COUNT(*) FROM t JOIN (VALUES (1), (2), (3)) w(n) ON payee = n GROUP BY n;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=3

-- case: joined with constants, several to one person
SELECT n, SUM(v) FROM (VALUES (1), (2), (2)) w(n) JOIN t ON payer = n GROUP BY n;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=60

-- case: constants LEFT JOIN them
SELECT n, COUNT(v) FROM (VALUES (1), (2), (5)) w(n) LEFT JOIN t ON payee = n GROUP BY n;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=3

-- case: IN a list
SELECT COUNT(*) FROM t WHERE payer IN (SELECT n FROM (VALUES (1), (3)) w(n));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: moments
SELECT STDDEV(v), COUNT(*) FROM t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=24
-- release: sum l0=1 linf=96
-- release: rows l0=1 linf=3

-- case: nested conditions
SELECT COUNT(*) FILTER (WHERE v <= 0), COUNT(*) FILTER (WHERE v <= 3), COUNT(*) FROM t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."v" <= 0 AS x0,
--       t1."v" <= 3 AND NOT t1."v" <= 0 AS x1,
--       NOT coalesce(t1."v" <= 0, FALSE) AND NOT coalesce(t1."v" <= 3, FALSE) AS x2
--     FROM "t" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*) FILTER (WHERE x2)::HUGEINT, 0) AS p2,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p3
--   FROM rows
--   SELECT t2.c7 AS c0, t2.c8 AS c1, t2.c9 AS c2
--   FROM (SELECT t1.c0 AS c7, TRY(t1.c0::HUGEINT + t1.c1) AS c8, t1.c3 AS c9 FROM release_0 AS t1) AS t2

-- case: totals of public keys
SELECT g, COUNT(*) FROM t GROUP BY ROLLUP (g);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=3

-- case: the largest of public keys
SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC, g LIMIT 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=3

-- case: a group for each person
SELECT payer, COUNT(*) FROM t GROUP BY payer;
-- refuse: unsupported-private-operator at 1:40

-- case: the different people
SELECT DISTINCT payee FROM t;
-- refuse: unsupported-private-operator at 1:1

-- case: totals of each person
SELECT AVG(n) FROM (SELECT payer AS p, COUNT(*) AS n FROM t GROUP BY p) s;
-- refuse: unsupported-private-operator at 1:28

-- case: MAX
SELECT MAX(v) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: MEDIAN
SELECT MEDIAN(v) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: a count of people
SELECT COUNT(DISTINCT payer) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: a count of values
SELECT COUNT(DISTINCT v) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: a sum of values, each once
SELECT SUM(DISTINCT v) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: private keys
SELECT COUNT(*) FROM t GROUP BY v, payer + 0, payee + 0, t_id + 0;
-- refuse: unsupported-private-operator at 1:33

-- case: a join with the unit
SELECT COUNT(*) FROM t JOIN people ON payer = pid;
-- refuse: unsupported-private-operator at 1:29

-- case: a LEFT JOIN from the unit
SELECT COUNT(*) FROM people LEFT JOIN t ON payer = pid;
-- refuse: unsupported-private-operator at 1:39

-- case: a comma join with the unit
SELECT COUNT(*) FROM people, t WHERE payer = pid;
-- refuse: unsupported-private-operator at 1:30

-- case: a join with themselves
SELECT COUNT(*) FROM t x JOIN t y ON x.payer = y.payer;
-- refuse: unsupported-private-operator at 1:31

-- case: EXISTS of them
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM t WHERE payer = pid);
-- refuse: unsupported-private-operator at 1:50

-- case: the unit IN them
SELECT COUNT(*) FROM people WHERE pid IN (SELECT payee FROM t);
-- refuse: unsupported-private-operator at 1:35

-- case: them IN the unit
SELECT COUNT(*) FROM t WHERE payee IN (SELECT pid FROM people);
-- refuse: unsupported-private-operator at 1:30

-- case: EXISTS of the unit
SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM people WHERE pid = payer);
-- refuse: unsupported-private-operator at 1:45

-- case: numbered within a person
SELECT SUM(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY payer ORDER BY v) AS n FROM t) s;
-- refuse: unsupported-private-operator at 1:28

-- case: a UNION of their people
SELECT COUNT(*) FROM (SELECT payer FROM t UNION ALL SELECT payee FROM t) s;
-- refuse: unsupported-private-operator at 1:30

-- case: a UNION with other rows
SELECT COUNT(*) FROM (SELECT v FROM t UNION ALL SELECT v FROM people) s;
-- refuse: unsupported-private-operator at 1:30

-- case: a clip of what a person adds
SELECT WITH DIFFERENTIAL_PRIVACY SUM(v, contribution_bounds_per_group => (0, 3)) FROM t;
-- refuse: unsupported-private-operator at 1:34

-- case: blocks of people
SELECT WITH DIFFERENTIAL_PRIVACY SAMPLE_AGGREGATE(AVG(v), 0, 5) AS s FROM t;
-- refuse: unsupported-private-operator at 1:34

-- case: ARG_MAX
SELECT ARG_MAX(g, v) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: MODE
SELECT MODE(g) FROM t;
-- refuse: unsupported-private-operator at 1:8

-- case: LIMIT
SELECT COUNT(*) FROM (SELECT v FROM t LIMIT 3) s;
-- refuse: unsupported-private-operator at 1:23

-- case: rows
SELECT * FROM t;
-- refuse: raw-rows at 1:15
