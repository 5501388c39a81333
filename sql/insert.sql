--
-- INSERT in its forms, and COPY
--
CREATE TABLE ins (
	id int PRIMARY KEY,
	a int DEFAULT 7,
	b text DEFAULT 'none',
	c numeric(10,2),
	twice int GENERATED ALWAYS AS (a * 2) STORED
) USING lsm;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.oid = 'ins'::regclass;

-- an empty table
SELECT count(*) FROM ins;
SELECT * FROM ins WHERE id = 1;
SELECT count(*) AS flush FROM lsm_flush('ins');
SELECT count(*) AS minor FROM lsm_minor_compact('ins');
SELECT count(*) AS major FROM lsm_major_compact('ins');
SELECT count(*) FROM ins;

-- one row, several rows, defaults, nulls, returning
INSERT INTO ins VALUES (1, 10, 'one', 1.5);
INSERT INTO ins (id) VALUES (2);
INSERT INTO ins VALUES (3, NULL, NULL, NULL), (4, 40, 'four', 4.25), (5, DEFAULT, DEFAULT, 5)
	RETURNING *;
INSERT INTO ins (id, b) SELECT i, 'row ' || i FROM generate_series(6, 10) i
	RETURNING id, b, twice;
SELECT * FROM ins ORDER BY id;

SELECT count(*) AS flush FROM lsm_flush('ins');
SELECT * FROM ins ORDER BY id;

-- after the flush, into the next generation
INSERT INTO ins SELECT i, i * 10, NULL, i / 4.0 FROM generate_series(11, 15) i;
SELECT * FROM ins WHERE id > 8 ORDER BY id;

-- COPY, with nulls and defaults
COPY ins (id, a, b, c) FROM stdin;
21	1	twenty one	21.50
22	\N	\N	\N
23	3		23.00
24	4	tab\there	24.00
\.
COPY ins (id, b) FROM stdin WITH (FORMAT csv);
25,"quoted, with comma"
26,
\.
SELECT * FROM ins WHERE id > 20 ORDER BY id;
COPY (SELECT * FROM ins WHERE id > 20 ORDER BY id) TO stdout;

-- a failed COPY and a failed INSERT leave nothing
COPY ins (id, b) FROM stdin;
31	fine
1	duplicate
32	never read
\.
INSERT INTO ins (id) VALUES (33), (34), (1);
INSERT INTO ins (id, c) VALUES (35, 1), (36, 1234567890);
SELECT count(*), sum(id) FROM ins;
SET enable_seqscan = off;
SELECT id FROM ins WHERE id BETWEEN 30 AND 40 ORDER BY id;
RESET enable_seqscan;
SELECT count(*) AS flush FROM lsm_flush('ins');
SELECT count(*), sum(id), count(b), sum(c), sum(twice) FROM ins;

-- insert from itself: the statement does not see its own rows
INSERT INTO ins (id, a) SELECT id + 100, a FROM ins;
SELECT count(*), sum(id), sum(a) FROM ins;

-- a data-modifying CTE
WITH new AS (INSERT INTO ins (id, a) VALUES (301, 1), (302, 2) RETURNING id, twice)
	SELECT new.*, (SELECT count(*) FROM ins WHERE id > 300) AS seen FROM new ORDER BY id;
SELECT count(*) AS minor FROM lsm_minor_compact('ins');
SELECT count(*) AS major FROM lsm_major_compact('ins');
SELECT count(*), sum(id), sum(a) FROM ins;

-- tables without an index, from a query, and without a column
CREATE TABLE ins_plain USING lsm AS
	SELECT i AS id, i % 7 AS g, 'text ' || i AS t FROM generate_series(1, 2000) i;
SELECT count(*), sum(id), sum(g), min(t), max(t) FROM ins_plain;
SELECT count(*) AS flush FROM lsm_flush('ins_plain');
SELECT count(*), sum(id), sum(g), min(t), max(t) FROM ins_plain;
SELECT g, count(*), sum(id) FROM ins_plain GROUP BY g ORDER BY g;
COPY ins_plain FROM stdin;
3001	1	copied
3002	2	copied
\.
SELECT * FROM ins_plain WHERE id > 1999 ORDER BY id;

CREATE TABLE ins_nocol () USING lsm;
INSERT INTO ins_nocol DEFAULT VALUES;
INSERT INTO ins_nocol DEFAULT VALUES;
SELECT count(*) FROM ins_nocol;
SELECT count(*) AS flush FROM lsm_flush('ins_nocol');
INSERT INTO ins_nocol DEFAULT VALUES;
SELECT count(*) FROM ins_nocol;
SELECT count(*) AS major FROM lsm_major_compact('ins_nocol');
SELECT count(*) FROM ins_nocol;

-- a whole load in one transaction with the CREATE, and rolled back
BEGIN;
CREATE TABLE ins_new (id int, t text) USING lsm;
COPY ins_new FROM stdin;
1	a
2	b
\.
SELECT * FROM ins_new ORDER BY id;
SELECT count(*) AS flush FROM lsm_flush('ins_new');
INSERT INTO ins_new VALUES (3, 'c');
SELECT * FROM ins_new ORDER BY id;
COMMIT;
SELECT * FROM ins_new ORDER BY id;
BEGIN;
CREATE TABLE ins_gone (id int) USING lsm;
INSERT INTO ins_gone SELECT generate_series(1, 1000);
SELECT count(*) AS flush FROM lsm_flush('ins_gone');
SELECT count(*) FROM ins_gone;
ROLLBACK;
SELECT to_regclass('ins_gone');

SELECT c AS problem FROM lsm_check('ins') c;
SELECT c AS problem FROM lsm_check('ins_plain') c;
SELECT c AS problem FROM lsm_check('ins_nocol') c;
SELECT c AS problem FROM lsm_check('ins_new') c;
DROP TABLE ins, ins_plain, ins_nocol, ins_new;
