-- Scalar functions in private rows: bounds by interval rules, keys by domain rules, never an error.
-- catalog: shop

-- case: ABS
SELECT SUM(ABS(amount - 100)) FROM orders;
-- accept

-- case: ROUND
SELECT SUM(ROUND(amount)) FROM orders;
-- accept

-- case: ROUND to digits
SELECT SUM(ROUND(income, -3)) FROM customers;
-- accept

-- case: FLOOR and CEIL
SELECT SUM(FLOOR(amount)) AS lo, SUM(CEIL(amount)) AS hi FROM orders;
-- accept

-- case: LEAST and GREATEST
SELECT SUM(LEAST(amount, 100)) AS a, SUM(GREATEST(quantity, 1)) AS b FROM orders;
-- accept

-- case: COALESCE
SELECT SUM(COALESCE(discount, 0)) FROM orders;
-- accept

-- case: NULLIF
SELECT SUM(NULLIF(quantity, 0)) FROM orders;
-- accept

-- case: a cast to integer
SELECT SUM(CAST(amount AS INTEGER)) FROM orders;
-- accept

-- case: a cast to double
SELECT SUM(amount::DOUBLE) FROM orders;
-- accept

-- case: a cast of text has no bounds
SELECT SUM(CAST(note AS INTEGER)) FROM orders;
-- refuse: unbounded-input

-- case: TRY_CAST
SELECT COUNT(TRY_CAST(note AS INTEGER)) AS numbers FROM orders;
-- accept

-- case: LENGTH has no upper bound of its own
SELECT SUM(LENGTH(note)) FROM orders;
-- refuse: unbounded-input

-- case: LENGTH of a short text has
SELECT SUM(LENGTH(SUBSTRING(note, 1, 10))) FROM orders;
-- accept

-- case: LENGTH over a finite domain
SELECT SUM(LENGTH(status)) FROM orders;
-- accept

-- case: LOWER
SELECT COUNT(*) FROM orders WHERE LOWER(note) = 'gift';
-- accept

-- case: text functions
SELECT COUNT(*) FROM orders WHERE TRIM(REPLACE(note, 'a', 'b')) LIKE 'b%';
-- accept

-- case: concatenation
SELECT segment || '/' || country AS k, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: negation
SELECT SUM(-amount) FROM orders;
-- accept

-- case: integer division
SELECT SUM(quantity // 2) FROM orders;
-- accept

-- case: modulus
SELECT SUM(quantity % 3) FROM orders;
-- accept

-- case: square root
SELECT SUM(SQRT(amount)) FROM orders;
-- accept

-- case: logarithm of what may be zero
SELECT SUM(LN(amount)) FROM orders;
-- refuse: unbounded-input

-- case: logarithm of what may not
SELECT SUM(LN(amount + 1)) FROM orders;
-- accept

-- case: DATE_TRUNC
SELECT DATE_TRUNC('year', joined) AS y, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: EXTRACT as a measure
SELECT AVG(EXTRACT(hour FROM placed_at)) FROM orders;
-- accept

-- case: day of week
SELECT EXTRACT(dow FROM placed_at) AS d, COUNT(*) FROM orders GROUP BY 1;
-- accept

-- case: an unknown part
SELECT EXTRACT(aeon FROM placed_at) FROM orders;
-- refuse: unsupported-function

-- case: an unknown function
SELECT SUM(frobnicate(amount)) FROM orders;
-- refuse: unknown-function

-- case: a function that reads files
SELECT COUNT(*) FROM orders WHERE read_text('x') = note;
-- refuse: unknown-function

-- case: wrong arguments
SELECT SUM(LENGTH(amount)) FROM orders;
-- refuse: type-mismatch

-- case: text in arithmetic
SELECT SUM(amount + status) FROM orders;
-- refuse: type-mismatch

-- case: Postgres spelling
SELECT SUM((amount::double precision) * 2) AS s FROM public.orders WHERE status = 'paid'::text;
-- dialect: postgres
-- accept

-- case: Postgres division of integers truncates
SELECT SUM(quantity / 2) AS s FROM orders;
-- dialect: postgres
-- accept
