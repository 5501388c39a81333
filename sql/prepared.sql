--
-- PREPARE TRANSACTION: rows and row locks of prepared transactions
--
SELECT current_setting('max_prepared_transactions')::int < 2 AS off \gset
\if :off
\echo 'prepared transactions are off'
\quit
\endif
CREATE TABLE pr (id int PRIMARY KEY, v int, k int) USING lsm;
CREATE INDEX pr_k ON pr (k);
INSERT INTO pr SELECT i, i, i FROM generate_series(1, 10) i;
SELECT count(*) AS flush FROM lsm_flush('pr');

BEGIN;
INSERT INTO pr VALUES (11, 11, 11);
UPDATE pr SET v = 100 WHERE id = 1;
UPDATE pr SET k = 200 WHERE id = 2;
DELETE FROM pr WHERE id = 3;
SELECT id FROM pr WHERE id = 4 FOR UPDATE;
SELECT id FROM pr WHERE id = 5 FOR KEY SHARE;
PREPARE TRANSACTION 'lsm_one';
SELECT * FROM pr ORDER BY id;
SELECT pinned_by, pinned_pid FROM lsm_stat_tables WHERE relname = 'pr';
BEGIN;
SELECT id FROM pr ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM pr ORDER BY id FOR KEY SHARE SKIP LOCKED;
SELECT id FROM pr WHERE id = 4 FOR KEY SHARE NOWAIT;
ROLLBACK;
-- all of it flushed and compacted while prepared
SELECT count(*) AS flush FROM lsm_flush('pr');
SELECT count(*) AS minor FROM lsm_minor_compact('pr');
SELECT count(*) AS major FROM lsm_major_compact('pr');
VACUUM pr;
SELECT * FROM pr ORDER BY id;
BEGIN;
SELECT id FROM pr ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM pr ORDER BY id FOR KEY SHARE SKIP LOCKED;
ROLLBACK;
UPDATE pr SET v = v + 1 WHERE id IN (5, 6);
COMMIT PREPARED 'lsm_one';
SELECT * FROM pr ORDER BY id;
SELECT pinned_by IS DISTINCT FROM 'prepared transaction' AS let_go FROM lsm_stat_tables WHERE relname = 'pr';
SET enable_seqscan = off;
SELECT * FROM pr WHERE k BETWEEN 2 AND 300 ORDER BY k;
RESET enable_seqscan;
SELECT count(*) AS major FROM lsm_major_compact('pr');
SELECT * FROM pr ORDER BY id;

BEGIN;
SAVEPOINT a;
UPDATE pr SET v = -v;
INSERT INTO pr VALUES (12, 12, 12);
RELEASE a;
SELECT count(*) AS flush FROM lsm_flush('pr');
DELETE FROM pr WHERE id < 5;
PREPARE TRANSACTION 'lsm_two';
SELECT count(*) AS flush FROM lsm_flush('pr');
SELECT count(*), sum(v) FROM pr;
ROLLBACK PREPARED 'lsm_two';
SELECT count(*), sum(v) FROM pr;
SELECT count(*) AS major FROM lsm_major_compact('pr');
SELECT count(*), sum(v) FROM pr;
INSERT INTO pr VALUES (12, 1, 1);

-- a table made, or truncated, by a prepared transaction
BEGIN;
CREATE TABLE pr_new (id int PRIMARY KEY) USING lsm;
INSERT INTO pr_new SELECT generate_series(1, 100);
SELECT count(*) AS flush FROM lsm_flush('pr_new');
PREPARE TRANSACTION 'lsm_three';
COMMIT PREPARED 'lsm_three';
SELECT count(*) FROM pr_new;
BEGIN;
TRUNCATE pr_new;
INSERT INTO pr_new VALUES (1);
PREPARE TRANSACTION 'lsm_four';
ROLLBACK PREPARED 'lsm_four';
SELECT count(*) FROM pr_new;
BEGIN;
CREATE TABLE pr_gone (id int) USING lsm;
INSERT INTO pr_gone VALUES (1);
PREPARE TRANSACTION 'lsm_five';
ROLLBACK PREPARED 'lsm_five';
SELECT to_regclass('pr_gone');

-- segments are opened for outcomes that may be noted, if their entries do not tell all: not for that
-- of the only transaction, nor of the only one that is left while it runs
CREATE TABLE pr_seg (id int) USING lsm WITH (autovacuum_enabled = off);
BEGIN;
INSERT INTO pr_seg SELECT generate_series(1, 10);
PREPARE TRANSACTION 'lsm_six';
SELECT count(*) AS flush FROM lsm_flush('pr_seg');
BEGIN;
INSERT INTO pr_seg SELECT generate_series(11, 20);
PREPARE TRANSACTION 'lsm_seven';
BEGIN;
INSERT INTO pr_seg SELECT generate_series(21, 30);
PREPARE TRANSACTION 'lsm_eight';
SET lsm.debug_stop = 'resolve-open:error';
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
SELECT count(*) AS flush FROM lsm_flush('pr_seg');
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
RESET lsm.debug_stop;
ROLLBACK PREPARED 'lsm_seven';
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
SET lsm.debug_stop = 'resolve-open:error';
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
COMMIT PREPARED 'lsm_six';
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
COMMIT PREPARED 'lsm_eight';
RESET lsm.debug_stop;
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
SET lsm.debug_stop = 'resolve-open:error';
SELECT count(*) AS minor FROM lsm_minor_compact('pr_seg');
RESET lsm.debug_stop;
SELECT count(*), min(id), max(id) FROM pr_seg;
SELECT c AS problem FROM lsm_check('pr_seg') c;
SELECT count(*) AS major FROM lsm_major_compact('pr_seg');
SELECT count(*), min(id), max(id) FROM pr_seg;
DROP TABLE pr_seg;

SELECT c AS problem FROM lsm_check('pr') c;
SELECT c AS problem FROM lsm_check('pr_new') c;
DROP TABLE pr, pr_new;
