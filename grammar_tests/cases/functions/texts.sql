-- Functions of text: over listed values the result is listed too.
-- catalog: shop

-- case: listed values keep a list
SELECT REVERSE(status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: digests of listed values
SELECT MD5(segment) AS m, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: parts of listed values
SELECT SPLIT_PART(country, 'O', 1) AS p, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: padding
SELECT LPAD(segment, 10, '.') AS l, RPAD(segment, 2, '.') AS r, COUNT(*) AS n FROM customers GROUP BY 1, 2;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: characters exchanged
SELECT TRANSLATE(status, 'aeiou', '12345') AS t, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: joined with a separator
SELECT CONCAT_WS('/', country, segment) AS place, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: NULL parts are skipped
SELECT COUNT(*) FROM orders WHERE CONCAT_WS('-', note, status) LIKE '%-paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: code points
SELECT ASCII(status) AS a, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: endings
SELECT COUNT(*) FROM orders WHERE ENDS_WITH(status, 'n') OR SUFFIX(note, 't') OR PREFIX(note, '1');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a distance from what was meant
SELECT AVG(LEVENSHTEIN(status, 'payed')) AS d FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=20

-- case: a similarity
SELECT AVG(JARO_WINKLER_SIMILARITY(status, 'paid')) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5

-- case: distances that some texts do not have
SELECT COUNT(*) FROM orders WHERE HAMMING(LEFT(status, 4), 'open') < 2 OR JACCARD(status, 'gift') > 0.5;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a pattern
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, '^[a-g]\w+$');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: groups by what a pattern finds
SELECT REGEXP_EXTRACT(status, '[aeiou]+') AS vowels, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a group of a pattern
SELECT COUNT(*) FROM orders WHERE REGEXP_EXTRACT(note, '(\d)(\d)', 2) = '2';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: replaced by a pattern
SELECT REGEXP_REPLACE(status, '[aeiou]', '*', 'g') AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: in hexadecimal
SELECT HEX(segment) AS h, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: lengths in bytes
SELECT COUNT(*) FROM orders WHERE STRLEN(note) > 3 AND BIT_LENGTH(note) > 24;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a pattern that rows decide
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, status);
-- refuse: unsupported-function at 1:35

-- case: a pattern that is none
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, '(a');
-- refuse: unsupported-function at 1:35

-- case: a group that is not there
SELECT COUNT(*) FROM orders WHERE REGEXP_EXTRACT(note, 'a', 1) = '';
-- refuse: unsupported-function at 1:35

-- case: padding without end
SELECT COUNT(*) FROM orders WHERE LPAD(note, quantity, '.') = 'x';
-- refuse: unsupported-function at 1:35

-- case: text repeated
SELECT COUNT(*) FROM orders WHERE REPEAT(note, 3) = 'x';
-- refuse: unknown-function at 1:35

-- case: the initial of a text in any case
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(status, '^OP', 'i') AND REGEXP_EXTRACT(note, '(G)ift', 1, 'i') = 'g';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: counted repetitions
SELECT COUNT(*) FROM orders WHERE REGEXP_FULL_MATCH(note, '[a-z]{2,10}');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: repetitions that never give back
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, 'a++');
-- refuse: unsupported-function at 1:35

-- case: a pattern that looks ahead
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, '(?=a)');
-- refuse: unsupported-function at 1:35

-- case: named character classes
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, '[[:foo:]]');
-- refuse: unsupported-function at 1:35

-- case: an unknown flag
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, 'a', 'q');
-- refuse: unsupported-function at 1:35

-- case: the code point of no text
SELECT ORD('') AS o, ASCII('') AS a, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: what Postgres means by the name is another thing
-- dialect: postgres
SELECT COUNT(*) FROM orders WHERE SHA256(status) = 'x';
-- refuse: unknown-function at 1:35
