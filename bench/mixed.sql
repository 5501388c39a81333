-- mixed.sql
--	  Tables and first rows for mixed.pgbench.
--
-- Every change of mixed_item is told to mixed_ledger by the same statement, as
-- a difference.  At any snapshot the sums of an id's differences are the row's
-- values, or zero where there is no such row.  Columns that repeat what other
-- columns say (code, note) show an update that mixed two versions.
--
-- Variable: rows, the number of first rows.

CREATE SEQUENCE mixed_item_id CACHE 1;

CREATE TABLE mixed_item (
	id			bigint PRIMARY KEY,
	bucket		integer NOT NULL,
	code		text NOT NULL UNIQUE,		-- id.bucket
	qty			integer NOT NULL,
	note		text NOT NULL,				-- made from qty
	changes		integer NOT NULL,			-- number of updates
	price		numeric(12,2)				-- never updated
);
CREATE INDEX mixed_item_bucket ON mixed_item (bucket);

CREATE TABLE mixed_ledger (
	id			bigint,						-- null: an end-of-transaction mark
	op			"char" NOT NULL,
	drows		integer NOT NULL DEFAULT 0,
	dbucket		integer NOT NULL DEFAULT 0,
	dqty		integer NOT NULL DEFAULT 0,
	dchanges	integer NOT NULL DEFAULT 0,
	at			timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX mixed_ledger_id ON mixed_ledger (id);

CREATE FUNCTION mixed_note(qty integer) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN rpad('qty ' || qty, 12 + abs(qty) % 120, '.');

WITH i AS (
	INSERT INTO mixed_item
	SELECT n, n % 97, n || '.' || n % 97, n % 1000, mixed_note((n % 1000)::integer), 0, n / 8.0
	FROM (SELECT nextval('mixed_item_id') AS n FROM generate_series(1, :rows)) s
	RETURNING id, bucket, qty)
INSERT INTO mixed_ledger (id, op, drows, dbucket, dqty)
SELECT id, 'I', 1, bucket, qty FROM i;

ANALYZE mixed_item, mixed_ledger;
