-- OPTIONS(memory = 'name'): what a question takes of earlier ones, and leaves to later ones.
-- catalog: shop

-- case: measured wide, it asks the same
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'wide') COUNT(*) AS n FROM customers WHERE segment = 'consumer';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: no such memory
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'all') COUNT(*) AS n FROM customers;
-- refuse: bad-option at 1:51

-- case: no text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = wide) COUNT(*) AS n FROM customers;
-- refuse: bad-option at 1:51
