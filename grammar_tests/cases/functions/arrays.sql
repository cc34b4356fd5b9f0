-- Arrays of constants: = ANY is IN, ANY and ALL are one comparison for each member, UNNEST is a list of rows.
-- catalog: shop

-- case: equal to any of an array
SELECT COUNT(*) AS n FROM customers WHERE segment = ANY(ARRAY['consumer', 'retail']);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: other than all of an array in quotes
SELECT COUNT(*) AS n FROM customers WHERE country <> ALL('{NO,"SE",NULL}');
-- dialect: postgres
-- accept

-- case: a cast array in quotes
SELECT COUNT(*) AS n FROM customers WHERE age = ANY('{30, 31, 32}'::int[]);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a text that is no array
SELECT COUNT(*) AS n FROM customers WHERE age = ANY('30, 31');
-- dialect: postgres
-- refuse: type-mismatch at 1:53

-- case: an array of dates
SELECT COUNT(*) AS n FROM customers WHERE joined = ANY(ARRAY['2024-01-01', '2024-01-02']::date[]);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: SOME is ANY
SELECT COUNT(*) AS n FROM customers WHERE segment = SOME (ARRAY['consumer']);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: more than all
SELECT COUNT(*) AS n FROM customers WHERE age > ALL(ARRAY[18, 21]);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: no more than any
SELECT COUNT(*) AS n FROM customers WHERE age <= ANY(ARRAY[18, 21]);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an empty array
SELECT COUNT(*) AS n FROM customers WHERE country = ANY('{}') OR country <> ALL(ARRAY[]::text[]);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: no array at all
SELECT COUNT(*) AS n FROM customers WHERE country = ANY(NULL);
-- dialect: postgres
-- accept

-- case: like any of some patterns
SELECT COUNT(*) AS n FROM customers WHERE city ILIKE ANY (ARRAY['o%', '%m']) AND city NOT LIKE ALL (ARRAY['%x%', '%y%']);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: any of a column
SELECT COUNT(*) AS n FROM customers WHERE segment = ANY(city);
-- dialect: postgres
-- refuse: unsupported-syntax at 1:57

-- case: ANY of nothing that is compared
SELECT COUNT(*) AS n FROM customers WHERE ANY(ARRAY[TRUE]);
-- refuse: unsupported-syntax at 1:43

-- case: any of a public subquery
SELECT COUNT(*) AS n FROM customers WHERE country = ANY (SELECT code FROM countries WHERE region = 'north');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: other than all of one
SELECT COUNT(*) AS n FROM customers WHERE country <> ALL (SELECT code FROM countries WHERE region = 'north');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: more than all of one
SELECT COUNT(*) AS n FROM customers WHERE country > ALL (SELECT code FROM countries);
-- refuse: unsupported-syntax at 1:53

-- case: in the members of an array
SELECT COUNT(*) AS n FROM customers WHERE segment IN (SELECT UNNEST(ARRAY['consumer', 'retail']));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: in the rows of an array
SELECT COUNT(*) AS n FROM customers WHERE segment IN (SELECT s FROM UNNEST(ARRAY['consumer', 'retail']) AS u(s));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: in a list
SELECT COUNT(*) AS n FROM customers WHERE segment IN ['consumer', 'retail'];
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a list contains it
SELECT COUNT(*) AS n FROM customers WHERE LIST_CONTAINS(['consumer', 'retail'], segment);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: members of a text
SELECT COUNT(*) AS n FROM customers WHERE country = ANY(STRING_TO_ARRAY('NO,SE', ','));
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: members of a column's text
SELECT COUNT(*) AS n FROM customers WHERE country = ANY(STRING_TO_ARRAY(city, ','));
-- dialect: postgres
-- refuse: unsupported-syntax at 1:57

-- case: ordered by the place in an array
SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY ARRAY_POSITION(ARRAY['consumer', 'business'], segment);
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: keys from an array
SELECT u.s, COUNT(c.customer_id) AS n FROM UNNEST(ARRAY['consumer', 'retail']) AS u(s) LEFT JOIN customers c ON c.segment = u.s GROUP BY u.s;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an alias of one column names it
SELECT s, COUNT(c.customer_id) AS n FROM UNNEST(ARRAY['consumer', 'retail']) AS s LEFT JOIN customers c ON c.segment = s GROUP BY s;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: rows of a SELECT list
WITH days AS (SELECT GENERATE_SERIES('2024-03-01'::date, '2024-03-07', '1 day')::date AS day)
SELECT day, COUNT(order_id) AS n FROM days LEFT JOIN orders ON placed_at::date = day GROUP BY day;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=7 linf=70

-- case: two series in one list
SELECT UNNEST(ARRAY[1, 2]) AS a, UNNEST(ARRAY[3, 4]) AS b;
-- refuse: unsupported-syntax at 1:8

-- case: a series beside rows
SELECT UNNEST(ARRAY[1, 2]) AS a, COUNT(*) AS n FROM customers GROUP BY 1;
-- refuse: unsupported-syntax at 1:8

-- case: a part of an array
SELECT COUNT(*) AS n FROM customers WHERE segment = (ARRAY['consumer'])[1];
-- refuse: unsupported-syntax at 1:72

-- case: an array of arrays
SELECT COUNT(*) AS n FROM customers WHERE age = ANY(ARRAY[[1, 2], [3, 4]]);
-- refuse: unsupported-syntax at 1:59

-- case: held by an array
SELECT COUNT(*) AS n FROM customers WHERE ARRAY['consumer', 'retail'] @> ARRAY[segment, 'retail'] OR ARRAY[country] <@ '{NO,SE}'::text[];
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: arrays that have something in common
SELECT COUNT(*) AS n FROM customers WHERE NOT ARRAY[segment, city] && ARRAY['consumer', 'Oslo'];
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: held by a column
SELECT COUNT(*) AS n FROM customers WHERE city @> ARRAY['Oslo'];
-- dialect: postgres
-- refuse: unsupported-syntax at 1:43

-- case: held by a list of DuckDB's
SELECT COUNT(*) AS n FROM customers WHERE ['consumer', 'retail'] @> [segment];
-- refuse: unsupported-syntax at 1:43

-- case: a series between what is released
SELECT GENERATE_SERIES(MIN(placed_at), MAX(placed_at), '1 month') AS m FROM orders;
-- dialect: postgres
-- refuse: unsupported-syntax at 1:8
