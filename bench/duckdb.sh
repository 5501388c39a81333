# duckdb.sh
#	  DuckDB beside lsm: the same rows in a file of its own format, the same queries by one
#	  thread, as ratios without floors.
#
# Sourced after compare.sh.
#
# ENVIRONMENT
#	  DUCKDB_PYTHON	a Python with the module duckdb (python3)

# duckdb_at_hand: otherwise says that it is not.
duckdb_at_hand()
{
	duckdb_python=${DUCKDB_PYTHON:-python3}
	if ! "$duckdb_python" -c 'import duckdb' 2>/dev/null; then
		bench_say "SKIP  DuckDB: $duckdb_python has no module duckdb"
		return 1
	fi
}

# duckdb_beside ROUNDS SUFFIX UNIT TABLES_BYTES SCHEMA TABLE=FILE... <QUERIES: a line for each
# query beside what compare.sh has recorded of lsm under its name and SUFFIX, in UNIT, ms or /s.
# QUERIES are those of duckdb_queries.py; SCHEMA is that of lsm's tables.
duckdb_beside()
{
	local rounds=$1 suffix=$2 unit=$3 bytes=$4 directory=$BENCH_ROOT/duckdb name took answer lsm ratios=

	bench_section "DuckDB $("$duckdb_python" -c 'import duckdb; print(duckdb.__version__)'), one thread"
	mkdir "$directory"
	sed 's/) USING [^;]*/)/' "$5" >"$directory/schema.sql"
	if ! "$duckdb_python" "$BENCH_SRC/duckdb_queries.py" "$directory" "$directory/schema.sql" "$rounds" "${@:6}" >"$directory/out"; then
		bench_fail "DuckDB did not do the queries"
		return
	fi
	while IFS=$'\t' read -r name took answer; do
		case $name in
			load) bench_say "      loaded in $took s" ;;
			bytes) bench_say "      file of $(bench_calc %.1f "$took / 1e6") MB; tables of lsm $(bench_calc %.1f "$bytes / 1e6") MB" ;;
			*)
				lsm=$(compare_median "$name$suffix" test)
				[ "$unit" = ms ] || lsm=$(bench_calc %.6g "1000 / $lsm")
				ratios+=" $(bench_calc %.6g "$lsm / $took")"
				printf '      %-20s %10s ms   lsm / DuckDB: %s   (%s)\n' "$name" "$took" \
					"$(bench_calc %.2f "$lsm / $took")" "${answer:0:60}"
				;;
		esac
	done <"$directory/out"
	bench_say "      geometric mean of lsm / DuckDB, times: $(compare_geometric_mean $ratios)"
	rm -r "$directory"
}
