#!/bin/bash
# start_slurm.sh STATE_DIR [--no-wait]
#
# Brings up a real SLURM on this machine (munged, slurmctld, one slurmd per virtual node) from the packages
# slurmctld, slurmd, slurm-client and munge: no systemd, loopback only, every file under STATE_DIR. What runs is
# left alone, what has died is started again. Prints a line once every node is idle or at work; --no-wait
# returns as soon as the daemons run. Then: export SLURM_CONF=STATE_DIR/slurm.conf
#
# Of root's cluster anybody may submit to; anybody else's runs his own jobs alone. STATE_DIR is short (unix sockets:
# 107 characters), and every folder above it can be passed by everybody.
#
# Read from the environment when STATE_DIR is new, and kept in it:
#   SLURM_TEST_NODES      number of virtual nodes              (2)
#   SLURM_TEST_PREFIX     how their names begin                (n: n1, n2, ...)
#                         two clusters at a time need two: cgroups go by the name of the node
#   SLURM_TEST_CPUS       CPUs that each of them claims        (2)
#   SLURM_TEST_MEM        MB that each of them claims          (2000)
#   SLURM_TEST_GPUS       pretended GPUs of each of them, 0-4  (2)
#   SLURM_TEST_PORT       first of nodes+1 TCP ports           (26817)
#   SLURM_TEST_PROCTRACK  cgroup, pgid or linuxproc            (cgroup where root may write a cgroup v1 freezer
#                         hierarchy, else pgid). They differ in what a cancel does to a script's children
#   SLURM_TEST_TASK       none, or cgroup: memory is limited   (cgroup where PROCTRACK is and the cgroup v1 memory
#                         hierarchy can be written, else none)
#   SLURM_TEST_CONF       lines for slurm.conf, each in place of those with its key, such as $'MinJobAge=2\nKillWait=30'
set -eu
[ $# -ge 1 ] || { echo "usage: $0 STATE_DIR [--no-wait]" >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
umask 022
for v in ${!SBATCH_*} ${!SQUEUE_*} SLURM_CLUSTERS; do unset "$v"; done
mkdir -p "$1"; S=$(cd "$1" && pwd -P); cd /
SOCK=$S/munge/munge.socket
for c in munged mungekey slurmctld slurmd sinfo; do
  command -v $c >/dev/null || { echo "start_slurm: no $c; apt-get install slurmctld slurmd slurm-client munge" >&2; exit 3; }
done
[ ${#SOCK} -le 100 ] || { echo "start_slurm: too long for a unix socket: $SOCK" >&2; exit 3; }

alive() { # alive PIDFILE NAME: does the process in PIDFILE run (not as a zombie), and is it NAME?
  local p; p=$(cat "$1" 2>/dev/null) || return 1
  [ -n "$p" ] || return 1
  case "$(cat /proc/"$p"/stat 2>/dev/null)" in *") Z "*) return 1;; "$p ($2"*) return 0;; esac
  return 1
}
writable_v1() { # may we make groups in this cgroup v1 hierarchy?
  [ "$(id -u)" = 0 ] && mkdir "/sys/fs/cgroup/$1/slurm_probe$$" 2>/dev/null && rmdir "/sys/fs/cgroup/$1/slurm_probe$$"
}
use_cgroup_plugin() { # use_cgroup_plugin NAME, or none
  local line=; [ "$1" = none ] || line=CgroupPlugin=$1
  printf '%s\n' "$line" ConstrainRAMSpace=yes ConstrainSwapSpace=yes > "$S/cgroup.conf"
}

mkdir -p "$S"/munge "$S"/ctld "$S"/spool "$S"/log "$S"/run
chmod 755 "$S" "$S"/munge "$S"/spool "$S"/run
chmod 700 "$S"/ctld

# ---- configuration: written once, delete STATE_DIR to change it
if [ ! -e "$S/slurm.conf" ]; then
  NODES=${SLURM_TEST_NODES:-2} N=${SLURM_TEST_PREFIX:-n} CPUS=${SLURM_TEST_CPUS:-2}
  MEM=${SLURM_TEST_MEM:-2000} GPUS=${SLURM_TEST_GPUS:-2} PORT=${SLURM_TEST_PORT:-26817}
  HOST=$(hostname -s) UTS=
  # NoInAddrAny makes the daemons listen on the address of gethostname(): where that
  # is not a loopback one, give them a hostname of their own that is
  ANY=CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
  case "$(getent ahostsv4 "$(hostname)" | awk '{print $1; exit}')" in
    127.*) ;;
    *) if [ "$(id -u)" = 0 ] && unshare --uts hostname localhost 2>/dev/null; then UTS=1 HOST=localhost
       else ANY='#'; echo "start_slurm: the hostname is no loopback name and cannot be changed: listening on all addresses" >&2; fi;;
  esac
  PROCTRACK=${SLURM_TEST_PROCTRACK:-} TASK=${SLURM_TEST_TASK:-}
  [ -n "$PROCTRACK" ] || { writable_v1 freezer && PROCTRACK=cgroup || PROCTRACK=pgid; }
  [ -n "$TASK" ] || { TASK=none; [ $PROCTRACK != cgroup ] || ! writable_v1 memory || TASK=cgroup; }
  gres= greslines=
  if [ "$GPUS" -gt 0 ]; then
    # a character device for each: without File= the count is taken as 0 (node INVAL),
    # plain files leave CUDA_VISIBLE_DEVICES empty, one device twice is fatal
    devs=(/dev/null /dev/zero /dev/full /dev/urandom)
    gres="Gres=gpu:$GPUS"; greslines="NodeName=$N[1-$NODES] Name=gpu File=$(IFS=,; echo "${devs[*]:0:$GPUS}")"
  fi
  printf '%s\n' "$greslines" > "$S/gres.conf"
  # slurmd sets up a cgroup plugin even where nothing uses it, and its own choice (autodetect) ends it where there is
  # no cgroup mount, or a hybrid or read-only one. Which others it knows depends on its version.
  case "$PROCTRACK$TASK$(slurmd -V | sed 's/^[^0-9]*//')" in
    *cgroup*) PLUGS=autodetect;;
    *[a-z]2[0-3].*) PLUGS='cgroup/v1 none';;
    *) PLUGS='disabled cgroup/v1';;
  esac
  use_cgroup_plugin "${PLUGS%% *}"
  cat > "$S/settings" <<CONF
NODES=$NODES N=$N UTS=$UTS PLUGS='$PLUGS'
CONF
  cat > "$S/slurm.conf.new" <<CONF
ClusterName=potato
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$PORT
$ANY
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$SOCK
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$S/ctld
SlurmdSpoolDir=$S/spool/%n
SlurmctldPidFile=$S/run/slurmctld.pid
SlurmdPidFile=$S/run/slurmd-%n.pid
SlurmctldLogFile=$S/log/slurmctld.log
SlurmdLogFile=$S/log/slurmd-%n.log
ProctrackType=proctrack/$PROCTRACK
TaskPlugin=task/$TASK
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$S/log/jobcomp.txt
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
PropagateResourceLimits=NONE
# quick reactions (SLURM's own: KillWait 30, SlurmdTimeout 300)
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1
KillWait=3
SlurmdTimeout=10
MinJobAge=300
MessageTimeout=10
ReturnToService=2
# a node may claim more than this machine has
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName=$N[1-$NODES] NodeHostname=$HOST NodeAddr=127.0.0.1 Port=[$((PORT+1))-$((PORT+NODES))] Sockets=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=$MEM $gres State=UNKNOWN
PartitionName=debug      Nodes=ALL PriorityTier=5  PreemptMode=OFF     MaxTime=INFINITE Default=YES
PartitionName=short      Nodes=ALL PriorityTier=5  PreemptMode=OFF     MaxTime=2 DefaultTime=1
PartitionName=high       Nodes=ALL PriorityTier=10 PreemptMode=OFF     MaxTime=INFINITE
PartitionName=lowcancel  Nodes=ALL PriorityTier=1  PreemptMode=CANCEL  MaxTime=INFINITE
PartitionName=lowrequeue Nodes=ALL PriorityTier=1  PreemptMode=REQUEUE MaxTime=INFINITE
CONF
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    case $line in NodeName=*|PartitionName=*) ;; *) sed -i "/^${line%%=*}=/Id" "$S/slurm.conf.new";; esac
    printf '%s\n' "$line" >> "$S/slurm.conf.new"
  done <<< "${SLURM_TEST_CONF:-}"
  mv "$S/slurm.conf.new" "$S/slurm.conf"
fi
. "$S/settings"
export SLURM_CONF=$S/slurm.conf
own=(); [ -z "$UTS" ] || own=(unshare --uts sh -c 'hostname localhost && exec "$@"' -)

# ---- munge, then the controller, then the nodes; each returns when it is a daemon
started() { # started NAME COMMAND...
  "${@:2}" && return 0
  echo "start_slurm: $1 did not start" >&2; tail -n 8 "$S"/log/*.log "$S"/munge/munged.log >&2 2>/dev/null || :; exit 1
}
[ -e "$S/munge/munge.key" ] || mungekey --create --keyfile="$S/munge/munge.key"
if ! alive "$S/munge/munged.pid" munged; then
  rm -f "$SOCK" "$SOCK.lock"
  started munged munged --socket="$SOCK" --key-file="$S/munge/munge.key" --pid-file="$S/munge/munged.pid" \
    --log-file="$S/munge/munged.log" --seed-file="$S/munge/munged.seed"
fi
alive "$S/run/slurmctld.pid" slurmctld || started slurmctld "${own[@]}" slurmctld
start_node() {
  mkdir -p "$S/spool/$1"
  alive "$S/run/slurmd-$1.pid" slurmd || "${own[@]}" slurmd -N "$1"
}
start_first_node() { # with the first cgroup plugin with which it starts
  for plug in $PLUGS; do use_cgroup_plugin "$plug"; start_node "${N}1" && return; done
  return 1
}
[ -e "$S/spool/${N}1" ] || started "slurmd ${N}1" start_first_node
for i in $(seq "$NODES"); do started "slurmd $N$i" start_node "$N$i"; done

[ "${2:-}" != --no-wait ] || exit 0
# ---- ready when no node is unknown, down, drained or without answer
for _ in $(seq 150); do
  states=$(sinfo -h -N -o '%T' 2>/dev/null | sort -u | tr '\n' ' ') || states=
  case " $states" in
    ' '|*unk*|*down*|*inval*|*drain*|*'*'*) sleep 0.1;;
    *) echo "slurm ready: SLURM_CONF=$SLURM_CONF nodes=$NODES states=${states% }"; exit 0;;
  esac
done
echo "start_slurm: not ready after 15 s: $states" >&2
sinfo -N -o '%N %T %E' >&2 || :
tail -n 15 "$S"/log/*.log >&2 || :
exit 1
