# cgroup.sh
#	  Cgroups of version 1 for the bench server: what its processes read from the
#	  device is counted, and can be limited; so can their memory and page cache.
#
# Sourced after lib.sh, before bench_start.  Root only.  Pages that the kernel has in
# its cache cost nothing and are not counted; blkio_forget drops those of the cluster's
# own files, and no others.

blkio=				# directory of ours
blkio_memory=			# the same for memory
blkio_why=			# why there is none
blkio_device=		# MAJOR:MINOR of the device below BENCH_ROOT

# blkio_enter MEMORY: from here on BENCH_RUNAS starts what it starts in the cgroups,
# with so many MB of memory.
blkio_enter()
{
	local mount source own

	if [ "$(id -u)" != 0 ]; then
		blkio_why="only root can make a cgroup"
		return 1
	fi
	mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)blkio(,|$)/ { print $2; exit }' /proc/mounts)
	if [ -z "$mount" ]; then
		blkio_why="there is no blkio cgroup of version 1"
		return 1
	fi
	source=$(df --output=source "$BENCH_ROOT" | sed -n '$p')
	if ! blkio_device=$(lsblk -no MAJ:MIN "$source" 2>/dev/null | sed -n '1s/ //gp') || [ -z "$blkio_device" ]; then
		blkio_why="\"$source\" is no device that can be counted"
		return 1
	fi
	blkio="$mount/lsm-bench.$$"
	if ! mkdir "$blkio" 2>/dev/null || [ ! -e "$blkio/blkio.throttle.read_iops_device" ]; then
		blkio_why="\"$blkio\" cannot be made, or has no throttling"
		rmdir "$blkio" 2>/dev/null || true
		blkio=
		return 1
	fi
	mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
	own=$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup)
	blkio_memory="$mount${own%/}/lsm-bench.$$"
	if [ -z "$mount" ] || ! mkdir "$blkio_memory" 2>/dev/null; then
		rmdir "$blkio"
		blkio=
		blkio_memory=
		blkio_why="memory cannot be bounded"
		return 1
	fi
	blkio_bound "$1"
	# newer kernels count only after the device has been limited once
	blkio_limit 1000000 100000
	blkio_limit 0 0
	BENCH_RUNAS=(bash -c 'echo $$ >"$0/cgroup.procs" && echo $$ >"$1/cgroup.procs" && shift && exec "$@"'
		"$blkio" "$blkio_memory" "${BENCH_RUNAS[@]}")
	BENCH_AT_END=blkio_leave
}

# blkio_bound MEMORY: so many MB from now on.
blkio_bound()
{
	printf '%d\n' $(($1 * 1048576)) >"$blkio_memory/memory.limit_in_bytes"
}

blkio_leave()
{
	[ -z "$blkio" ] || rmdir "$blkio" "$blkio_memory" || true
	blkio=
}

# blkio_limit REQUESTS MEGABYTES: reads a second; 0 0: as many as may be.
blkio_limit()
{
	echo "$blkio_device $1" >"$blkio/blkio.throttle.read_iops_device"
	echo "$blkio_device $(($2 * 1048576))" >"$blkio/blkio.throttle.read_bps_device"
}

# blkio_read: requests and bytes read so far.
blkio_read()
{
	local requests bytes

	requests=$(awk -v d="$blkio_device" '$1 == d && $2 == "Read" { print $3 }' \
		"$blkio/blkio.throttle.io_serviced_recursive")
	bytes=$(awk -v d="$blkio_device" '$1 == d && $2 == "Read" { print $3 }' \
		"$blkio/blkio.throttle.io_service_bytes_recursive")
	printf '%s %s\n' "${requests:-0}" "${bytes:-0}"
}

# blkio_forget: a server that is stopped has none of its files in the page cache.
blkio_forget()
{
	sync -f "$BENCH_ROOT/data"
	find "$BENCH_ROOT/data/base" -type f -size +0 -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

# blkio_restart: the server, with nothing cached.
blkio_restart()
{
	bench_server_stop fast
	blkio_forget
	bench_server_start
}
