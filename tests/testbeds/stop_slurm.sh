#!/bin/bash
# stop_slurm.sh STATE_DIR [--purge]: ends the daemons that start_slurm.sh has started there, and every process of
# their jobs, however they stand: hung, cut off from each other, or with nobody left who minds them.
set -u
[ $# -ge 1 ] || { echo "usage: $0 STATE_DIR [--purge]" >&2; exit 2; }
S=$(cd "$1" && pwd -P) || exit 2
NODES=0 N=
[ ! -e "$S/settings" ] || . "$S/settings"

alive() { # alive PID [NAME]: does it run (not as a zombie), and is it NAME?
  case "$(cat /proc/"$1"/stat 2>/dev/null)" in *") Z "*) return 1;; "$1 (${2:-}"*) return 0;; esac
  return 1
}
end() { # end PIDFILE NAME
  local p; p=$(cat "$1" 2>/dev/null); [ -n "$p" ] || return 0
  if alive "$p" "$2"; then
    kill "$p"; kill -CONT "$p"
    for _ in $(seq 50); do alive "$p" "$2" || break; sleep 0.1; done
    if alive "$p" "$2"; then echo "stop_slurm: $2 ($p) did not end, killing it" >&2; kill -9 "$p"; fi
  fi
  rm -f "$1"
}
of_jobs() { # what runs for a job on one of these nodes, and the slurmstepd's above it
  local d p
  for d in $(grep -lzs -e "^SLURMD_NODENAME=$N[0-9]*\$" -e "^SLURM_CONF=$S/slurm.conf\$" /proc/[0-9]*/environ); do
    p=${d#/proc/}; p=${p%/environ}
    alive "$p" || continue
    case "$(tr '\0' ' ' < /proc/"$p"/cmdline 2>/dev/null)" in slurmstepd*) echo "$p"; continue;; esac
    grep -qzs "^SLURMD_NODENAME=$N[0-9]*\$" /proc/"$p"/environ && echo "$p"
  done
}

# First the controller, which would send jobs again; the nodes' daemons last, they reap the slurmstepd's.
end "$S/run/slurmctld.pid" slurmctld
if [ -n "$N" ]; then
  for _ in $(seq 50); do
    left=$(of_jobs); [ -n "$left" ] || break
    kill -9 $left 2>/dev/null
    sleep 0.05
  done
fi
for f in "$S"/run/slurmd-*.pid; do end "$f" slurmd; done
end "$S/munge/munged.pid" munged
# The nodes' cgroups, empty by now.
if [ "$(id -u)" = 0 ]; then
  for i in $(seq "$NODES"); do
    for d in /sys/fs/cgroup/*/slurm_"$N$i"; do
      [ -d "$d" ] && find "$d" -depth -type d -exec rmdir {} + 2>/dev/null
    done
  done
fi
[ "${2:-}" = --purge ] && rm -rf "$S"
exit 0
