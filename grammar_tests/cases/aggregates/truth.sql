-- BOOL_OR and BOOL_AND: whether the noisy number of deciding rows is at least one.
-- catalog: shop

-- case: any and every
SELECT BOOL_OR(age > 30) AS o, BOOL_AND(age > 10) AS a FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

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

-- case: of numbers is refused
SELECT BOOL_OR(age) AS o FROM customers;
-- refuse: type-mismatch at 1:8
