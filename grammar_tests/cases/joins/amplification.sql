-- Joins that make very many rows of one person's are refused, for time would tell what they hold, or limited before.
-- catalog: shop

-- case: few copies of a public table
SELECT COUNT(*) FROM customers, countries c0, countries c1, countries c2 WHERE age >= 64 AND c0.code <> city AND c1.code <> city AND c2.code <> city;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=27
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM
--       "customers" AS t1
--       CROSS JOIN "countries" AS t2
--       CROSS JOIN "countries" AS t3
--       CROSS JOIN "countries" AS t4
--     WHERE (
--       t1."age" >= 64 AND t2."code" <> t1."city" AND t3."code" <> t1."city" AND t4."code" <> t1."city"
--     )
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 27 THEN 27 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: so many that one row becomes twenty thousand
SELECT COUNT(*) FROM customers, countries c0, countries c1, countries c2, countries c3, countries c4, countries c5, countries c6, countries c7, countries c8 WHERE age >= 64 AND c0.code <> city AND c1.code <> city AND c2.code <> city AND c3.code <> city AND c4.code <> city AND c5.code <> city AND c6.code <> city AND c7.code <> city AND c8.code <> city;
-- refuse: query-too-large at 1:145

-- case: on keys there is one copy of each row
SELECT COUNT(*) FROM customers c JOIN countries c0 ON c.country = c0.code JOIN countries c1 ON c.country = c1.code JOIN countries c2 ON c.country = c2.code JOIN countries c3 ON c.country = c3.code JOIN countries c4 ON c.country = c4.code JOIN countries c5 ON c.country = c5.code JOIN countries c6 ON c.country = c6.code JOIN countries c7 ON c.country = c7.code JOIN countries c8 ON c.country = c8.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a series in front of a private row
SELECT COUNT(*) FROM customers, generate_series(1, 200) AS s(n), generate_series(1, 200) AS r(n) WHERE s.n + r.n < age;
-- refuse: query-too-large at 1:66

-- case: two multiplications of a person's rows
SELECT COUNT(*) FROM events a JOIN events b ON a.customer_id = b.customer_id JOIN events c ON a.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=125
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM
--       "events" AS t1
--       INNER JOIN "events" AS t2 ON t1."customer_id" = t2."customer_id"
--       INNER JOIN "events" AS t3 ON t1."customer_id" = t3."customer_id"
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 125 THEN 125 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a third, over limited sides
SELECT COUNT(*) FROM events a JOIN events b ON a.customer_id = b.customer_id JOIN events c ON a.customer_id = c.customer_id JOIN events d ON a.customer_id = d.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=625

-- case: a third, hidden in a subquery
SELECT COUNT(*) FROM (SELECT a.customer_id FROM events a JOIN events b ON a.customer_id = b.customer_id) t JOIN (SELECT a.customer_id FROM events a JOIN events b ON a.customer_id = b.customer_id) u ON t.customer_id = u.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=625

-- case: a side that only conditions read is a test
SELECT COUNT(DISTINCT a.customer_id) AS n FROM events a JOIN events b ON a.customer_id = b.customer_id JOIN events c ON b.customer_id = c.customer_id JOIN events d ON c.customer_id = d.customer_id WHERE b.duration > 3 AND d.device = 'web';
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: along declared links nothing multiplies
SELECT COUNT(*) FROM items i JOIN orders o ON i.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id JOIN customers d ON d.customer_id = c.customer_id JOIN orders p ON p.order_id = i.order_id JOIN customers e ON e.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: of one row per person nothing multiplies
SELECT COUNT(*) FROM customers a JOIN customers b ON a.customer_id = b.customer_id JOIN customers c ON a.customer_id = c.customer_id JOIN customers d ON a.customer_id = d.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: rows of a person that are proved few
WITH few AS (SELECT customer_id FROM (SELECT customer_id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY event_id) AS rn FROM events) AS t WHERE rn <= 3) SELECT COUNT(*) FROM few a JOIN few b ON a.customer_id = b.customer_id JOIN few c ON a.customer_id = c.customer_id JOIN few d ON a.customer_id = d.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=81

-- case: a multiplication leaves less for public tables
SELECT COUNT(*) FROM events a JOIN events b ON a.customer_id = b.customer_id JOIN events c ON a.customer_id = c.customer_id, generate_series(1, 200) AS s(n) WHERE s.n > a.duration;
-- refuse: query-too-large at 1:126

-- case: a private row that is compared with many public ones
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM generate_series(1, 200) AS s(n), generate_series(1, 200) AS r(n) WHERE s.n < c.age);
-- refuse: query-too-large at 1:55

-- case: one that is looked up among them
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM generate_series(1, 200) AS s(n), generate_series(1, 200) AS r(n) WHERE s.n = c.age AND r.n < c.age);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: rows of a person that are compared with each other
SELECT COUNT(*) FROM events a WHERE EXISTS (SELECT 1 FROM events b JOIN events c ON b.customer_id = c.customer_id JOIN events d ON b.customer_id = d.customer_id WHERE b.customer_id = a.customer_id AND b.duration + d.duration < a.duration);
-- refuse: query-too-large at 1:52

-- case: rows of a person that are looked up
SELECT COUNT(*) FROM events a WHERE EXISTS (SELECT 1 FROM events b JOIN events c ON b.customer_id = c.customer_id JOIN events d ON b.customer_id = d.customer_id WHERE b.customer_id = a.customer_id AND b.duration = a.duration);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: rows of a person that meet by all keys of what is one row each
WITH d AS (SELECT customer_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) SELECT COUNT(*) FROM events e JOIN d ON e.customer_id = d.customer_id AND e.device = d.device JOIN d f ON f.customer_id = e.customer_id AND f.device = e.device JOIN d g ON g.customer_id = e.customer_id AND g.device = f.device;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: rows of a person that meet by some of these keys
WITH d AS (SELECT customer_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) SELECT COUNT(*) FROM events e JOIN d ON e.customer_id = d.customer_id JOIN d f ON f.customer_id = e.customer_id JOIN d g ON g.customer_id = e.customer_id;
-- refuse: query-too-large at 1:198
