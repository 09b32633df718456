"""Pack the kit that every node gets at the start of a job: our wrappers, the job's values, its keys.

The kit travels down the lease, so none of it ever lies on a shared filesystem. The node unpacks it into the job's own
directory (0700), whether or not nodes share a home.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from mnrun import environment, nodeset
from mnrun.files import BASH, wrapper
from mnrun.files import spoken as spoken
from mnrun.jobspec import JobSpec, Variable
from mnrun.model import Command, Layout, Phase, Plan, Words
from mnrun.mpi import MPIS, WITHOUT_MPI, Places, openmpi, rank_settings
from mnrun.mpi import environment as mpi_environment
from mnrun.mpi import starter as mpi_starter
from mnrun.nodes import place
from mnrun.nodes.sides import boxed, by_mpirun, node_wrappers

SURVEY, ASKING, NODE, OFFERS = "survey.sh", "mpi_image.sh", "mpi_node.sh", "offers.sh"
HOME, FACTS, FABRIC_FACTS, HOST_FACTS = "home.sh", "facts.sh", "network_facts.sh", "host_facts.sh"
NETWORKS, CLEAN = "network_ask.sh", "clean.sh"
BEAT = 5  # seconds between two heartbeats of a node without a scheduler
PDSH_BEAT = 2  # the same under pdsh, where the heartbeat shows a node that mnrun is gone
# A lease ends if it is silent for so many seconds. Slurm passes the end of a lease on, except if every process of the
# launch is killed at once, with all sruns. For that case, a process of ours writes a word more often than this
# (system/process.py).
SILENCE = 120
# Bytes that a pipe takes in one write (pipe(7)). The word of that process never comes between them.
PIPE_BUF = 4096
PIECE = 3900  # the most bytes of a file in such a write

# PREPARE's scripts, which run on a node before the job has a directory there.
STAGE, EXPOSED, ENGINES, PROCESSES = "stage_image.sh", "exposed.sh", "engines.sh", "processes.sh"
PULL = "pull_image.sh"
PULLS = (PROCESSES, ENGINES, EXPOSED, "pull_file.sh", "pull_store.sh", PULL)

# Scripts in one word of a command, for bash's or sh's -c, before any file of ours is on the node.
BOOT, FETCH, AWAIT, INTO = "boot.sh", "fetch.sh", "await.sh", "into.sh"
LEASE, AWAIT_LEASE, ALLOCATION = "lease.sh", "await_lease.sh", "allocation.sh"
SPOKEN = (BOOT, FETCH, AWAIT, INTO, LEASE, AWAIT_LEASE, ALLOCATION, "modules.sh", "pulse.sh", "words.sh")

# The choices of network/choose.py for the nodes of the job, before the variables that the job sets itself.
FABRIC = """# shellcheck shell=sh source=/dev/null disable=SC2154
[ ! -r "$mnrun_here/fabric.env" ] || . "$mnrun_here/fabric.env"
"""
# A program's output is seen at once, and is not lost where the job is cancelled. An image's own value stays.
UNBUFFERED = 'export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"\n'


def typed(command: Command) -> str:
    """Return a command as a person would type it, with the names of our scripts in the place of their text.

    A person reaches one node by ssh, and several by pdsh.
    """
    names = {spoken(name): f"<{name}>" for name in SPOKEN}
    line = shlex.join(names.get(word, word) for word in command.argv)
    if not command.nodes:
        return line
    if len(command.nodes) == 1:
        return f"ssh {command.nodes[0]} {_quoted(f'env MNRUN_NODE={command.nodes[0]} {line}')}"
    # pdsh(1): %h is the name of each host, and %% is a %.
    line = f"env MNRUN_NODE=%h {line.replace('%', '%%')}"
    return f"pdsh -R ssh -w {shlex.quote(nodeset.fold(command.nodes))} {_quoted(line)}"


def _quoted(line: str) -> str:
    """Return a line as one word, in double quotes where the shell reads nothing in them."""
    return shlex.quote(line) if re.search(r'["$`\\!]', line) else f'"{line}"'


def guard(plan_dir: str, container: Words) -> Words:
    return (*BASH, "-c", spoken(BOOT), plan_dir, *container)


def fetch(script: str, words: Words) -> Words:
    return (*BASH, "-c", spoken(FETCH), script, *words)


def head(plan_dir: str, words: Words) -> Words:
    return (*BASH, "-c", spoken(AWAIT), plan_dir, *words)


def node(plan_dir: str, script: str, *words: str) -> Words:
    """Return the words that run `script` of the job's directory on a node, after a check that the directory is this
    job's."""
    return (*BASH, "-c", spoken(INTO), plan_dir, script, *words)


def enter(plan_dir: str, rank: str, words: Words) -> Words:
    """Return the words that run `words` in the container of a rank, or of the node's first rank if `rank` is ""."""
    return node(plan_dir, "enter.sh", rank, *words)


def inside(plan_dir: str, script: str, *words: str) -> Words:
    """Return the same for a container, which may have no bash."""
    return ("sh", "-c", spoken(INTO), plan_dir, script, *words)


def survey() -> str:
    """Return the script that `mnrun check` runs on a node. A job's questions about engines and networks are
    functions in it."""
    home, facts, fabric, offers, survey = map(wrapper, (HOME, FACTS, FABRIC_FACTS, OFFERS, SURVEY))
    return f"{home}{facts}{_engines()}fabric() (\n{fabric})\n{offers}{survey}"


def asking_of_host() -> str:
    """Return the script by which a host without a scheduler reports its facts."""
    return wrapper(FACTS) + wrapper(HOST_FACTS)


def remains() -> str:
    """Return the script that `mnrun clean --nodes` runs on a node. It removes the remains of killed jobs, and names
    them."""
    assignments = environment.assignments({"mnrun_into": spoken(INTO)})
    return "".join(map(wrapper, ("names.sh", PROCESSES, "leftovers.sh"))) + assignments + wrapper(CLEAN)


def asking() -> str:
    """Return the script by which `mnrun plan` asks nodes about their networks."""
    facts, address, fabric, networks = map(wrapper, (FACTS, "address.sh", FABRIC_FACTS, NETWORKS))
    return f"{facts}{address}\nfabric() (\n{fabric})\n{networks}"


def asking_of_mpi() -> str:
    """Return the script by which a node tells of its MPIs, and of an image's."""
    home, facts, mpis, image, offers, node = map(wrapper, (HOME, FACTS, "mpis.sh", ASKING, OFFERS, NODE))
    return f"{home}{facts}{_engines()}mnrun_asking={environment.quote(mpis + image)}\n{offers}{node}"


def with_engines(script: str) -> str:
    """Return a script of wrappers/images/ that uses a store of Docker or Podman on this machine."""
    return f"{_engines()}{wrapper(script)}"


def _engines() -> str:
    """Return processes.sh, exposed.sh, and engines.sh as a function that a script calls after it has set its values."""
    return f"{wrapper(PROCESSES)}{wrapper(EXPOSED)}engines() {{\n{wrapper(ENGINES)}}}\n"


def verifying() -> str:
    """Return the script by which `mnrun image verify` asks a node for the digest and signature of an image."""
    return wrapper(FACTS) + wrapper(EXPOSED) + wrapper("verify_image.sh")


def puller(settings: str = "") -> str:
    """Return the script that pulls an image on a node. Its own values and `settings` come first."""
    scripts = "".join(map(wrapper, PULLS))
    return f"mnrun_podman=$4 mnrun_id=$5 mnrun_runtime=$6 mnrun_beat= mnrun_silence=\n{settings}{scripts}"


def stager(settings: str = "") -> str:
    """Return the script that has a copy of an image file on a node. `settings` come first."""
    return f"mnrun_silence=\n{settings}{wrapper(EXPOSED)}{wrapper(STAGE)}"


def prepare_input(
    spec: JobSpec, environ: Mapping[str, str], pulse: bool = False, copy: tuple[str, int] | None = None
) -> bytes:
    """Return PREPARE's script as it goes down its lease: its size on a line, then its text.

    `copy` has the path and the size of the image file's copy on the nodes, if they get one. A scheduler passes on the
    environment and the end of the lease. For hosts, the script sets the registries' variables and the heartbeat's
    times.
    """
    settings = ""
    if spec.hosts.names:
        settings = environment.assignments({"mnrun_beat": BEAT, "mnrun_silence": SILENCE})
        settings += environment.exports(environment.of_registries(environ))
    elif pulse:
        settings = environment.assignments({"mnrun_silence": SILENCE})
    if copy is not None:
        settings += environment.assignments({"mnrun_copy": copy[0], "mnrun_size": copy[1]})
    text = (puller if copy is None else stager)(settings).encode("utf-8", "surrogateescape")
    return b"%d\n%s" % (len(text), text)


def _idle(plan: Plan) -> Iterator[str]:
    """Yield the wrappers that this plan does not use. Each file costs a node 0.1 ms, and so do 2 kB of text."""
    kinds, words = {kind for kind, _ in plan.needs}, {word for step in plan.steps for word in step.argv}
    if not kinds & {"usable", "named image"}:
        yield from (ENGINES, EXPOSED)
    for name in ("engine.sh", "ch-run.sh", "join_container.sh"):
        if f"./{name}" not in words:
            yield name
    if "hold_container.sh" not in words:
        yield "hold_container.sh"
    if plan.spec.resources.gpu_bind != "closest":
        yield from ("gpu_closest.sh", "gpu_numa.sh")
    if plan.connect != "pipe":
        yield "pipe_demux.sh"
    if not plan.spec.program.label:
        yield "label.sh"
    if not plan.spec.program.prompt:
        yield "shell.sh"


def later_files(files: Mapping[str, str]) -> list[bytes]:
    """Return the writes that send files to guards after the kit.

    A file is a line `file NAME SIZE` and its text. A long text comes in pieces, all but the last with `file+`.
    """
    writes = [b""]
    for name, text in files.items():
        data = text.encode("utf-8", "surrogateescape")
        for begin in range(0, len(data) or 1, PIECE):
            piece = data[begin : begin + PIECE]
            word = b"file+" if begin + PIECE < len(data) else b"file"
            frame = b"%s %s %d\n%s" % (word, name.encode(), len(piece), piece)
            if len(writes[-1]) + len(frame) > PIPE_BUF:
                writes.append(b"")
            writes[-1] += frame
    return list(filter(None, writes))


def values(plan: Plan, pulse: bool = False) -> str:
    """Return job.sh, the wrappers' values of this job."""
    spec = plan.spec
    # mpirun begins in this directory, which is in the container or on the node.
    begin = spec.program.chdir if spec.start.mode == "inside-out" else dict(plan.needs)["working directory"]
    gpu_bind = spec.resources.gpu_bind
    return "# shellcheck shell=sh disable=SC2016,SC2034\n" + environment.assignments(
        {
            "mnrun_id": plan.job,
            "mnrun_jobs": " ".join(
                f"{v.name}={v.value}" for v in spec.program.env if v.name in environment.JOB_IDS and v.value
            ),
            "mnrun_nodes": ",".join(plan.layout.nodes),
            "mnrun_cwd": spec.program.cwd,
            "mnrun_chdir": spec.program.chdir,
            "mnrun_begin": begin,
            "mnrun_inside": "1" if spec.start.mode == "inside-out" else "",
            "mnrun_connect": plan.connect,
            "mnrun_joined": "1" if plan.joined else "",
            "mnrun_beat": (PDSH_BEAT if spec.hosts.rsh == "pdsh" else BEAT) if spec.hosts.names else "",
            "mnrun_silence": SILENCE if spec.hosts.names or pulse else "",
            "mnrun_runtime": spec.container.runtime,
            "mnrun_image": _compared(plan),
            "mnrun_home": spec.container.home,
            "mnrun_podman": spec.container.podman_root,
            "mnrun_hardened": "1" if spec.container.hardened else "",
            "mnrun_starter": plan.starter,
            "mnrun_mpi": spec.start.mpi if spec.start.mpi in MPIS else "",
            "mnrun_by_mpi": "" if plan.starter in WITHOUT_MPI else "1",
            "mnrun_stdin": plan.stdin,
            "mnrun_overhear": "1" if spec.overhears else "",
            "mnrun_no_gpu": "1" if spec.resources.no_gpu else "",
            "mnrun_gpu_bind": "" if plan.starter == "srun" or gpu_bind == "none" else gpu_bind,
            "mnrun_judge": "" if spec.force or spec.start.mode == "inside-out" else _starter(plan),
            "mnrun_ports": spec.start.ports,
            "mnrun_umask": spec.program.umask,
            "mnrun_split": spec.program.split_output,
            "mnrun_label": "1" if spec.program.label else "",
            "mnrun_limited": " ".join(limit.partition("=")[0] for limit in spec.batch.ulimit),
            "mnrun_keep": "1" if spec.keep else "",
            "mnrun_into": spoken(INTO),
            "mnrun_shell": spec.program.prompt,
        }
    )


def _compared(plan: Plan) -> str:
    """Return the image file that must be the same on all nodes, or "" if PREPARE has seen to that."""
    pulls = any(step.phase is Phase.PREPARE for step in plan.steps)
    return "" if pulls or plan.spec.force else plan.spec.container.image_file


def _starter(plan: Plan) -> str:
    if plan.starter == "srun":
        return f"srun --mpi={plan.spec.start.mpi}"
    return mpi_starter(plan.spec.start.mpi)


def files(plan: Plan, extra: Mapping[str, str], pulse: bool = False) -> dict[str, str]:
    """Return name -> text of everything in the kit.

    `extra` has more files of mpirun, by their names. `pulse`: mnrun shows on the lease that it lives.
    """
    inside, rules = plan.mpirun_dir == plan.box_dir, environment.rules_script()
    texts, idle = node_wrappers(plan.connect, inside), set(_idle(plan))
    job, user = values(plan, pulse), FABRIC + UNBUFFERED + environment.exports(user_variables(plan))
    mpirun = {**launch_files(plan), **extra}
    if not inside and plan.connect:  # commands of mpirun's daemons run on the node, with the job's variables
        mpirun["user.env"] = user
    return {
        **{name: text for name, text in texts.items() if name.rpartition("/")[2] not in idle},
        "job.sh": job,
        "rules.sh": rules,
        "needs": "".join(f"{kind}\t{name}\n" for kind, name in plan.needs),
        **boxed({"job.sh": job, "rules.sh": rules, "user.env": user}),
        **(boxed({"slurm.env": environment.exports(words)}) if (words := place.of_job(plan)) else {}),
        **by_mpirun(plan, mpirun),
    }


def user_variables(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables of the ranks: ours, then the user's. The user's PATH keeps our `ssh` and `mpirun` in
    front."""
    shm = f"{plan.box_dir}/shm" if plan.spec.container.image else shm_dir(plan.node_dir)
    ours = rank_settings(alone=plan.alone, shm=shm)
    front = f"{plan.box_dir}/bin:" if plan.spec.start.mode == "inside-out" else ""
    return (
        *ours,
        *(
            Variable(v.name, f"{front}{v.value}") if v.name == "PATH" and v.value is not None else v
            for v in plan.spec.program.env
        ),
    )


def shm_dir(node_dir: str) -> str:
    """Return the job's directory in the node's shared memory. The guard makes and removes it."""
    return f"/dev/shm/{node_dir.rpartition('/')[2]}"


def pack(contents: Mapping[str, str]) -> bytes:
    """Return the kit as it goes down the lease: the number of its files, and a line `NAME SIZE` before each text."""
    texts = {name.encode(): text.encode("utf-8", "surrogateescape") for name, text in contents.items()}
    return b"%d\n" % len(texts) + b"".join(b"%s %d\n%s" % (name, len(text), text) for name, text in texts.items())


def layout_table(layout: Layout) -> str:
    """Return `NODE RANKS` lines, the head first."""
    return "".join(f"{node} {ranks}\n" for node, ranks in zip(layout.nodes, layout.ranks))


def hostfiles(layout: Layout) -> dict[str, str]:
    """Return the hostfile in Open MPI's format and in Hydra's."""
    pairs = list(zip(layout.nodes, layout.ranks))
    return {
        "hostfile": "".join(f"{node} slots={ranks}\n" for node, ranks in pairs),
        "hostfile.hydra": "".join(f"{node}:{ranks}\n" for node, ranks in pairs),
    }


def launch_files(plan: Plan) -> dict[str, str]:
    """Return name -> text of the files by which mpirun finds the nodes, and of its environment inside-out."""
    if not plan.connect:
        return {}
    inside = plan.spec.start.mode == "inside-out"
    launch = {"launch.env": inside_environment(plan), "layout": layout_table(plan.layout)} if inside else {}
    return {**hostfiles(plan.layout), **launch}


def outside_environment(plan: Plan, scheduler: tuple[Variable, ...]) -> str:
    """Return launch.env of outside-in: the variables that the host's mpirun must see, the scheduler's first."""
    variables = [Variable("TMPDIR", f"{plan.box_dir}/tmp")]  # where ranks find mpirun
    if plan.connect:  # no scheduler starts mpirun's daemons
        variables += mpi_environment(_places(plan))
    else:
        variables += (Variable(*pair) for pair in openmpi.ranks(_places(plan)).items())
    return FABRIC + environment.exports((*scheduler, *variables))


def _places(plan: Plan) -> Places:
    short = {name.partition(".")[0] for name in plan.layout.nodes}
    return Places(
        agent=f"{plan.mpirun_dir}/bin/ssh",
        hostfile=f"{plan.mpirun_dir}/hostfile",
        tmp=f"{plan.box_dir}/tmp",
        bind_to=plan.spec.start.bind_to,
        cores=plan.spec.resources.cpus_per_task or 1,
        oversubscribe=plan.spec.force,
        alike=len(short) < len(plan.layout.nodes),
    )


def inside_environment(plan: Plan) -> str:
    """Return launch.env of inside-out, by which mpirun in the master container finds everything.

    Scripts of the older tools read hostlist, np and ENVLIST.
    """
    spec, layout = plan.spec, plan.layout
    legacy = (
        Variable("hostlist", ",".join(f"{node}:{ranks}" for node, ranks in zip(layout.nodes, layout.ranks))),
        Variable("np", str(layout.ntasks)),
        Variable("ENVLIST", ",".join(spec.program.forwarded)),
    )
    # mpirun does not see the scheduler's variables. By this list, Open MPI hands them to every rank all the same.
    back = ";".join(
        f"{v.name}={v.value}"
        for v in spec.program.env
        if v.name.startswith("SLURM_") and v.value is not None and ";" not in v.value
    )
    given_back = (Variable("OMPI_MCA_mca_base_env_list", back),) if back else ()
    script = () if spec.program.direct else place.of_script(plan)
    exports = environment.exports((*mpi_environment(_places(plan)), *given_back, *legacy, *script))
    path = f"PATH={environment.quote(plan.box_dir + '/bin')}:$PATH\nexport PATH\n"
    return f'# shellcheck shell=sh source=user.env disable=SC2154\n{path}{exports}. "$mnrun_here/user.env"\n'
