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
-- keys: 2 public, l0 proved
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

-- case: text repeated too often
SELECT COUNT(*) FROM orders WHERE REPEAT(note, 65) = 'x';
-- refuse: unsupported-function at 1:35

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

-- case: a bar for every group
SELECT status, REPEAT('#', CAST(COUNT(*) AS BIGINT)) AS bar FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT
--     t1.c0 AS c0,
--     left(
--       [
--         repeat('#', CASE WHEN x > 4096 THEN 4096 ELSE x END) FOR x IN [
--           TRY_CAST(TRY_CAST(t1.c1 AS BIGINT) AS BIGINT)
--         ]
--       ][1],
--       4096
--     ) AS c1
--   FROM release_0 AS t1

-- case: a text of rows a few times
SELECT REPEAT(segment, 2) AS twice, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a text of rows as often as rows say
SELECT COUNT(*) FROM orders WHERE REPEAT(note, quantity) = 'x';
-- refuse: unsupported-function at 1:35

-- case: padded with spaces
SELECT LPAD(segment, 9) AS l, RPAD(segment, 9) AS r, COUNT(*) AS n FROM customers GROUP BY 1, 2;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: characters of code points
SELECT CHR(65 + quantity % 3) AS c, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the number of characters
SELECT COUNT(CHR(quantity + 64)) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: digits in another base
SELECT TO_BASE(quantity % 4, 2, 3) AS b, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 4 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a base that rows decide
SELECT COUNT(*) FROM orders WHERE TO_BASE(7, quantity) = '7';
-- refuse: unsupported-function at 1:35

-- case: what people take for one character
SELECT COUNT(*) FROM orders WHERE LEFT_GRAPHEME(note, 2) = 'gi' AND RIGHT_GRAPHEME(note, 1) = 't' AND LENGTH_GRAPHEME(note) > 3 AND SUBSTRING_GRAPHEME(note, 2, 2) = 'if';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: sizes for people
SELECT status, FORMAT_BYTES(CAST(COUNT(*) AS BIGINT)) AS a, FORMATREADABLEDECIMALSIZE(CAST(COUNT(*) AS BIGINT)) AS b FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: results in words
SELECT status, PRINTF('%s: %d orders', status, CAST(COUNT(*) AS BIGINT)) AS line, FORMAT('{} at {:.2f}', status, AVG(amount)) AS mean FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: listed values in words
SELECT PRINTF('<%s>', status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a field of another type
SELECT PRINTF('%d', status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- refuse: unsupported-function at 1:8

-- case: a field without an argument
SELECT FORMAT('{} {}', status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- refuse: unsupported-function at 1:8

-- case: a format that rows decide
SELECT COUNT(*) FROM orders WHERE PRINTF(note, 1) = '1';
-- refuse: unsupported-function at 1:35

-- case: Postgres formats otherwise
SELECT FORMAT('%s', status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- refuse: unsupported-function at 1:8

-- case: digests are bytes in Postgres
SELECT SHA256(status) AS s, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- refuse: unsupported-function at 1:8

-- case: patterns in Postgres
SELECT COUNT(*) FROM orders WHERE REGEXP_LIKE(note, '^g');
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: matches are rows in Postgres
SELECT COUNT(*) FROM orders WHERE REGEXP_MATCHES(note, '^g') IS NOT NULL;
-- dialect: postgres
-- refuse: unsupported-function at 1:35

-- case: replaced by more than is reasonable
SELECT COUNT(*) FROM orders WHERE REPLACE(note, 'a', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') = 'x';
-- refuse: unsupported-function at 1:35

-- case: more digests of listed values
SELECT SHA1(segment) AS a, SHA256(segment) AS b, COUNT(*) AS n FROM customers GROUP BY 1, 2;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: exchanged, reversed, without accents
SELECT COUNT(*) FROM orders WHERE STRIP_ACCENTS(note) = 'gift' OR NFC_NORMALIZE(note) = REVERSE('tfig') OR URL_DECODE(URL_ENCODE(note)) = note;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: as so many characters, without blanks at the end
SELECT CAST(segment AS CHAR(3)) AS s, segment::char AS c, COUNT(*) AS n FROM customers GROUP BY 1, 2;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: as characters of two sizes
SELECT CAST(segment AS CHAR(3, 2)) AS s, COUNT(*) AS n FROM customers GROUP BY 1;
-- dialect: postgres
-- refuse: unsupported-syntax at 1:29

-- case: a constant pattern that is too long
SELECT COUNT(*) AS n FROM orders WHERE note LIKE '%a____________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________________%b%'
-- refuse: unsupported-function at 1:40

-- case: texts that are read as times
SELECT COUNT(*) AS n FROM orders WHERE TRY_STRPTIME(note, '%Y-%m-%d') IS NULL AND TRY_CAST(note AS TIME) IS NULL
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a capital letter and small ones
SELECT UPPER(LEFT(segment, 1)) || LOWER(SUBSTR(segment, 2)) AS s, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: capital letters of all words, which engines tell apart differently
SELECT INITCAP(segment) AS s, COUNT(*) AS n FROM customers GROUP BY 1;
-- dialect: postgres
-- refuse: unknown-function at 1:8
