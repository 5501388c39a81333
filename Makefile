#-------------------------------------------------------------------------
#
# Makefile for lsm, a table access method for PostgreSQL 15, 17 and 18
#
#	make [PG_CONFIG=...] [WERROR=1]		build; WITH_LIBS3=1 adds signatures of version
#						2 for old stores, and the GPL (README.md)
#	make install				install into that server
#	make installcheck			run the tests on a running server that has
#						lsm in shared_preload_libraries and
#						lsm.compaction_workers = 0; scripts/test
#						does all of this on a server of its own
#	make check-style			rules that no compiler knows
#	make indent				format the C files as PostgreSQL's are
#	make compile_commands.json		for editors
#
#-------------------------------------------------------------------------

MODULE_big = lsm
EXTENSION = lsm
DATA = sql/lsm--1.0.sql
PGFILEDESC = "lsm - log-structured table access method"

# Every file of src/ and of its folders; those in src/test/ are C code for
# tests (stop points, for one) that is part of the library.
LSM_SOURCES = $(sort $(wildcard src/*.c src/*/*.c))
ifneq ($(WITH_LIBS3),1)
LSM_SOURCES := $(filter-out src/store/lsm_store_libs3.c,$(LSM_SOURCES))
endif
ifeq ($(LSM_SOURCES),)
$(error lsm is built where its sources are: use make -C, not make -f or VPATH)
endif
LSM_HEADERS = $(sort $(wildcard src/*.h src/*/*.h))
LSM_FOLDERS = $(sort $(patsubst %/,%,$(dir $(LSM_SOURCES) $(LSM_HEADERS))))
OBJS = $(LSM_SOURCES:.c=.o)

# Tests: each is named here.  "make check-style" finds files that are not.
REGRESS = \
	insert \
	load \
	near \
	update \
	upsert \
	named_version \
	delete \
	types \
	values \
	large_values \
	large_rows \
	system_columns \
	xmin \
	savepoint \
	row_lock \
	row_change \
	at_hand \
	keyhint \
	peek \
	flush_chain \
	block_patch \
	written \
	tid_scan \
	cursor \
	scan_changes \
	scan_times \
	scan_ends \
	merge \
	trigger \
	trigger_deferred \
	foreign_key \
	increments \
	index \
	index_build \
	index_dead \
	index_distance \
	bitmap_scan \
	bitmap_brin \
	bitmap_logical \
	tablesample \
	lsmscan \
	numeric_limits \
	lsmagg \
	zone_copies \
	lsmgroup \
	lsmfloat \
	changed_columns \
	condition_errors \
	collations \
	user_types \
	lsmbitmap \
	bitmap_parallel \
	costs \
	asked \
	lookups \
	lookahead \
	joinfilter \
	keyorder \
	parts \
	explain \
	alter_table \
	columns \
	truncate \
	cluster \
	persistence \
	temporary \
	foreign_table \
	inspect \
	io_statistics \
	prepared \
	vacuum \
	relpages \
	estimates \
	file_size \
	visibility_map \
	ring room \
	manifest \
	segment \
	formats \
	dictionary \
	segment_bounds \
	segments \
	segment_rows \
	growth \
	generations \
	views \
	big_transaction \
	table_options \
	overlaps \
	major_parts \
	jobs \
	row_identifiers \
	pick \
	readplan \
	ranges \
	walpack \
	reader \
	stat_tables \
	stat_rights \
	store \
	store_options \
	cold_store \
	cold_values \
	errors \
	not_supported

ISOLATION = \
	analyze \
	at-hand \
	bitmap-cursor \
	bitmap-epq \
	bitmap-names \
	bitmap-parallel \
	bitmap-serializable \
	block-patch \
	changed-rows \
	changed-serializable \
	count-serializable \
	ctid-join \
	cursor-compaction \
	dead-lists \
	deadlock \
	deferred-trigger \
	epq-join \
	epq-self \
	epq-update \
	fk-orphan \
	floor-parallel \
	flush-lock-timeout \
	flush-locked \
	keyhint \
	flush-race \
	frozen \
	hot-row \
	index-build-race \
	index-build-snapshot \
	large-flush \
	large-pointers \
	cold-pointers \
	lookahead-recheck \
	keyorder-recheck \
	cold-server \
	cold-two-servers \
	large-retired \
	large-savepoint \
	lb-reuse \
	lb-used-up \
	load \
	load-flush \
	load-serializable \
	lock-chain \
	lock-key-share \
	lock-nowait \
	lock-strengths \
	lock-update \
	lost-update \
	lsmscan-major \
	major-parts \
	job-order \
	major-race \
	merge-concurrent \
	minor-race \
	multiple-versions \
	old-snapshot \
	parallel-ranges \
	partition-move \
	pick-settles \
	reader-lock \
	relocate \
	repeatable-read \
	rewrite-order \
	rewrite-snapshot \
	rewrite-wait \
	savepoint-lock \
	serializable \
	serializable-flush \
	serializable-versions \
	stat-pinned \
	stat-progress \
	temporary-other \
	uncommitted \
	unique-insert \
	upsert-flush \
	upsert-killed \
	upsert-leftover \
	vacuum-index-scan \
	vacuum-running \
	vacuum-snapshot \
	vacuum-truncate \
	view-read \
	visibility-map

PROVE_TESTS = \
	src/test/t/001_crash.pl \
	src/test/t/002_stop_points.pl \
	src/test/t/003_model.pl \
	src/test/t/004_concurrent.pl \
	src/test/t/005_recovery_consistency.pl \
	src/test/t/006_damage.pl \
	src/test/t/007_many_lockers.pl \
	src/test/t/008_publication.pl \
	src/test/t/009_row_changes.pl \
	src/test/t/010_rewrite.pl \
	src/test/t/015_visibility_map.pl \
	src/test/t/016_standby_conflict.pl \
	src/test/t/017_options.pl \
	src/test/t/018_large_values.pl \
	src/test/t/020_dump.pl \
	src/test/t/021_pg_upgrade.pl \
	src/test/t/022_database.pl \
	src/test/t/023_storage.pl \
	src/test/t/024_subscriber.pl \
	src/test/t/025_backup.pl \
	src/test/t/026_temporary.pl \
	src/test/t/030_autovacuum.pl \
	src/test/t/031_workers.pl \
	src/test/t/032_pace.pl \
	src/test/t/033_memory.pl \
	src/test/t/034_single_user.pl \
	src/test/t/035_autovacuum_settles.pl \
	src/test/t/036_vacuum_passes.pl \
	src/test/t/040_reader.pl \
	src/test/t/041_bulk_load.pl \
	src/test/t/042_relocate.pl \
	src/test/t/044_stress.pl \
	src/test/t/050_store_file.pl \
	src/test/t/051_store_s3.pl \
	src/test/t/052_store_faults.pl \
	src/test/t/053_cold_file.pl \
	src/test/t/054_cold_orphans.pl \
	src/test/t/055_cold_s3.pl \
	src/test/t/056_store_cache.pl \
	src/test/t/057_cold_parallel.pl \
	src/test/t/058_borrowed_blocks.pl \
	src/test/t/059_changed_columns.pl \
	src/test/t/060_cold_requests.pl \
	src/test/t/061_store_minio.pl \
	src/test/t/062_parallel_bitmap.pl \
	src/test/t/063_cold_values.pl \
	src/test/t/064_row_blocks.pl \
	src/test/t/065_cold_away.pl \
	src/test/t/066_cold_recovery.pl \
	src/test/t/067_floors.pl \
	src/test/t/068_backlog.pl \
	src/test/t/069_cold_claims.pl \
	src/test/t/070_stored_tables.pl \
	src/test/t/071_cold_adopt.pl \
	src/test/t/072_cold_deletes.pl \
	src/test/t/073_cold_quiet.pl \
	src/test/t/074_store_ways.pl \
	src/test/t/075_many_tables.pl \
	src/test/t/076_silent_stores.pl \
	src/test/t/077_wraparound.pl \
	src/test/t/078_launcher.pl \
	src/test/t/079_createsubscriber.pl \
	src/test/t/080_ddl_stress.pl \
	src/test/t/081_store_sockets.pl \
	src/test/t/082_trim.pl \
	src/test/t/083_backlog.pl \
	src/test/t/084_near.pl \
	src/test/t/085_failsafe.pl \
	src/test/t/086_worker_stops.pl \
	src/test/t/087_two_majors.pl \
	src/test/t/088_visits.pl \
	src/test/t/089_memory_size.pl \
	src/test/t/090_queue.pl \
	src/test/t/091_room.pl \
	src/test/t/092_table_entries.pl

REGRESS_OPTS = --load-extension=lsm
ISOLATION_OPTS = --inputdir=$(srcdir)/src/test --load-extension=lsm
ifneq ($(strip $(PROVE_TESTS)),)
TAP_TESTS = 1
endif

# The server's headers are included as system headers: -Wextra finds unused
# parameters in those of PostgreSQL 15.  (gcc drops the server's own -I for the
# same directory, and keeps its place among the system directories.)  Ours may
# have unused parameters as well, because callbacks have the signature that the
# server gives them.
PG_CPPFLAGS = $(addprefix -I,$(LSM_FOLDERS)) -isystem $(includedir_server)
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter
# Calls from file to file of this library go straight to the function, as servers from 16 on
# have it by hidden visibility, and not through a table that another library might change.  Calls
# of the server, of which a row takes some dozens, read its address there themselves, without a
# jump through a table of jumps: 1 to 2 % of a short transaction.
PG_CFLAGS += -fno-semantic-interposition -fno-plt
SHLIB_LINK = -Wl,-Bsymbolic-functions
ifdef WERROR
PG_CFLAGS += -Werror
endif
SHLIB_LINK += -lzstd -luring -lcurl
ifeq ($(WITH_LIBS3),1)
PG_CPPFLAGS += -DLSM_WITH_LIBS3
SHLIB_LINK += -ls3
endif

# JIT inlining of this library's functions is worth nothing, and the compiler
# that it needs is often missing.
override with_llvm = no

EXTRA_CLEAN = compile_commands.json .build-flags typedefs.list

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error "$(PG_CONFIG)" does not tell where PGXS is: install the server's development files and set PG_CONFIG)
endif
include $(PGXS)

ifeq ($(WITH_LIBS3),1)
ifneq ($(shell $(CC) $(CPPFLAGS) -include libs3.h -E -x c /dev/null >/dev/null 2>&1 && echo found),found)
$(error WITH_LIBS3=1 needs libs3.h, of libs3 2.0: install libs3-dev, or leave WITH_LIBS3 out)
endif
endif

# Loops over the numbers of a block are worth vectors; -O2 of gcc makes few.
src/segment/lsm_codes.o src/segment/lsm_decode.o src/segment/lsm_floats.o \
src/segment/lsm_numbers.o src/segment/lsm_select.o src/segment/lsm_vector_sum.o: \
	override CFLAGS += $(CFLAGS_VECTORIZE)

# PGXS knows no dependencies on headers.  .build-flags changes with the server
# and with the flags, so that objects of two servers never meet in one library.
$(OBJS): $(LSM_HEADERS) .build-flags

.build-flags: FORCE
	@echo '$(CC) $(CFLAGS) $(CPPFLAGS) $(VERSION)' | cmp -s - $@ || \
		echo '$(CC) $(CFLAGS) $(CPPFLAGS) $(VERSION)' >$@

compile_commands.json: FORCE
	@scripts/compile-commands '$(CC) $(CFLAGS) $(CPPFLAGS)' $(LSM_SOURCES) >$@

check-style:
	@scripts/check-style '$(REGRESS)' '$(ISOLATION)' '$(PROVE_TESTS)'

# The list of our types, and of the server's that we use, is read from the
# debugging information of the library.
typedefs.list: $(shlib) scripts/find-typedefs
	scripts/find-typedefs $(shlib) $(LSM_SOURCES) $(LSM_HEADERS) >$@

indent: typedefs.list
	scripts/indent typedefs.list $(LSM_SOURCES) $(LSM_HEADERS)

# What a list holds, for scripts/test.
print-%:
	@echo '$($*)'

FORCE:

.PHONY: check-style indent FORCE
