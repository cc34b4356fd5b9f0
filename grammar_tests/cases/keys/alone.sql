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

-- case: the zcdp accountant charges a trial for more than a noisy count
SELECT DISTINCT device FROM events;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1

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

-- case: how many keys are shown
SELECT COUNT(*) AS n FROM (SELECT DISTINCT city FROM customers) AS t;
-- accountant: approximate
-- accept
-- keys: private, by trials, l0 proved

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
