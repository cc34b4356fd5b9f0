-- Names of tables have up to three parts; a schema or a database that does not exist is told so.
-- catalog: shop

-- case: the first schema as PostgreSQL calls it
SELECT COUNT(*) AS n FROM public.orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the first schema as DuckDB calls it
SELECT SUM(main.orders.amount) AS total FROM main.orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: three parts in quotes
SELECT COUNT(*) AS n FROM "dpsql"."public"."orders" WHERE "dpsql"."public"."orders"."quantity" > 2;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the database before the table
SELECT COUNT(*) AS n FROM dpsql.orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a table with a schema is no WITH of its name
WITH orders AS (SELECT 1 AS amount) SELECT SUM(amount) AS total FROM public.orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a column with schema in a correlated subquery
SELECT COUNT(*) AS n FROM customers
WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer_id = public.customers.customer_id);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: all columns of a table with its schema
SELECT COUNT(*) AS n FROM (SELECT public.products.* FROM public.products) AS p;
-- dialect: postgres
-- accept

-- case: a schema that does not exist
SELECT COUNT(*) AS n FROM analytics.orders;
-- refuse: unknown-table at 1:37

-- case: a database that does not exist
SELECT COUNT(*) AS n FROM shop.public.orders;
-- refuse: unknown-table at 1:39

-- case: a column of a schema that FROM does not have
SELECT SUM(analytics.orders.amount) AS total FROM orders;
-- refuse: unknown-table at 1:12

-- case: a column by the name that an alias has replaced
SELECT SUM(orders.amount) AS total FROM orders AS o;
-- refuse: unknown-table at 1:12

-- case: the same table twice under one name
SELECT COUNT(*) AS n FROM orders, public.orders;
-- refuse: ambiguous-column at 1:42

-- case: rows of a table with a schema
SELECT public.orders.note FROM public.orders;
-- refuse: raw-rows at 1:39

-- case: ORDER BY a name that two outputs share
SELECT segment, COUNT(*) AS n, COUNT(age) AS n FROM customers GROUP BY segment ORDER BY n;
-- refuse: ambiguous-column at 1:89

-- case: that share what it means, too
SELECT segment, COUNT(*) AS n, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY n;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
