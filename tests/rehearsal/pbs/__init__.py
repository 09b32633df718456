"""A stand-in of OpenPBS 23.06 for the rehearsal cluster: what qsub and others of it say and do, as recorded there.

The cluster's side is here; the rest runs in the nodes, from /opt/pbs/lib.
"""

from __future__ import annotations

import json
from pathlib import Path

LIB = "/opt/pbs/lib"
PROGRAMS = (
    "qsub", "qstat", "qdel", "qsig", "qhold", "qrls", "qalter", "qrerun", "qselect", "qmgr", "pbsnodes", "pbsdsh",
    "pbs_tmrsh", "pbs_attach",
)  # fmt: skip
PORTS = ("15001", "15003")  # of the server, and of a MOM
TAKES_JOBS = "free"
# A login shell has its programs in the PATH, and ssh's commands have not.
PROFILE = 'PATH="$PATH:/opt/pbs/bin" MANPATH="$MANPATH:/opt/pbs/share/man"\nexport PATH MANPATH\n'
RUN = f"""\
#!/usr/bin/python3 -IS
import os, sys
sys.path.insert(0, {LIB!r})
from pbs.__main__ import main
sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
"""
# What a site that has PBS has not beside it.
SLURMS = (
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "scrontab", "scrun", "sdiag",
    "sinfo", "sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger",
)  # fmt: skip


def files(nodes: list[str], cpus: int, gpus: int, memory_mb: int) -> dict[str, str]:
    """Path in the node -> its text; what begins with #! is a program."""
    here = Path(__file__).parent
    return {
        "/etc/pbs.conf": "PBS_SERVER=login\nPBS_EXEC=/opt/pbs\nPBS_HOME=/var/spool/pbs\n",
        "/etc/profile.d/pbs.sh": PROFILE,
        "/etc/rehearsal/pbs": f"{' '.join(nodes)}\n{cpus}\n{gpus}\n{memory_mb * 1024}\n",
        **{f"{LIB}/pbs/{file.name}": file.read_text() for file in here.glob("*.py")},
        **{f"/opt/pbs/bin/{name}": RUN for name in PROGRAMS},
        **{f"/opt/pbs/sbin/pbs_{name}": RUN.replace("os.path.basename(sys.argv[0])", repr(name))
           for name in ("server", "mom")},
    }  # fmt: skip


def states(text: str) -> dict[str, str]:
    """Host -> its state, of what `pbsnodes -a -F json` says; {} where it says nothing."""
    try:
        return {name: node["state"] for name, node in json.loads(text)["nodes"].items()}
    except (ValueError, KeyError):
        return {}
