-- Ranges of one value are measured together: by cells, or by a tree of them, whichever errs less.
-- catalog: shop

-- case: disjoint ranges are paid for once
SELECT COUNT(*) FILTER (WHERE age BETWEEN 18 AND 39) AS a, COUNT(*) FILTER (WHERE age >= 40 AND age < 65) AS b, SUM(CASE WHEN age BETWEEN 65 AND 120 THEN 1 ELSE 0 END) AS c FROM customers;
-- rows: customers (customer_id, age): (1, 17), (2, 18), (3, 39), (4, 40), (5, 64), (6, 65), (7, 120), (8, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- integers: () 2 2 2

-- case: ranges that overlap are sums of cells
SELECT COUNT(*) FILTER (WHERE age BETWEEN 18 AND 39) AS a, COUNT(*) FILTER (WHERE age BETWEEN 30 AND 64) AS b, COUNT(*) FILTER (WHERE age BETWEEN 18 AND 64) AS c, COUNT(*) FILTER (WHERE age = 30) AS d FROM customers;
-- accountant: pure
-- rows: customers (customer_id, age): (1, 17), (2, 18), (3, 30), (4, 40), (5, 64), (6, 65), (7, 31), (8, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- integers: () 1 1 1 2

-- case: a list of ranges
SELECT country, WITHIN_RANGES(age, [[NULL, 17], [18, 39], [40, 64], [65, NULL], [18, 64]]) FILTER (WHERE vip), COUNT(*) FILTER (WHERE vip) AS vips FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: many ranges are read from a tree
SELECT WITHIN_RANGES(age, [[0, 9], [0, 19], [0, 29], [0, 39], [0, 49], [0, 59], [0, 69], [0, 79], [10, 99], [20, 99], [30, 99], [40, 99], [50, 99], [60, 99], [70, 99], [80, 99], [20, 69], [30, 79]]) AS aged FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: ranges of a day, of a decimal number and of sums
SELECT WITHIN_RANGES(joined, [[DATE '2020-01-01', DATE '2021-12-31'], [DATE '2021-01-01', DATE '2022-12-31'], [DATE '2020-01-01', DATE '2022-12-31']]), SUM(age) FILTER (WHERE income BETWEEN 0 AND 29999.5) AS low, SUM(age) FILTER (WHERE income > 29999.5 AND income <= 100000) AS high FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: rows of which a person may have several are clipped, and each range is measured
SELECT COUNT(*) FILTER (WHERE quantity BETWEEN 1 AND 5) AS a, COUNT(*) FILTER (WHERE quantity BETWEEN 6 AND 20) AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: a range between what is no constant
SELECT WITHIN_RANGES(age, [[0, income]]) FROM customers;
-- refuse: unsupported-syntax at 1:28

-- case: a list that is not one of pairs
SELECT WITHIN_RANGES(age, [0, 17]) FROM customers;
-- refuse: unsupported-syntax at 1:28

-- case: ranges are no value to compute with
SELECT 1 + WITHIN_RANGES(age, [[0, 17]]) AS n FROM customers;
-- refuse: unsupported-syntax at 1:12

-- case: ranges are no keys of groups
SELECT COUNT(*) AS n FROM customers GROUP BY WITHIN_RANGES(age, [[0, 17]]);
-- refuse: unsupported-syntax at 1:46

-- case: nor are what GROUP BY calls them by
SELECT WITHIN_RANGES(age, [[0, 17]]) AS r, COUNT(*) AS n FROM customers GROUP BY r;
-- refuse: unknown-column at 1:82
