-- The error of a number that a function of integers makes: its argument is moved by whole steps.
-- catalog: shop

-- case: the greatest common divisor of counts
SELECT COUNT(*) + GCD(COUNT(*), 12) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: bits of a count
SELECT XOR(COUNT(*), 5) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the greatest common divisor of a mean
SELECT GCD(AVG(amount), 12) AS n FROM orders;
-- refuse: type-mismatch at 1:8
