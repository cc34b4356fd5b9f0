-- Queries over public tables alone pass through, exactly and at no cost.
-- catalog: shop

-- case: rows of a public table
SELECT code, region FROM countries ORDER BY code;
-- accept

-- case: star
SELECT * FROM countries;
-- accept

-- case: aggregates
SELECT region, COUNT(*) AS n, MIN(code) AS first FROM countries GROUP BY region;
-- accept

-- case: a join of public tables
SELECT COUNT(*) FROM countries CROSS JOIN products;
-- accept

-- case: no table at all
SELECT 1 AS one, 'a' || 'b' AS ab;
-- accept

-- case: a window
SELECT code, ROW_NUMBER() OVER (PARTITION BY region ORDER BY code) AS r FROM countries;
-- accept
-- rewrite:
--   SELECT t2.c1 AS c0, t2.c3 AS c1
--   FROM (
--     SELECT
--       t1."code" AS c1,
--       t1."region" AS c2,
--       row_number() OVER (PARTITION BY t1."region" ORDER BY t1."code" NULLS LAST) AS c3
--     FROM "countries" AS t1
--   ) AS t2

-- case: set operations
SELECT code FROM countries EXCEPT SELECT 'NO';
-- accept

-- case: distinct and limit
SELECT DISTINCT category FROM products ORDER BY category LIMIT 2;
-- accept

-- case: left join
SELECT a.code, b.region FROM countries a LEFT JOIN countries b ON a.code = b.code AND b.region = 'north';
-- accept

-- case: an unknown table
SELECT * FROM secrets;
-- refuse: unknown-table at 1:15

-- case: an unknown table before the name of an output
SELECT segment FROM customers AS c GROUP BY d.segment;
-- refuse: unknown-table at 1:45

-- case: a catalogue table of the engine
SELECT * FROM duckdb_tables;
-- refuse: unknown-table at 1:15

-- case: a table function
SELECT * FROM duckdb_tables();
-- refuse: unsupported-syntax at 1:15

-- case: a file
SELECT * FROM 'people.csv';
-- refuse: unsupported-syntax at 1:15

-- case: a file function
SELECT * FROM read_csv('people.csv');
-- refuse: unsupported-syntax at 1:15

-- case: another schema
SELECT * FROM information_schema.tables;
-- refuse: unknown-table at 1:34

-- case: an unknown function
SELECT getenv('HOME');
-- refuse: unsupported-function at 1:8

-- case: an unknown column
SELECT colour FROM countries;
-- refuse: unknown-column at 1:8
