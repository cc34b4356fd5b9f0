-- Private keys: shown where the noisy number of units reaches the threshold.
-- catalog: shop

-- case: a column without declared values
SELECT city, COUNT(*) AS n FROM customers GROUP BY city;
-- accept

-- case: keys of linked rows
SELECT device, COUNT(*) AS n FROM events GROUP BY device;
-- accept

-- case: measures beside private keys
SELECT device, SUM(duration) AS total, AVG(duration) AS mean FROM events GROUP BY device;
-- accept

-- case: a public and a private key
SELECT segment, city, COUNT(*) FROM customers GROUP BY segment, city;
-- accept

-- case: keys alone
SELECT DISTINCT city FROM customers;
-- accept

-- case: an expression over an unbounded column
SELECT note_length % 7 AS k, COUNT(*) FROM orders GROUP BY 1;
-- accept

-- case: a domain beyond the owner's limit
SELECT amount, COUNT(*) FROM orders GROUP BY amount;
-- accept

-- case: keys determined by the unit
SELECT c.city, COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.city;
-- accept

-- case: units per private key
SELECT device, COUNT(DISTINCT customer_id) AS n FROM events GROUP BY device;
-- accept

-- case: the pure accountant has no δ to select keys with
SELECT city, COUNT(*) FROM customers GROUP BY city;
-- accountant: pure
-- refuse: private-keys-need-delta

-- case: the pure accountant answers public keys
SELECT segment, COUNT(*) FROM customers GROUP BY segment;
-- accountant: pure
-- accept

-- case: the approximate accountant selects keys
SELECT city, COUNT(*) FROM customers GROUP BY city;
-- accountant: approximate
-- accept

-- case: a hidden key
SELECT name, COUNT(*) FROM customers GROUP BY name;
-- refuse: hidden-column
