"""Batch scripts of other tools run on a cluster that has these tools no more, once `mnrun migrate` has written them."""

from __future__ import annotations

import pytest

from .batch import end
from .cells import OMPI5, full
from .stage import Cluster, Desk

HEAD = "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2\n"
PYXIS = f"""\
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
MOUNTS="$PWD/data:/data:ro,$PWD:/w"
srun --mpi=pmix --container-image={OMPI5} --container-mounts="$MOUNTS" --container-workdir=/w \\
  bash -c 'export RANK=$SLURM_PROCID; cat /data/set; echo "rank $RANK of $WORLD_SIZE in $PWD"' > out
"""
MPIRUN = f"""\
module load openmpi 2>/dev/null
IMG={OMPI5}
OPTIONS="--nv -B $PWD/data:/data"
WORD=two
for run in 1 2; do
  mpirun -np $((SLURM_NTASKS)) -hostfile none apptainer exec $OPTIONS $IMG \\
    sh -c 'cat /data/set; echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE $*"' sh "$WORD words" $run \\
    2>&1 | cat >> out
done
apptainer exec $IMG sh -c 'echo "one at the end: ${{RANK-0}}"' >> out
"""
NESTED = f"""\
srun bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
  apptainer exec -B "$PWD/data:/data" {OMPI5} sh -c "cat /data/set; env | grep ^LOCAL_RANK="' > out
"""


def sets(*lines: str) -> list[str]:
    """Return what four ranks print, each with the content of the mounted file before."""
    return sorted(["set"] * 4 + list(lines))


EXPECTED = {
    "pyxis": (PYXIS, sets(*(f"rank {rank} of 4 in /w" for rank in range(4)))),
    "mpirun": (
        MPIRUN,
        sorted([*("one at the end: 0",), *(f"rank {rank} of 4 two words {run}" for rank in range(4) for run in (1, 2))]
               + ["set"] * 8),
    ),
    "nested": (NESTED, sets(*["LOCAL_RANK=0", "LOCAL_RANK=1"] * 2)),
}  # fmt: skip


SLOW = pytest.mark.skipif(not full(), reason="the other two have its parts")


@pytest.mark.parametrize("name", ["pyxis", "mpirun", pytest.param("nested", marks=SLOW)])
def test_a_migrated_script_does_what_it_did(cluster: Cluster, desk: Desk, name: str) -> None:
    text, expected = EXPECTED[name]
    desk.put("old.sh", HEAD + text)
    cluster.alice(["sh", "-c", "mkdir data && echo set >data/set"], cwd=desk.path)
    made = cluster.alice(["mnrun", "migrate", "old.sh", "-o", "new.sh"], cwd=desk.path)
    assert made.code == 0, made
    job = cluster.alice(["sbatch", "--parsable", "new.sh"], cwd=desk.path)
    result = end(cluster, desk, job.out.strip())
    said = sorted(line for line in desk.read("out").decode().splitlines() if not line.startswith("mnrun: "))
    assert (result.code, said) == (0, expected), (result, desk.read("new.sh").decode())
