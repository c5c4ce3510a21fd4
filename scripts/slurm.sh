#!/bin/sh
# A Slurm cluster of one node on the loopback interface, for tests/cluster (root, Debian or Ubuntu):
#   scripts/slurm.sh install            the packages of Slurm, Munge, Open MPI and PMIx
#   scripts/slurm.sh start FOLDER       start the daemons; their files are in FOLDER. Then: export SLURM_CONF=FOLDER/slurm.conf
#   scripts/slurm.sh stop FOLDER        end all jobs and the daemons
set -eu

ports() { # two free ports
    python3 -c 'import socket; a = [socket.create_server(("", 0)) for _ in "ab"]; print(*[s.getsockname()[1] for s in a])'
}

configure() {
    host=$(hostname -s)
    # shellcheck disable=SC2046
    set -- $(ports)
    cat >"$folder/slurm.conf" <<CONF
ClusterName=lithowave
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmdPort=$2
SlurmUser=root
SlurmdUser=root
# A requeued job starts again when its credential has expired, by default after two minutes.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
CredType=cred/munge
# MPICH names shared memory by the number of the job, and a killed run of an earlier cluster may have left it.
FirstJobId=$(($(date +%s) % 60000000 + 1000))
MpiDefault=none
# Minutes: the shortest time limit, one minute, is for the runs of the tests, not for their start on a busy machine.
OverTimeLimit=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=tests Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
}

start() {
    mkdir -p "$folder/state" "$folder/spool"
    chmod 755 "$folder"
    configure
    dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 2>/dev/null
    chmod 600 "$folder/munge.key"
    # --force: the folder of a test may be below one that all users may write.
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" 2>"$folder/munged.err"
    export SLURM_CONF="$folder/slurm.conf"
    slurmctld -c && slurmd -c
    for _ in $(seq 100); do
        if sinfo --noheader --states=idle --format=%D 2>/dev/null | grep -q 1; then return 0; fi
        sleep 0.2
    done
    tail -n 20 "$folder"/*.log >&2
    return 1
}

stop() {
    export SLURM_CONF="$folder/slurm.conf"
    scancel --user=root 2>/dev/null || true
    # Jobs that are still running when the daemons end would leave their slurmstepd; slurmd kills them after KillWait.
    for _ in $(seq 200); do
        if [ -z "$(squeue --noheader 2>/dev/null)" ]; then break; fi
        sleep 0.2
    done
    for daemon in slurmd slurmctld munged; do
        if [ -f "$folder/$daemon.pid" ]; then kill "$(cat "$folder/$daemon.pid")" || true; fi
    done
}

case "${1-} $#" in
"install 1")
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get install --yes --no-install-recommends slurm-wlm munge openmpi-bin libpmix-dev
    ;;
"start 2" | "stop 2")
    mkdir -p "$2"
    folder=$(cd "$2" && pwd -P)
    "$1"
    ;;
*)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
