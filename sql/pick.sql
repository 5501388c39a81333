--
-- The choice of jobs: each rule at its border, properties, simulations.  The
-- functions used here are in the library for this test only; what the words mean
-- is told in lsm_test_pick.c.
--
CREATE FUNCTION lsm_test_pick(text) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_depth(text) RETURNS int LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_random(seed int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_stack(seed int, segments int, increments int, blocks int, spread int)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_updates(segments int, segment_mb int, flush_mb int, flushes int, job_mb int, medium float8)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_deletes(segments int, segment_mb int, permille int, flushes int)
	RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_appends(flushes int, flush_mb int, before int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_queue(length int, batch int, rounds int) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
CREATE FUNCTION lsm_test_pick_table(regclass, spent int DEFAULT 0) RETURNS text LANGUAGE C STRICT AS '$libdir/lsm';
\pset format unaligned
\pset tuples_only on

-- ---- nothing
SELECT lsm_test_pick('');
SELECT lsm_test_pick('base:0-999:64:1000000');

-- ---- flush: a memtable is nearly full
SELECT lsm_test_pick('pages=1000 fill=0.49');
SELECT lsm_test_pick('pages=1000 fill=0.5');
SELECT lsm_test_pick('pages=1000 fill=1');
SELECT lsm_test_pick('pages=0 fill=1');
-- one runs
SELECT lsm_test_pick('pages=1000 fill=1 flushing=1');
-- memory of all memtables is short, and this one has some of it
SELECT lsm_test_pick('pages=10 fill=0.1 arena=0.89 share=0.1');
SELECT lsm_test_pick('pages=10 fill=0.1 arena=0.9 share=0.1');
SELECT lsm_test_pick('pages=10 fill=0.1 arena=0.9 share=0.004');
SELECT lsm_test_pick('pages=10 fill=0.1 arena=0.9 share=0.003');
-- old xids: age is 1000
SELECT lsm_test_pick('pages=1 xid=99001');
SELECT lsm_test_pick('pages=1 xid=99000');
-- not while somebody may still need them
SELECT lsm_test_pick('pages=1 xid=99000 visible=99000');
-- a generation that a dead flush has left
SELECT lsm_test_pick('waits=1');
-- reads for nothing: 10000 records, and 80 a page
SELECT lsm_test_pick('pages=100 memwaste=17999');
SELECT lsm_test_pick('pages=100 memwaste=18000');
-- flush comes before all else
SELECT lsm_test_pick('pages=1000 fill=0.5 base:0-9:10:1000 inc:0-9:10:1000:1-1');

-- ---- minor: increments over each other
SELECT lsm_test_pick('inc:0-9:10:100:3-3 inc:0-9:10:100:2-2 inc:0-9:10:100:1-1');
SELECT lsm_test_pick('inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:10:0:1-1');
SELECT lsm_test_pick('trigger=3 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:10:0:1-1');
-- side by side they cost nothing
SELECT lsm_test_pick('inc:0-9:10:0:4-4 inc:10-19:10:0:3-3 inc:20-29:10:0:2-2 inc:30-39:10:0:1-1');
-- those of like size are merged, and the old large one waits
SELECT lsm_test_pick('inc:0-9:10:0:5-5 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:21:0:1-1');
SELECT lsm_test_pick('inc:0-9:10:0:5-5 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:20:0:1-1');
-- also in the middle of a stack
SELECT lsm_test_pick('inc:0-9:1:0:6-6 inc:0-9:10:0:5-5 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:99:0:1-1');
-- unlike ones wait until there are twice as many as the trigger
SELECT lsm_test_pick('inc:0-9:1:0:7-7 inc:0-9:3:0:6-6 inc:0-9:9:0:5-5 inc:0-9:27:0:4-4 inc:0-9:81:0:3-3 inc:0-9:243:0:2-2 inc:0-9:729:0:1-1');
SELECT lsm_test_pick('inc:0-9:1:0:8-8 inc:0-9:3:0:7-7 inc:0-9:9:0:6-6 inc:0-9:27:0:5-5 inc:0-9:81:0:4-4 inc:0-9:243:0:3-3 inc:0-9:729:0:2-2 inc:0-9:2187:0:1-1');
-- the age of an increment is its newest generation: what is older than the window stays out of it
SELECT lsm_test_pick('inc:0-9:10:0:8-8 inc:0-9:10:0:7-7 inc:0-9:10:0:6-6 inc:0-9:10:0:2-5 inc:0-9:1000:0:3-3');
-- and an old generation in a new increment is no reason to leave that alone while a major has others
SELECT lsm_test_pick('major_hi=3 inc:0-9:10:0:8-8 inc:0-9:10:0:7-7 inc:0-9:10:0:6-6 inc:0-9:10:0:2-5 inc:0-9:1000:0:3-3');
-- a run in several segments has the size of all of them
SELECT lsm_test_pick('inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-4:15:0:1-1 inc:5-9:15:0:1-1');
-- a job reads at most so much: a part of the keys, from where it is needed.  Increments are
-- taken whole, and newer ones with roots of these.
SELECT lsm_test_pick('job=20 inc:0-49:5:0:4-4 inc:50-99:5:0:4-4 inc:0-49:5:0:3-3 inc:50-99:5:0:3-3 inc:0-49:5:0:2-2 inc:50-99:5:0:2-2 inc:0-49:5:0:1-1 inc:50-99:5:0:1-1');
SELECT lsm_test_pick('job=25 inc:0-49:5:0:4-4 inc:50-99:5:0:4-4 inc:0-55:5:0:3-3 inc:56-99:5:0:3-3 inc:0-49:5:0:2-2 inc:50-99:5:0:2-2 inc:0-49:5:0:1-1 inc:50-99:5:0:1-1');
-- where they reach over all of it the newest of them, as many as have to lie over each other
SELECT lsm_test_pick('job=60 inc:0-99:10:0:8-8 inc:0-99:10:0:7-7 inc:0-99:10:0:6-6 inc:0-99:10:0:5-5 inc:0-99:10:0:4-4 inc:0-99:10:0:3-3 inc:0-99:10:0:2-2 inc:0-99:10:0:1-1');
SELECT lsm_test_pick('job=10 inc:0-99:10:0:8-8 inc:0-99:10:0:7-7 inc:0-99:10:0:6-6 inc:0-99:10:0:5-5 inc:0-99:10:0:4-4 inc:0-99:10:0:3-3 inc:0-99:10:0:2-2 inc:0-99:10:0:1-1');
SELECT lsm_test_pick('job=10 inc:0-99:10:0:4-4 inc:0-99:10:0:3-3 inc:0-99:10:0:2-2 inc:0-99:10:0:1-1');
SELECT lsm_test_pick('job=10 inc:50-99:5:0:4-4 inc:0-99:10:0:3-3 inc:0-99:10:0:2-2 inc:0-99:10:0:1-1');
SELECT lsm_test_pick('job=1000 inc:50-99:5:0:4-4 inc:0-99:10:0:3-3 inc:0-99:10:0:2-2 inc:0-99:10:0:1-1');
-- one runs; or a major has the oldest
SELECT lsm_test_pick('minoring=1 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:10:0:1-1');
SELECT lsm_test_pick('major:0-9 major_hi=1 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:10:0:1-1');
-- fresh data does not wait behind a major over the same keys
SELECT lsm_test_pick('major:0-9 major_hi=1 inc:0-9:10:0:5-5 inc:0-9:10:0:4-4 inc:0-9:10:0:3-3 inc:0-9:10:0:2-2 inc:0-9:900:0:1-1');

-- ---- too many entries in the manifest: neighbours are merged though they do not lie over each other
SELECT lsm_test_pick('places=0.49 inc:0-9:1:1:6-6 inc:10-19:1:1:5-5 inc:20-29:1:1:4-4 inc:30-39:1:1:3-3 inc:40-49:1:1:2-2 inc:50-59:1:1:1-1');
SELECT lsm_test_pick('places=0.5 inc:0-9:1:1:6-6 inc:10-19:1:1:5-5 inc:20-29:1:1:4-4 inc:30-39:1:1:3-3 inc:40-49:1:1:2-2 inc:50-59:1:1:1-1');
SELECT lsm_test_pick('places=1 inc:0-9:1:1:6-6 inc:10-19:1:1:5-5 inc:20-29:1:1:4-4 inc:30-39:1:1:3-3 inc:40-49:1:1:2-2 inc:50-59:1:1:1-1');
-- if they become half as many: four MB each is as small as increments are made
SELECT lsm_test_pick('places=0.5 inc:0-9:1.4:1:6-6 inc:10-19:1.4:1:5-5 inc:20-29:1.4:1:4-4 inc:30-39:1.4:1:3-3 inc:40-49:1.4:1:2-2 inc:50-59:1.4:1:1-1');
SELECT lsm_test_pick('places=0.5 inc:0-9:0.1:1:3-3 inc:10-19:0.1:1:2-2 inc:20-29:0.1:1:1-1');
-- that is also as many records as a segment has
SELECT lsm_test_pick('rows=4 places=0.5 inc:0-9:1:1:6-6 inc:10-19:1:1:5-5 inc:20-29:1:1:4-4 inc:30-39:1:1:3-3 inc:40-49:1:1:2-2 inc:50-59:1:1:1-1');
SELECT lsm_test_pick('rows=2 places=0.5 inc:0-9:1:1:6-6 inc:10-19:1:1:5-5 inc:20-29:1:1:4-4 inc:30-39:1:1:3-3 inc:40-49:1:1:2-2 inc:50-59:1:1:1-1');
-- where that spares most, and no more than a job may read
SELECT lsm_test_pick('places=0.5 job=10 inc:0-9:4:1:9-9 inc:10-19:4:1:8-8 inc:20-29:1:1:7-7 inc:30-49:1:1:6-6 inc:40-49:1:1:5-5 inc:50-59:1:1:4-4 inc:60-69:1:1:3-3 inc:70-79:9:1:2-2');
-- not what a running major has
SELECT lsm_test_pick('places=0.5 major:0-99 major_hi=1 inc:0-9:1:1:5-5 inc:10-19:1:1:4-4 inc:20-29:1:1:3-3 inc:30-39:1:1:2-2 inc:40-49:1:1:1-1');
SELECT lsm_test_pick('places=0.5 major:0-99 major_hi=2 inc:0-9:1:1:5-5 inc:10-19:1:1:4-4 inc:20-29:1:1:3-3 inc:30-39:1:1:2-2 inc:40-49:1:1:1-1');
-- those over each other come first if that is needed more
SELECT lsm_test_pick('places=0.6 inc:0-9:1:1:8-8 inc:0-9:1:1:7-7 inc:0-9:1:1:6-6 inc:0-9:1:1:5-5 inc:0-9:1:1:4-4 inc:0-9:1:1:3-3 inc:50-59:1:1:2-2 inc:60-69:1:1:1-1');
-- later they go into the baseline, where most are; not those that would stay
SELECT lsm_test_pick('places=0.74 base*3:0-9:64:1000 inc:0-9:16:1:4-4 inc:10-14:16:1:3-3 inc:15-19:16:1:2-2 inc:20-29:16:1:1-1');
SELECT lsm_test_pick('places=0.75 base*3:0-9:64:1000 inc:0-9:16:1:4-4 inc:10-14:16:1:3-3 inc:15-19:16:1:2-2 inc:20-29:16:1:1-1');
SELECT lsm_test_pick('places=0.75 base*3:0-9:64:1000 inc:0-9:16:1:4-4 inc:10-14:16:1:3-3:100000 inc:15-19:16:1:2-2:100000 inc:20-24:16:1:1-1');
SELECT lsm_test_pick('places=1.05 base*3:0-9:64:1000 inc:0-29:16:1:2-2 inc:20-29:16:1:1-1');
SELECT lsm_test_pick('places=1.05 base*3:0-9:64:1000 inc:0-29:16:1:2-2');
SELECT lsm_test_pick('places=1.05 base*3:0-9:64:1000');
-- nothing is flushed, or moved, that has no place; all else goes on
SELECT lsm_test_pick('places=0.99 pages=1000 fill=1');
SELECT lsm_test_pick('places=1 pages=1000 fill=1');
SELECT lsm_test_pick('places=1 waits=1');
SELECT lsm_test_pick('places=1 pages=1000 fill=1 base:0-9:0:1000 inc:0-9:1:250:1-1');
SELECT lsm_test_pick('places=1 misplaced=3 base:0-9:64:1000');
SELECT lsm_test_pick('places=1 retired=1 base:0-9:64:1000');
SELECT lsm_test_pick('places=1 resolvable=1 base:0-9:64:1000');

-- ---- major: dead versions (50 and a fifth of the rows), with a bottom that costs nothing
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:1:249:1-1');
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:1:250:1-1');
-- the bottom outgrows the increments: ten times as large halves the score, a slow medium does so earlier
SELECT lsm_test_pick('base:0-9:10:1000 inc:0-9:1:499:1-1');
SELECT lsm_test_pick('base:0-9:10:1000 inc:0-9:1:500:1-1');
SELECT lsm_test_pick('base:0-9:11:1000 inc:0-9:1:500:1-1');
SELECT lsm_test_pick('medium=3 base:0-9:10:1000 inc:0-9:1:999:1-1');
SELECT lsm_test_pick('medium=3 base:0-9:10:1000 inc:0-9:1:1000:1-1');
-- a record that ends a row is small, but takes the row away: a sixth of the table is worth it, a hundredth is not
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:10000:1-1:ends=10000');
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:150000:1-1:ends=150000');
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:160000:1-1:ends=160000');
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:250000:1-1:ends=250000');
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:250000:1-1');
SELECT lsm_test_pick('medium=4 base:0-999:64:1000000 inc:0-999:1:240000:1-1:ends=240000');
SELECT lsm_test_pick('medium=4 base:0-999:64:1000000 inc:0-999:1:260000:1-1:ends=260000');
-- more of them than rows are as good as all rows
SELECT lsm_test_pick('base:0-999:64:1000000 inc:0-999:1:2000000:1-1:ends=2000000');
-- where they are
SELECT lsm_test_pick('base*4:0-9:64:1000000 inc:10-19:1:300000:1-1:ends=300000');
-- versions that somebody may see are no reason
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:1:250:1-1:99999');
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:1:250:1-1:100000');
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:1:100:2-2:100000 inc:0-9:1:300:1-1:5');
-- those that somebody may name by their versions stay where they are: a reason only if reads suffer
SELECT lsm_test_pick('settled=99998 base:0-9:0:1000 inc:0-9:1:250:1-1:99998');
SELECT lsm_test_pick('settled=99999 base:0-9:0:1000 inc:0-9:1:250:1-1:99998');
SELECT lsm_test_pick('settled=99998 base:0-9:0:1000 inc:0-9:1:250:1-1:99998 shift=5 lbs=31 waste:0:11250');
-- records examined for nothing: as many as the job merges, and 10000
SELECT lsm_test_pick('base:0-31:0:100000 inc:0-31:1:1000:1-1 shift=5 lbs=31 waste:0:110999');
SELECT lsm_test_pick('base:0-31:0:100000 inc:0-31:1:1000:1-1 shift=5 lbs=31 waste:0:111000');
-- but not where nothing could be merged
SELECT lsm_test_pick('base:0-31:0:100000 shift=5 lbs=31 waste:0:10000000');
SELECT lsm_test_pick('base:0-31:1:100000 base:32-63:1:100000 inc:32-63:1:1000:1-1 shift=5 lbs=63 waste:0:10000000');
-- a hot key range is compacted by itself
SELECT lsm_test_pick('base*100:0-31:1:100000 inc:0-3199:100:100000:1-1 shift=5 lbs=3199 waste:7:1000000');
SELECT lsm_test_pick('base*100:0-31:1:100000 inc:0-3199:100:100000:1-1 shift=7 lbs=3199 waste:7:1000000');
-- neighbours come along as long as a job may read: fewer of a greater bottom
SELECT lsm_test_pick('job=1000 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('job=1000 base*100:0-9:40:100000 inc:0-999:1000:10000000:1-1');
-- one segment at least
SELECT lsm_test_pick('job=1 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
-- the output has to find room: half of the free space, or a sixteenth of the file; one segment
SELECT lsm_test_pick('file=200 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('file=4000 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('file=1000 free=1500 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
-- majors share it: what runs has its part, whether it has been given pages by now or not
SELECT lsm_test_pick('file=2000 major:0-99 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('file=2000 free=400 major:0-99 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('file=2000 free=200 given=200 major:0-99 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('file=2000 major:0-119 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
-- a move takes none
SELECT lsm_test_pick('file=2000 move:0-119 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
-- two that are both over one base segment, which has it once
SELECT lsm_test_pick('file=2100 major:0-105 major:108-109 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
-- one that has to wait for another keeps no minor from being done
SELECT lsm_test_pick('file=200 major:0-29 major_hi=1 base*100:0-9:10:100000 inc:0-999:10:1000000:5-5 inc:0-999:10:1000000:4-4 inc:0-999:10:1000000:3-3 inc:0-999:10:1000000:2-2 inc:0-999:1000:10000000:1-1');
-- beside a running major, not over it
SELECT lsm_test_pick('major:0-499 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('major:0-499 major:500-999 base*100:0-9:10:100000 inc:0-999:1000:10000000:1-1');
SELECT lsm_test_pick('minor_lo=2 base:0-9:0:1000 inc:0-9:1:250:2-2 inc:0-9:1:250:1-1');
SELECT lsm_test_pick('minor_lo=1 base:0-9:0:1000 inc:0-9:1:250:2-2 inc:0-9:1:250:1-1');
-- the better of minor and major
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:10:80:4-4 inc:0-9:10:80:3-3 inc:0-9:10:80:2-2 inc:0-9:10:80:1-1');
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:10:60:4-4 inc:0-9:10:60:3-3 inc:0-9:10:60:2-2 inc:0-9:10:60:1-1');
-- rows of rolled-back transactions, whatever writing costs: they are local
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000:aborted base:20-29:64:1000');
SELECT lsm_test_pick('medium=2 base:0-9:64:1000 base:10-19:64:1000:aborted base:20-29:64:1000');
-- xids that have no place in the manifest
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000:stuck=99001');
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000:stuck=99000');
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000 inc:15-19:1:1:1-1:stuck=98000');
-- the ring of version identifiers comes round to those of an increment: the nearer, the more
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000 base:20-29:64:1000 inc:15-19:1:1:1-1:lap=0.74');
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000 base:20-29:64:1000 inc:15-19:1:1:1-1:lap=0.75');
SELECT lsm_test_pick('base:0-9:64:1000 base:10-19:64:1000 base:20-29:64:1000 inc:15-19:1:1:1-1:lap=0.95');
SELECT lsm_test_pick('base:0-9:64:1000 inc:0-9:1:1:1-1:lap=1');
-- the one that comes first, whatever else is worth it
SELECT lsm_test_pick('job=100 base*3:0-9:64:1000 inc:20-29:1:1:2-2:lap=0.8 inc:0-9:1:1:1-1:lap=0.9');
SELECT lsm_test_pick('base:0-9:0:1000 inc:0-9:10:80:4-4 inc:0-9:10:80:3-3 inc:0-9:10:80:2-2 inc:0-9:10:80:1-1:lap=0.9');
-- not what would stay: it may still be named, or seen
SELECT lsm_test_pick('settled=99998 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9:99997');
SELECT lsm_test_pick('settled=99998 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9:99998');
SELECT lsm_test_pick('settled=99998 visible=99998 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9:99998');
-- nor what others are at, or what a store keeps from being done
SELECT lsm_test_pick('minor_lo=1 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9');
SELECT lsm_test_pick('major:0-9 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9');
SELECT lsm_test_pick('rests=1 base:0-9:64:1000:cold inc:0-9:1:1:1-1:lap=0.9');
SELECT lsm_test_pick('compact=0 base:0-9:64:1000 inc:0-9:1:1:1-1:lap=0.9');
-- small neighbours: sixteen of less than a sixteenth of a segment
SELECT lsm_test_pick('base*15:0-9:3:1000');
SELECT lsm_test_pick('base*16:0-9:3:1000');
SELECT lsm_test_pick('base*16:0-9:4:1000');
SELECT lsm_test_pick('base:0-9:64:1 base*17:10-19:3:1000 base:500-999:64:1');
SELECT lsm_test_pick('medium=2 base*17:0-9:3:1000');
-- nor those of few bytes that have many rows: 32 million end a segment
SELECT lsm_test_pick('base*16:0-9:3:2000000');
SELECT lsm_test_pick('base*16:0-9:3:2100000');
SELECT lsm_test_pick('rows=16000 base*16:0-9:3:1000');
-- not those between which there are blocks without rows
SELECT lsm_test_pick('base*20:0-9:3:1000:apart');
SELECT lsm_test_pick('base*15:0-9:3:1000 base:200-209:3:1000:apart base*14:210-219:3:1000');
SELECT lsm_test_pick('base*15:0-9:3:1000 base:200-209:3:1000:apart base*15:210-219:3:1000');
-- a job that came to nothing keeps no other from being done
SELECT lsm_test_pick('misplaced=3 base*16:0-9:3:1000');
SELECT lsm_test_pick('spent=8 misplaced=3 base*16:0-9:3:1000');
-- in a table of many segments, of less than a quarter of one
SELECT lsm_test_pick('base*1024:0-9:6:1000');
SELECT lsm_test_pick('base*1025:0-9:6:1000');
SELECT lsm_test_pick('base*1025:0-9:16:1000');
-- where segments are larger than the setting, until one is full; those of the setting stay
SELECT lsm_test_pick('segment=256 base*1009:0-9:64:1000 base*16:11000-11009:6:1000');
SELECT lsm_test_pick('segment=256 base*1009:0-9:64:1000 base*43:11000-11009:6:1000');
SELECT lsm_test_pick('segment=256 base*1009:0-9:64:1000 base*63:11000-11009:1:1000');
SELECT lsm_test_pick('segment=256 base*1009:0-9:64:1000 base*64:11000-11009:1:1000');
SELECT lsm_test_pick('segment=256 job=1024 base*16384:0-9:60:1000');
-- but for a table of too many; other jobs do not wait for that
SELECT lsm_test_pick('segment=256 job=1024 base*16385:0-9:60:1000');
SELECT lsm_test_pick('segment=256 job=1024 medium=4 base*16385:0-9:60:1000');
SELECT lsm_test_pick('segment=256 job=1024 base*16385:0-9:60:1000 inc:100-109:60:1000:1-1');

-- ---- stores that have failed: what lies in them waits, minors and other majors do not
SELECT lsm_test_pick('base:0-9:10:1000:cold base:10-19:10:1000 inc:0-9:10:2000:1-1 inc:10-19:10:500:2-2');
SELECT lsm_test_pick('rests=1 base:0-9:10:1000:cold base:10-19:10:1000 inc:0-9:10:2000:1-1 inc:10-19:10:500:2-2');
SELECT lsm_test_pick('rests=1 base:0-9:10:1000:cold inc:0-9:10:2000:1-1');
SELECT lsm_test_pick('base:0-9:10:1000:cold inc:0-9:10:1000:4-4 inc:0-9:10:1000:3-3 inc:0-9:10:1000:2-2 inc:0-9:10:1000:1-1');
SELECT lsm_test_pick('rests=1 base:0-9:10:1000:cold inc:0-9:10:1000:4-4 inc:0-9:10:1000:3-3 inc:0-9:10:1000:2-2 inc:0-9:10:1000:1-1');
SELECT lsm_test_pick('rests=1 pages=1000 fill=1 base:0-9:10:1000:cold inc:0-9:10:2000:1-1');
-- small neighbours and old xids are no exception
SELECT lsm_test_pick('rests=1 base*16:0-9:1:1000:cold');
SELECT lsm_test_pick('rests=1 base:0-9:10:1000:cold inc:0-9:10:0:1-1:stuck=90000');

-- ---- the manifest can learn something: when nothing else is to be done
SELECT lsm_test_pick('base:0-9:64:1000 resolvable=1');
SELECT lsm_test_pick('base*16:0-9:3:1000 resolvable=1');
SELECT lsm_test_pick('base:0-9:64:1000 retired=1');
SELECT lsm_test_pick('base*16:0-9:3:1000 retired=1');

-- ---- space of a table at rest: the same, and only where it may be compacted
SELECT lsm_test_pick('base:0-9:64:1000 trim=1');
SELECT lsm_test_pick('base*16:0-9:3:1000 trim=1');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 retired=1');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 misplaced=1');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 spent=64');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 places=0.9');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 places=1');
SELECT lsm_test_pick('base:0-9:64:1000 trim=1 compact=0');

-- the row log of a table at rest, where it is much of the file, half a megabyte at least
SELECT lsm_test_pick('pages=64 file=8 base:0-9:8:1000');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8 base:0-9:8:1000');
SELECT lsm_test_pick('at_rest=1 pages=63 file=1 base:0-9:1:1000');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8.1 base:0-9:8:1000');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8 base:0-9:8:1000 trim=1');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8 base:0-9:8:1000 places=1');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8 base:0-9:8:1000 flushing=1');
SELECT lsm_test_pick('at_rest=1 pages=64 file=8 base:0-9:8:1000 compact=0');

-- the owner wants no compaction
SELECT lsm_test_pick('compact=0 base:0-9:0:1000 inc:0-9:1:250:1-1');
SELECT lsm_test_pick('compact=0 pages=1000 fill=0.5 base:0-9:0:1000 inc:0-9:1:250:1-1');
SELECT lsm_test_pick('compact=0 base:0-9:0:1000 inc:0-9:1:250:1-1 resolvable=1');

-- ---- properties, on random facts
SELECT lsm_test_pick_random(1, 10000);
SELECT lsm_test_pick_random(2, 10000);

-- ---- many increments over each other: the first place with most of them, the newest there, and
-- all base segments that some are a reason for
SELECT lsm_test_pick_stack(seed, 40, 300, 400, 3) FROM generate_series(1, 6) seed;
SELECT lsm_test_pick_stack(seed, 40, 300, 5, 50) FROM generate_series(1, 6) seed;
SELECT lsm_test_pick_stack(seed, 40, 30, 200, 1000) FROM generate_series(1, 6) seed;
SELECT lsm_test_pick_stack(seed, 4, 30, 10, 3000) FROM generate_series(1, 6) seed;
SELECT lsm_test_pick_stack(1, 1000, 20000, 10000, 3);

-- ---- simulations
-- inserted to only: never written again, whatever reads cost
SELECT lsm_test_pick_appends(2000, 20, 0);
SELECT lsm_test_pick_appends(300, 5, 0);
-- but for very many small flushes, of which segments are made: 120 GB
SELECT lsm_test_pick_appends(20000, 6, 0);
-- in a table of 0.8 TB they grow with it: what is inserted is written twice, what was there stays
SELECT lsm_test_pick_appends(1000, 6, 13000);
SELECT lsm_test_pick_appends(1000, 20, 13000);
-- 2.5 TB of more segments than that makes are written once more, by and by
SELECT lsm_test_pick_appends(3, 60, 40000);
-- a queue: records examined for each row stay few, however long it lasts
SELECT lsm_test_pick_queue(1000, 100, 10000);
SELECT lsm_test_pick_queue(1000, 100, 100000);
SELECT lsm_test_pick_queue(100000, 1000, 10000);
-- deletes at random: what they leave is bounded, and rows are not written for each few of them
SELECT lsm_test_pick_deletes(1, 8, 1, 1000);
SELECT lsm_test_pick_deletes(50, 64, 5, 1000);
SELECT lsm_test_pick_deletes(50, 64, 100, 100);
-- updates at random: of a small table, a larger one, and of 10 TB in 100,000
-- segments; what a job reads and how many increments lie over each other is bounded
SELECT lsm_test_pick_updates(100, 64, 20, 500, 2048, 1);
SELECT lsm_test_pick_updates(1000, 64, 100, 1000, 2048, 1);
SELECT lsm_test_pick_updates(1000, 64, 100, 1000, 2048, 4);
SELECT lsm_test_pick_updates(100000, 100, 50000, 60, 100000, 1);

-- ---- increments over each other, for which writers become slower: also those of a major
SELECT lsm_test_pick_depth('base:0-99:64:1000');
SELECT lsm_test_pick_depth('inc:0-9:1:1:3-3 inc:10-19:1:1:2-2 inc:20-29:1:1:1-1');
SELECT lsm_test_pick_depth('major_hi=1 inc:0-9:1:1:3-3 inc:9-19:1:1:2-2 inc:9-29:1:1:1-1');
SELECT lsm_test_pick_depth('inc:0-9:1:1:4-4 inc:0-99:1:1:3-3 inc:50-59:1:1:2-2 inc:59-99:1:1:1-1');

-- ---- a real table
SET max_parallel_workers_per_gather = 0;
CREATE TABLE pk (id int, v int) USING lsm WITH (autovacuum_enabled = off);
SELECT lsm_test_pick_table('pk');
INSERT INTO pk SELECT i, i FROM generate_series(1, 1000) i;
SELECT lsm_test_pick_table('pk');
SELECT rows_out FROM lsm_flush('pk');
-- there is no more to do
SELECT segments_out FROM lsm_minor_compact('pk');
SELECT kind FROM lsm_segments('pk');
SELECT lsm_test_pick_table('pk');
-- an increment of each flush
UPDATE pk SET v = v + 1 WHERE id % 50 = 1;
SELECT rows_out FROM lsm_flush('pk');
UPDATE pk SET v = v + 1 WHERE id % 50 = 2;
SELECT rows_out FROM lsm_flush('pk');
UPDATE pk SET v = v + 1 WHERE id % 50 = 3;
SELECT rows_out FROM lsm_flush('pk');
SELECT lsm_test_pick_table('pk');
UPDATE pk SET v = v + 1 WHERE id % 50 = 4;
SELECT rows_out FROM lsm_flush('pk');
SELECT substr(lsm_test_pick_table('pk'), 1, 25);
SELECT segments_in, segments_out FROM lsm_minor_compact('pk');
SELECT lsm_test_pick_table('pk');
-- dead versions
DELETE FROM pk WHERE id > 400;
SELECT rows_out FROM lsm_flush('pk');
SELECT lsm_test_pick_table('pk') LIKE 'major gen 0-%, all blocks, 0 MB: dead versions, %';
-- the owner's wish
ALTER TABLE pk SET (lsm.auto_compact = off);
SELECT lsm_test_pick_table('pk');
ALTER TABLE pk RESET (lsm.auto_compact);
SELECT segments_in, rows_out FROM lsm_major_compact('pk');
SELECT lsm_test_pick_table('pk');
-- reads that examine deleted rows again and again: in the memtable, then in segments
CREATE TABLE pq (id int, v int) USING lsm WITH (autovacuum_enabled = off);
INSERT INTO pq SELECT i, i FROM generate_series(1, 20000) i;
SELECT rows_out FROM lsm_flush('pq');
SELECT segments_out FROM lsm_minor_compact('pq');
DELETE FROM pq WHERE id <= 1200;
SELECT lsm_test_pick_table('pq');
DO $$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM count(*) FROM pq; END LOOP; END $$;
SELECT lsm_test_pick_table('pq') LIKE 'flush: reads examine too many records, %';
SELECT rows_out FROM lsm_flush('pq');
SELECT lsm_test_pick_table('pq');
DO $$ BEGIN FOR i IN 1 .. 60 LOOP PERFORM count(*) FROM pq; END LOOP; END $$;
SELECT lsm_test_pick_table('pq') LIKE 'major %: reads examine too many records, %';
SELECT segments_in, rows_out FROM lsm_major_compact('pq');
SELECT lsm_test_pick_table('pq');
DO $$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM count(*) FROM pq; END LOOP; END $$;
SELECT lsm_test_pick_table('pq');
-- rows that are looked up by key, in a memtable that nobody changes any more: many are not in it,
-- which its filter does not always tell, the others would be found sooner in a segment
CREATE TABLE pl (id int PRIMARY KEY, v int) USING lsm WITH (autovacuum_enabled = off);
CREATE PROCEDURE look_up(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		PERFORM count(*) FROM generate_series(1, 20000) key, LATERAL (SELECT v FROM pl WHERE id = key OFFSET 0) x;
	END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET lsm.debug_quiet_time = 0;
-- (a row log of fewer than 64 pages, as a larger one would be flushed for its space)
INSERT INTO pl SELECT i, i FROM generate_series(1, 20000) i;
SELECT rows_out FROM lsm_flush('pl');
SELECT segments_out FROM lsm_minor_compact('pl');
UPDATE pl SET v = v + 1 WHERE id % 3 = 0;
CALL look_up(3);
SELECT lsm_test_pick_table('pl', 64);
-- it begins anew with each change
UPDATE pl SET v = v + 1 WHERE id = 2;
CALL look_up(3);
SELECT lsm_test_pick_table('pl', 64);
CALL look_up(8);
SELECT lsm_test_pick_table('pl', 64) LIKE 'flush: reads examine too many records, %';
-- not where nobody would merge what such flushes leave
ALTER TABLE pl SET (lsm.auto_compact = off);
SELECT lsm_test_pick_table('pl', 64);
ALTER TABLE pl RESET (lsm.auto_compact);
-- nor as long as the last change is not old
UPDATE pl SET v = v + 1 WHERE id = 2;
SET lsm.debug_quiet_time = '1d';
CALL look_up(11);
SELECT lsm_test_pick_table('pl', 64);
-- scans do not count
SET lsm.debug_quiet_time = 0;
RESET enable_seqscan;
DO $$ BEGIN FOR i IN 1 .. 8 LOOP PERFORM count(v) FROM pl; END LOOP; END $$;
SELECT lsm_test_pick_table('pl', 64);
SET enable_seqscan = off;
CALL look_up(11);
SELECT lsm_test_pick_table('pl', 64) LIKE 'flush: reads examine too many records, %';
SELECT rows_out FROM lsm_flush('pl');
SELECT segments_out FROM lsm_major_compact('pl');
SELECT lsm_test_pick_table('pl', 64);
-- and small increments, which do not have the rows
UPDATE pl SET v = v + 1 WHERE id % 100 = 0;
SELECT rows_out FROM lsm_flush('pl');
CALL look_up(3);
SELECT lsm_test_pick_table('pl', 64);
CALL look_up(50);
SELECT lsm_test_pick_table('pl', 64) LIKE 'major %: reads examine too many records, %';
SELECT segments_in, rows_out FROM lsm_major_compact('pl');
CALL look_up(10);
SELECT lsm_test_pick_table('pl', 64);
-- what is left is free pages
SELECT lsm_test_pick_table('pl');
SET lsm.debug_quiet_time = '1d';
SELECT lsm_test_pick_table('pl');
SET lsm.debug_quiet_time = 0;
ALTER TABLE pl SET (lsm.auto_compact = off);
SELECT lsm_test_pick_table('pl');
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET lsm.debug_quiet_time;
-- rows of a transaction that was running at the flush, and was rolled back then
BEGIN;
INSERT INTO pq SELECT i, i FROM generate_series(1, 1000) i;
SELECT rows_out FROM lsm_flush('pq');
ROLLBACK;
SELECT lsm_test_pick_table('pq');
SELECT segments_in FROM lsm_minor_compact('pq');
SELECT lsm_test_pick_table('pq') LIKE 'major gen 0-0, blocks %-, 0 MB: rows of rolled-back transactions, score 1.00';
SELECT segments_in, segments_out FROM lsm_major_compact('pq');
SELECT lsm_test_pick_table('pq');

DROP PROCEDURE look_up(int);
DROP TABLE pk, pq, pl;
\pset format aligned
\pset tuples_only off
DROP FUNCTION lsm_test_pick(text);
DROP FUNCTION lsm_test_pick_depth(text);
DROP FUNCTION lsm_test_pick_random(int, int);
DROP FUNCTION lsm_test_pick_stack(int, int, int, int, int);
DROP FUNCTION lsm_test_pick_updates(int, int, int, int, int, float8);
DROP FUNCTION lsm_test_pick_deletes(int, int, int, int);
DROP FUNCTION lsm_test_pick_appends(int, int, int);
DROP FUNCTION lsm_test_pick_queue(int, int, int);
DROP FUNCTION lsm_test_pick_table(regclass, int);
