#!/bin/bash
# A league on the nodes of one SLURM job: sbatch configs/cluster/slurm.sh configs/connect_four.yaml runs/mine
#
# The first node has the head of Ray, the driver and the run folder; every node has runners. Nodes need the
# same Python environment (activate it below). The run folder may be on a disk of the first node alone.
# Five minutes before the time is over the league is stopped cleanly and the job is queued again; it then
# goes on where it was, so the run folder or storage.remote must outlive the job.

#SBATCH --job-name=league
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
# For learners on GPUs, in this job and in the config:  #SBATCH --gpus-per-node=4   resources.gpus: 16

set -euo pipefail
config=$1
run=$2
# source /path/to/venv/bin/activate

head=$(hostname)
address=$head:$((20000 + SLURM_JOB_ID % 10000))
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN

room=(--num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" --disable-usage-stats --block)
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port="${address##*:}" --include-dashboard=false "${room[@]}" &
for _ in $(seq 60); do
    if ray status --address="$address" >/dev/null 2>&1; then break; fi
    sleep 2
done
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    others=$((SLURM_JOB_NUM_NODES - 1))
    srun --overlap --nodes="$others" --ntasks="$others" --exclude="$head" \
        ray start --address="$address" "${room[@]}" &
fi

again=()
if [ -e "$run/FORMAT" ]; then again=(--resume); fi
league train "$config" --run "$run" "${again[@]}" \
    --set resources.address="$address" \
    --set resources.wait_seconds=120 \
    --set runners=$(((SLURM_CPUS_PER_TASK - 2) * SLURM_JOB_NUM_NODES)) &
driver=$!
stopped=
trap 'stopped=1; kill -INT $driver' USR1
code=0
wait $driver || code=$?
if [ -n "$stopped" ]; then
    wait $driver || true # the first wait ended with the signal
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
