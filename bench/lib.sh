# lib.sh
#	  What the bench scripts share: a private cluster, checks, arithmetic.
#
# Sourced, not run.  The cluster lies in a new temporary directory, listens on
# a unix socket in that directory only (mode 0700) and is stopped and removed
# when the script ends, whatever the reason.  As root the server runs as an
# unprivileged user; clients run as whoever called the script.
#
# ENVIRONMENT
#	  PGBIN			directory of postgres, pgbench, ... (PostgreSQL 15 of the system)
#	  AM			access method under test: lsm, or heap for a control run, which
#					does the same without lsm's functions and without the library
#	  BENCH_USER	server's user when the caller is root (postgres, else nobody)
#	  BENCH_DIR		where the temporary directory is made (TMPDIR, else /tmp)
#	  BENCH_CACHE	generated data and its generator (~/.cache/lsm-bench)
#	  BENCH_CONF	more lines for postgresql.conf, separated by newlines
#	  BENCH_KEEP	1 leaves the stopped cluster and all logs behind

set -euo pipefail

BENCH_SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BENCH_SCRIPT=$(basename "$0")
AM=${AM:-lsm}
PGBIN=${PGBIN:-/usr/lib/postgresql/15/bin}
BENCH_CACHE=${BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lsm-bench}
LC_ALL=C
export LC_ALL

BENCH_ROOT=			# temporary directory
BENCH_RUNAS=()		# prefix for commands that run as the server's user
BENCH_JOBS=()		# pids of our background processes
BENCH_AT_END=		# what a script has to do once the server has stopped for good
BENCH_PASSED=0
BENCH_FAILED=0
BENCH_ENDED=0

bench_say()
{
	printf '%s\n' "$*"
}

bench_die()
{
	printf '%s: %s\n' "$BENCH_SCRIPT" "$*" >&2
	exit 2
}

bench_section()
{
	printf '\n== %s\n' "$*"
}

bench_pass()
{
	BENCH_PASSED=$((BENCH_PASSED + 1))
	printf 'PASS  %s\n' "$*"
}

bench_fail()
{
	BENCH_FAILED=$((BENCH_FAILED + 1))
	printf 'FAIL  %s\n' "$*"
}

# bench_check NAME EXPECTED ACTUAL
bench_check()
{
	if [ "$2" = "$3" ]; then
		bench_pass "$1"
	else
		bench_fail "$1: expected \"$2\", got \"$3\""
	fi
}

# bench_psql DATABASE [psql arguments]: unaligned rows without headers.
bench_psql()
{
	local db=$1
	shift
	"$PGBIN/psql" -XAtq -v ON_ERROR_STOP=1 -d "$db" "$@"
}

# bench_sql DATABASE SQL: several statements are several transactions, and
# psql's own commands may stand between them.
bench_sql()
{
	bench_psql "$1" <<<"$2"
}

# bench_expect DATABASE NAME EXPECTED SQL: an error is a failed check, not the
# end of the script, so that one run shows all that is wrong.
bench_expect()
{
	local actual

	if actual=$(bench_sql "$1" "$4" 2>&1); then
		bench_check "$2" "$3" "$actual"
	else
		bench_fail "$2: $actual"
	fi
}

# Tables and indexes made by the command get the access method under test.
bench_with_am()
{
	PGOPTIONS="-c default_table_access_method=$AM" "$@"
}

# bench_expect_am DATABASE TABLE...
bench_expect_am()
{
	local db=$1 table
	shift
	for table in "$@"; do
		bench_expect "$db" "table \"$table\" uses access method \"$AM\"" "$AM" \
			"SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
			 WHERE c.oid = '$table'::regclass"
	done
}

# bench_lsm DATABASE FUNCTION TABLE: calls lsm_FUNCTION and shows its one row;
# nothing to do in a control run.
bench_lsm()
{
	[ "$AM" = lsm ] || return 0
	"$PGBIN/psql" -X -q -v ON_ERROR_STOP=1 -d "$1" -P footer=off \
		-c "SELECT 'lsm_$2' AS function, '$3' AS \"table\", r.* FROM lsm_$2('$3') r"
}

# bench_create_database NAME
bench_create_database()
{
	bench_sql postgres "CREATE DATABASE $1"
	bench_sql "$1" "CREATE EXTENSION amcheck"
	if [ "$AM" = lsm ]; then
		bench_sql "$1" "CREATE EXTENSION lsm"
	fi
}

#
# Cluster
#

# bench_server_start [CLUSTER]: "data", or a copy of it in that folder of BENCH_ROOT
bench_server_start()
{
	if ! "${BENCH_RUNAS[@]}" "$PGBIN/pg_ctl" -D "$BENCH_ROOT/${1:-data}" \
		-l "$BENCH_ROOT/server.log" -t 600 -w start >"$BENCH_ROOT/pg_ctl.log" 2>&1
	then
		tail -n 20 "$BENCH_ROOT/server.log" "$BENCH_ROOT/pg_ctl.log" >&2 || true
		if [ "$AM" = lsm ] && grep -q 'could not access file "lsm"' "$BENCH_ROOT/server.log"; then
			bench_die "lsm is not installed in this server: run \"make install PG_CONFIG=$PGBIN/pg_config\""
		fi
		bench_die "the server did not start"
	fi
}

# bench_server_stop MODE [CLUSTER]
bench_server_stop()
{
	"${BENCH_RUNAS[@]}" "$PGBIN/pg_ctl" -D "$BENCH_ROOT/${2:-data}" -m "$1" -t 600 -w \
		stop >"$BENCH_ROOT/pg_ctl.log" 2>&1
}

# Stops, in order: our background jobs, the servers.  By pid only.
bench_cleanup()
{
	local status=$? pid running

	trap - EXIT
	for pid in ${BENCH_JOBS[@]+"${BENCH_JOBS[@]}"}; do
		kill "$pid" 2>/dev/null || true
	done
	if [ -n "$BENCH_ROOT" ]; then
		for running in "$BENCH_ROOT"/*/postmaster.pid; do
			[ ! -f "$running" ] || bench_server_stop immediate "$(basename "${running%/*}")" || true
		done
		[ -z "$BENCH_AT_END" ] || "$BENCH_AT_END"
		if [ "$BENCH_ENDED" = 0 ]; then
			printf 'FAIL  %s ended before its last check (status %d)\n' "$BENCH_SCRIPT" "$status"
			tail -n 15 "$BENCH_ROOT/server.log" 2>/dev/null >&2 || true
		fi
		if [ "${BENCH_KEEP:-0}" = 1 ]; then
			bench_say "kept: $BENCH_ROOT"
		else
			rm -rf "$BENCH_ROOT"
		fi
	fi
	exit "$status"
}

# bench_remember_job PID, bench_forget_job PID: what bench_cleanup must end.
bench_remember_job()
{
	BENCH_JOBS+=("$1")
}

bench_forget_job()
{
	local pid rest=()

	for pid in "${BENCH_JOBS[@]}"; do
		[ "$pid" = "$1" ] || rest+=("$pid")
	done
	BENCH_JOBS=(${rest[@]+"${rest[@]}"})
}

# Makes and starts the cluster and prints what the results depend on.
bench_start()
{
	local user preload=

	case $AM in
		lsm) preload=lsm ;;
		heap) ;;
		*) bench_die "AM must be \"lsm\" or \"heap\", not \"$AM\"" ;;
	esac
	[ -x "$PGBIN/postgres" ] || bench_die "no server in \"$PGBIN\": set PGBIN"
	[ -x "$PGBIN/pgbench" ] || bench_die "no pgbench in \"$PGBIN\""

	trap bench_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	BENCH_ROOT=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/lsm-bench.XXXXXX")
	if [ "$(id -u)" = 0 ]; then
		user=${BENCH_USER:-$(id -un postgres 2>/dev/null || echo nobody)}
		BENCH_RUNAS=(runuser -u "$user" --)
		chmod 755 "$BENCH_ROOT"
		mkdir "$BENCH_ROOT/data" "$BENCH_ROOT/socket"
		: >"$BENCH_ROOT/server.log"
		chown "$user" "$BENCH_ROOT/data" "$BENCH_ROOT/socket" "$BENCH_ROOT/server.log"
		"${BENCH_RUNAS[@]}" test -x "$PGBIN/postgres" ||
			bench_die "user \"$user\" cannot run \"$PGBIN/postgres\""
	else
		BENCH_RUNAS=(env)
		mkdir "$BENCH_ROOT/data" "$BENCH_ROOT/socket"
	fi
	cd "$BENCH_ROOT"

	"${BENCH_RUNAS[@]}" "$PGBIN/initdb" -D "$BENCH_ROOT/data" -U bench -A trust \
		-E UTF8 --locale=C >"$BENCH_ROOT/initdb.log" 2>&1 ||
		{ cat "$BENCH_ROOT/initdb.log" >&2; bench_die "initdb failed"; }
	cat >>"$BENCH_ROOT/data/postgresql.conf" <<-CONF
	listen_addresses = ''
	unix_socket_directories = '$BENCH_ROOT/socket'
	unix_socket_permissions = 0700
	shared_preload_libraries = '$preload'
	max_connections = 50
	shared_buffers = 1GB
	work_mem = 64MB
	maintenance_work_mem = 256MB
	wal_level = replica
	fsync = on
	synchronous_commit = on
	full_page_writes = on
	max_wal_size = 16GB
	checkpoint_timeout = 30min
	log_checkpoints = on
	${BENCH_CONF:-}
	CONF

	export PGHOST=$BENCH_ROOT/socket PGPORT=5432 PGUSER=bench PGDATABASE=postgres
	unset PGOPTIONS PGSERVICE PGPASSWORD || true
	bench_server_start
	bench_header
}

bench_header()
{
	local commit

	# The checkout may belong to another user than the one who measures.
	if commit=$(git -c safe.directory='*' -C "$BENCH_SRC" rev-parse --short=12 HEAD 2>/dev/null); then
		if [ -n "$(git -c safe.directory='*' -C "$BENCH_SRC" status --porcelain 2>/dev/null)" ]; then
			commit="$commit, changed since"
		fi
	else
		commit=unknown
	fi
	bench_say "script:   $BENCH_SCRIPT, access method \"$AM\", $(date -u +%Y-%m-%dT%H:%MZ)"
	bench_say "commit:   $commit"
	bench_say "server:   $(bench_sql postgres 'SELECT version()')"
	bench_say "asserts:  $(bench_sql postgres 'SHOW debug_assertions')"
	bench_say "machine:  $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | sed -n 1p), $(nproc) cores," \
		"$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1048576 }' /proc/meminfo), Linux $(uname -r)," \
		"$(df --output=fstype "$BENCH_ROOT" | sed -n '$p')"
	bench_say "settings:"
	bench_sql postgres "
		SELECT '    ' || name || ' = ' || current_setting(name)
		FROM pg_settings
		WHERE name IN ('shared_buffers', 'work_mem', 'maintenance_work_mem',
					   'wal_level', 'fsync', 'synchronous_commit',
					   'full_page_writes', 'wal_compression', 'max_wal_size',
					   'checkpoint_timeout', 'autovacuum',
					   'shared_preload_libraries')
		   OR name LIKE 'lsm.%'
		ORDER BY name"
}

# The last call of each script.
bench_finish()
{
	local crashes

	# An immediate stop of ours ends processes with an exit code, not a signal.
	crashes=$(grep -cE 'PANIC:|TRAP:|was terminated by signal' "$BENCH_ROOT/server.log" || true)
	if [ "$crashes" != 0 ]; then
		grep -E 'PANIC:|TRAP:|was terminated by signal' "$BENCH_ROOT/server.log" | sed -n 1,5p
	fi
	bench_check "no server process crashed" 0 "$crashes"
	BENCH_ENDED=1
	printf '\n%s: %d passed, %d failed\n' "$BENCH_SCRIPT" "$BENCH_PASSED" "$BENCH_FAILED"
	[ "$BENCH_FAILED" = 0 ] || exit 1
	exit 0
}

#
# Soundness
#

# bench_verify DATABASE: every table and btree index of schema public.
bench_verify()
{
	local db=$1 table index

	if [ "$AM" = lsm ]; then
		for table in $(bench_sql "$db" "
			SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
			WHERE a.amname = 'lsm' AND c.relnamespace = 'public'::regnamespace
			ORDER BY 1"); do
			bench_expect "$db" "lsm_check('$table') is empty" "" \
				"SELECT p FROM lsm_check('$table') p LIMIT 10"
		done
	fi
	for index in $(bench_sql "$db" "
		SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relkind = 'i' AND a.amname = 'btree'
		  AND c.relnamespace = 'public'::regnamespace
		ORDER BY 1"); do
		bench_expect "$db" "bt_index_check('$index', heapallindexed)" "" \
			"SELECT bt_index_check('$index', true)"
	done
}

#
# Numbers
#

bench_seconds()
{
	printf '%s\n' "$EPOCHREALTIME"
}

# bench_calc FORMAT EXPRESSION
bench_calc()
{
	awk "BEGIN { printf \"$1\", $2 }"
}

# bench_median NUMBER...
bench_median()
{
	printf '%s\n' "$@" | sort -g |
		awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# bench_spread NUMBER...: smallest and largest
bench_spread()
{
	printf '%s\n' "$@" | sort -g | awk 'NR == 1 { a = $1 } { b = $1 } END { printf "%.6g..%.6g", a, b }'
}

# bench_pgbench_count FILE, bench_pgbench_tps FILE: from pgbench's report.
bench_pgbench_count()
{
	sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$1"
}

bench_pgbench_tps()
{
	sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$1"
}

#
# Python: programs and libraries from PyPI, in an environment of their own
#

# bench_python_install PACKAGE PROBE...: installs it unless PROBE succeeds.
# False, with a reason, if that cannot be.
bench_python_install()
{
	local package=$1
	shift

	if "$@" >/dev/null 2>&1; then
		return 0
	fi
	bench_say "installing $package into $BENCH_CACHE/venv" >&2
	mkdir -p "$BENCH_CACHE"
	if ! python3 -m venv "$BENCH_CACHE/venv" >&2; then
		bench_say "could not make a Python environment: is python3-venv installed?" >&2
		return 1
	fi
	"$BENCH_CACHE/venv/bin/pip" install -q --disable-pip-version-check "$package" >&2
}

#
# TPC-H
#

# bench_tpch_file TABLE SCALE: makes the rows if need be, prints the file's name.
# The generator is tpchgen-cli from PyPI; its .tbl lines end in a '|' that COPY
# would take for one more column.
bench_tpch_file()
{
	local table=$1 scale=$2 file="$BENCH_CACHE/$1-sf$2.tbl"

	if [ ! -s "$file" ]; then
		mkdir -p "$BENCH_CACHE"
		bench_python_install tpchgen-cli test -x "$BENCH_CACHE/venv/bin/tpchgen-cli" ||
			bench_die "could not install tpchgen-cli, which makes the rows of $table"
		bench_say "making $table at scale $scale" >&2
		"$BENCH_CACHE/venv/bin/tpchgen-cli" tbl -s "$scale" -T "$table" --stdout -q |
			sed 's/|$//' >"$file.new" || bench_die "could not make the rows of $table"
		mv "$file.new" "$file"
	fi
	printf '%s\n' "$file"
}

# bench_lineitem_file SCALE: a file may be given as LINEITEM_FILE instead.
bench_lineitem_file()
{
	bench_tpch_file lineitem "$1"
}

# bench_lineitem_ddl TABLE ACCESS_METHOD: as in the standard's dss.ddl, no index.
bench_lineitem_ddl()
{
	cat <<-SQL
	CREATE TABLE $1 (
		l_orderkey		integer NOT NULL,
		l_partkey		integer NOT NULL,
		l_suppkey		integer NOT NULL,
		l_linenumber	integer NOT NULL,
		l_quantity		numeric(15,2) NOT NULL,
		l_extendedprice	numeric(15,2) NOT NULL,
		l_discount		numeric(15,2) NOT NULL,
		l_tax			numeric(15,2) NOT NULL,
		l_returnflag	char(1) NOT NULL,
		l_linestatus	char(1) NOT NULL,
		l_shipdate		date NOT NULL,
		l_commitdate	date NOT NULL,
		l_receiptdate	date NOT NULL,
		l_shipinstruct	char(25) NOT NULL,
		l_shipmode		char(10) NOT NULL,
		l_comment		varchar(44) NOT NULL
	) USING $2
	SQL
}

# bench_lineitem_copy DATABASE TABLE FILE
bench_lineitem_copy()
{
	bench_psql "$1" -c "COPY $2 FROM STDIN (DELIMITER '|')" <"$3"
}
