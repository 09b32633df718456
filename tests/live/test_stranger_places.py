"""What bob leaves where everybody may write: names that a process of alice's could look up by its working directory."""

from __future__ import annotations

import pytest

from .cells import MPIRUN, OMPI5
from .stage import LOGIN, Cluster, Desk
from .stranger import BARE, FIRST, LAIR, SECOND, SRUN_HOST, Stranger

pytestmark = pytest.mark.live

NODES = f"{FIRST},{SECOND}"
# An empty element of either means the working directory (bash(1), PATH; ld.so(8), LD_LIBRARY_PATH).
SEARCHED = ("env", "LD_LIBRARY_PATH=/opt/app/lib:", "PATH=:/usr/local/bin:/usr/bin:/bin:")
# Programs of bob's have the names of all that a node has, and of some that it has not. Two libraries are no libraries:
# a program that looks there does not start.
SOWN = f"""
import os
with open("{LAIR}/program", "w") as file:
    file.write('#!/bin/sh\\n/usr/bin/id >{LAIR}/ran/$$; echo "$0 $*" >>{LAIR}/ran/$$\\n')
os.chmod("{LAIR}/program", 0o755)
names = {{name for place in ("/usr/bin", "/usr/sbin", "/usr/local/bin") for name in os.listdir(place)}}
for place in ("/tmp", "/var/tmp", "/dev/shm"):
    for name in names | {{"nvidia-smi", "rocm-smi", "ibstat", "singularity"}}:
        os.symlink("{LAIR}/program", f"{{place}}/{{name}}")
    for name in ("libtinfo.so.6", "libc.so.6"):
        open(f"{{place}}/{{name}}", "w").write("none")
"""


def test_stranger_is_in_no_working_directory(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """(S1) Each way to a node, with a PATH and an LD_LIBRARY_PATH as `export PATH=$PATH:$UNSET` makes them."""
    desk.put("job.sh", "#!/bin/sh\ntrue\n", 0o755)
    held = (*SEARCHED, "salloc", "-Q", "-N2", "-w", NODES, "--ntasks-per-node=1")
    hosts = (*SEARCHED, "mnrun", "-Q", "--hosts", NODES)
    lines = (
        (*held, "mnrun", "-Q", *BARE.words, "--", "true"),
        (*held, "mnrun", "-Q", *MPIRUN.words, "--", "true"),
        (*held, "mnrun", "plan", *SRUN_HOST, "--", "true"),
        (*held, "mnrun", "check"),
        (*held, "srun", "srun_singularity.sh", f"--container={OMPI5}", "--script=./job.sh"),
        (*hosts, "--rsh", "pdsh", *BARE.words, "--", "true"),
        (*hosts, "--rsh", "paramiko", *BARE.words, "--", "true"),
        (*SEARCHED, "mnrun", "submit", "--wait", "-N2", "-w", NODES, *BARE.words, "--", "true"),
    )
    for node in (LOGIN, FIRST, SECOND):
        assert cluster.alice(["/usr/bin/python3", "-c", SOWN], node=node, user="bob").code == 0
    for line in lines:
        result = cluster.alice(line, cwd=desk.path)
        assert bob.ran() == [], result
        assert (result.code, "shared libraries" in result.err) == (0, False), result
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")
