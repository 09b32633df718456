"""The last lines of Python's tracebacks, and of its command line."""

from __future__ import annotations

from mnrun.diagnosis.entry import Entry

_MODULE = "install it there, or name its directory with -x PYTHONPATH=DIR"
_CHDIR = "start in its directory with --chdir"

ENTRIES = (
    Entry(
        name="python-module",
        pattern=r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'",
        cause="Python in the container has no module {module}",
        remedy="install it in the image, or name its directory with -x PYTHONPATH=DIR",
        anchor="python-modules",
        bare=("Python on the node has no module {module}", _MODULE),
    ),
    Entry(
        name="python-run-module",
        pattern=r"^\S*python\S*: (?:Error while finding .*NotFoundError: )?No module named '?(?P<module>[^')]+)",
        cause="Python in the container has no module {module}",
        remedy="install it in the image, or name its directory with -x PYTHONPATH=DIR",
        anchor="python-modules",
        bare=("Python on the node has no module {module}", _MODULE),
    ),
    Entry(
        name="python-rank",
        pattern=r"^KeyError: '(?P<name>(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT))'$",
        cause="the program needs {name}, which is not set: the ranks of your own mpirun have no such variable",
        remedy="let mnrun start each rank: mnrun -- python3 train.py",
        anchor="pytorchs-rendezvous",
    ),
    Entry(
        name="python-empty",
        pattern=r"^\S+: error: argument (?P<option>-[\w/-]+): invalid \w+ value: ''$",
        cause="the value of {option} is empty: the variable that it was taken from is not set",
        remedy="each rank has NODE_RANK, MASTER_ADDR and MASTER_PORT, and SLURM_NODEID in a Slurm job",
        anchor="arguments-without-a-value",
    ),
    Entry(
        name="python-script",
        pattern=r"^\S*python\S*: can't open file '(?P<path>[^']+)': \[Errno 2\] No such file or directory",
        cause="the container has no {path}",
        remedy="start in its directory with --chdir, or mount it with --bind",
        anchor="files-that-are-not-in-the-container",
        bare=("the node has no {path}", _CHDIR),
    ),
    Entry(
        name="python-file",
        pattern=r"^FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^']+)'",
        cause="the program found no {path}",
        remedy="start in its directory with --chdir, or mount it with --bind",
        anchor="files-that-are-not-in-the-container",
        bare=("the program found no {path}", _CHDIR),
    ),
    Entry(
        name="python-memory",
        pattern=r"^MemoryError(?::|$)",
        cause="Python got no more memory",
        remedy="ask for more with --mem, or raise ulimit -v",
        anchor="memory-of-a-process",
    ),
    Entry(
        name="python-address",
        pattern=r"^OSError: \[Errno 98\] (?:Address already in use|error while attempting to bind)",
        cause="a port that the program wants is taken by another process",
        remedy="choose another port",
        anchor="address-already-in-use",
    ),
    Entry(
        name="python-refused",
        pattern=r"^ConnectionRefusedError: \[Errno 111\] Connection refused",
        cause="nothing listens where the program connects to",
        remedy="look whether the other side ended before, and at host and port",
        anchor="connections",
        consequence=True,
    ),
    Entry(
        name="python-name",
        pattern=r"^socket\.gaierror: \[Errno -[23]\] (?:Name or service|Temporary failure)",
        cause="the name of a host is not known on the node",
        remedy="use a name of the nodes, or an address",
        anchor="names-of-hosts",
        consequence=True,
    ),
    Entry(
        name="python-unreachable",
        pattern=r"^OSError: \[Errno (?:101|113)\] (?:Network is unreachable|No route to host)",
        cause="no network leads to the address that the program connects to",
        remedy="use an address that all nodes reach: mnrun -v names them",
        anchor="connections",
        consequence=True,
    ),
    Entry(
        name="python-open-files",
        pattern=r"^OSError: \[Errno 24\] Too many open files",
        cause="the limit for open files is reached",
        remedy="raise it with --ulimit nofile=N for a batch job, or close files",
        anchor="limits",
    ),
    Entry(
        name="python-threads",
        pattern=r"^RuntimeError: can't start new thread",
        cause="the limit for processes and threads is reached",
        remedy="start fewer threads, for example with -x OMP_NUM_THREADS=N",
        anchor="limits",
    ),
    Entry(
        name="python-file-size",
        pattern=r"^OSError: \[Errno 27\] File too large",
        cause="the limit for the size of a file is reached",
        remedy="raise it with --ulimit fsize=unlimited for a batch job",
        anchor="limits",
    ),
    Entry(
        name="python-space",
        pattern=r"^OSError: \[Errno 28\] No space left on device",
        cause="a file system is full",
        remedy="df shows which, and -x TMPDIR=DIR moves temporary files",
        anchor="no-space-left-on-device",
    ),
    Entry(
        name="python-quota",
        pattern=r"^OSError: \[Errno 122\] Disk quota exceeded",
        cause="your quota on a file system is used up",
        remedy="remove files, or write to another file system",
        anchor="disk-quota-exceeded",
    ),
    Entry(
        name="python-stale",
        pattern=r"^OSError: \[Errno 116\] Stale file handle(?:: '(?P<path>[^']*)')?",
        cause="a file was removed or replaced on its server while the program used it",
        remedy="start again, and do not replace files of a job that runs",
        anchor="stale-file-handle",
    ),
    Entry(
        name="python-read-only",
        pattern=r"^OSError: \[Errno 30\] Read-only file system(?:: '(?P<path>[^']*)')?",
        cause="the program writes where the image or a mount is read-only: {path}",
        remedy="write to the current directory, or mount a directory there with --bind, without :ro",
        anchor="read-only-file-system",
        bare=("the program writes to a file system that is read-only: {path}", "write to another directory"),
    ),
    Entry(
        name="python-input-output",
        pattern=r"^OSError: \[Errno 5\] Input/output error",
        cause="a file system or a disk reports an error",
        remedy="tell your administrator the node and the file",
        anchor="inputoutput-error",
    ),
)
