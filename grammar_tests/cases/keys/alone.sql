-- Private keys of which nothing else is asked: shown by a trial each, or by a threshold.
-- catalog: shop

-- case: DISTINCT under the approximate accountant
SELECT DISTINCT city FROM customers;
-- accountant: approximate
-- accept
-- keys: private, by trials, l0 proved

-- case: keys without an aggregate
SELECT city FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by trials, l0 proved

-- case: keys of linked rows, of which a unit has several
SELECT DISTINCT device FROM events ORDER BY device;
-- accountant: approximate
-- accept
-- keys: private, by trials, l0 enforced
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."device" AS k0 FROM "events" AS t1),
--   totals AS (SELECT u, k0, 1 AS s0 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT u, k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0 FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 2),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, p0, 1 AS one FROM clipped UNION ALL SELECT k0, -p0, -1 FROM beyond WHERE place >= 2
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0 FROM release_0 AS t1 ORDER BY t1.c0 NULLS LAST

-- case: the zcdp accountant charges a trial for more than a noisy count
SELECT DISTINCT device FROM events;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."device" AS k0 FROM "events" AS t1),
--   totals AS (SELECT u, k0, 1 AS s0 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT u, k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0 FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 2),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, p0, 1 AS one FROM clipped UNION ALL SELECT k0, -p0, -1 FROM beyond WHERE place >= 2
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a count that nobody sees is measured all the same
SELECT city FROM customers GROUP BY city HAVING COUNT(*) > 3;
-- accountant: approximate
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: what the keys say of themselves costs nothing more
SELECT city, MAX(city) AS again, LENGTH(city) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by trials, l0 proved

-- case: how many keys there are
SELECT COUNT(*) AS n FROM (SELECT DISTINCT city FROM customers) AS t;
-- accountant: approximate
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: listed keys need no trial
SELECT DISTINCT segment FROM customers;
-- accountant: approximate
-- accept
-- keys: 2 public, l0 proved

-- case: the pure accountant has no δ for trials
SELECT DISTINCT city FROM customers;
-- accountant: pure
-- refuse: private-keys-need-delta at 1:1

-- case: larger groups by option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, min_privacy_units_per_group = 20) city, COUNT(*) AS n FROM customers GROUP BY city;
-- accept
-- keys: private, of 20 units, l0 proved
-- release: rows l0=1 linf=1

-- case: larger groups where nothing but the keys is asked
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 20) DISTINCT city FROM customers;
-- accountant: approximate
-- accept
-- keys: private, of 20 units, l0 proved
-- release: rows l0=1 linf=1

-- case: larger groups where every key is answered
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 20) segment, COUNT(*) AS n FROM customers GROUP BY segment;
-- refuse: bad-option at 1:1

-- case: larger groups of public rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 20) DISTINCT region FROM countries;
-- refuse: bad-option at 1:1
