"""Pack the kit that every node gets at the start of a job: our wrappers, the job's values, its keys.

The kit travels down the lease, so none of it ever lies on a shared filesystem. The node unpacks it into the job's own
directory (0700), whether or not nodes share a home.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from mnrun import environment, nodeset
from mnrun.files import BASH, lean, wrapper
from mnrun.files import spoken as spoken
from mnrun.jobspec import Variable
from mnrun.model import Command, JobHere, Phase, Plan, Words
from mnrun.mpi import MPIS, WITHOUT_MPI, Mpirun, openmpi, rank_settings
from mnrun.mpi import environment as mpi_environment
from mnrun.mpi import starter as mpi_starter
from mnrun.nodes.sides import boxed, by_mpirun, node_wrappers

ALONE = JobHere()  # of a launch without a scheduler
BEAT = 5  # seconds between two heartbeats of a node without a scheduler
# A lease ends if it is silent for so many seconds. Slurm passes the end of a lease on, except if every process of the
# launch is killed at once, with all sruns. For that case, a process of ours writes a word more often than this
# (system/process.py).
SILENCE = 120
# Bytes that a pipe takes in one write (pipe(7)). The word of that process never comes between them.
PIPE_BUF = 4096
PIECE = 3900  # the most bytes of a file in such a write

# PREPARE's scripts, which run on a node before the job has a directory there.
PULL, STAGE = "pull_image.sh", "stage_image.sh"
MPI_NODE = "mpi_node.sh"
SAMPLE = "sample.sh"  # on the nodes of a job that is watched

# Scripts in one word of a command, for bash's or sh's -c, before any file of ours is on the node.
BOOT, FETCH, AWAIT, INTO = "boot.sh", "fetch.sh", "await.sh", "into.sh"
ALLOCATION = "allocation.sh"
SPOKEN = (BOOT, FETCH, AWAIT, INTO, ALLOCATION, "hold.sh", "modules.sh", "pulse.sh", "words.sh")

# The choices of network/choose.py for the nodes of the job, before the variables that the job sets itself.
FABRIC = """# shellcheck shell=sh source=/dev/null disable=SC2154
[ ! -r "$mnrun_here/fabric.env" ] || . "$mnrun_here/fabric.env"
"""
# The first lines of a script on a node. Those of the scheduler stand between the two.
ON_NODE = (
    """mnrun_node=${MNRUN_NODE-} mnrun_address=${SSH_CONNECTION% *} mnrun_peer='' mnrun_step='' mnrun_job_value=''
mnrun_address=${mnrun_address##* }
""",
    """[ -n "$mnrun_node" ] || read -r mnrun_node </proc/sys/kernel/hostname
""",
)
# A program's output is seen at once, and is not lost where the job is cancelled. An image's own value stays.
UNBUFFERED = 'export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"\n'


def typed(command: Command, client: str = "") -> str:
    """Return a command as a person would type it, with the names of our scripts in the place of their text.

    A person reaches a node by the scheduler's `client`. Without one, it is ssh for one node, and pdsh for several.
    """
    line = shlex.join(_named(word) for word in command.argv)
    if not command.nodes:
        return line
    if client and len(command.nodes) > 1:
        nodes = " ".join(command.nodes)
        return f'for node in {nodes}; do {client} "$node" "env MNRUN_NODE=$node "{shlex.quote(line)} & done'
    if len(command.nodes) == 1:
        return f"{client or 'ssh'} {command.nodes[0]} {_quoted(f'env MNRUN_NODE={command.nodes[0]} {line}')}"
    # pdsh(1): %h is the name of each host, and %% is a %.
    line = f"env MNRUN_NODE=%h {line.replace('%', '%%')}"
    return f"pdsh -R ssh -w {shlex.quote(nodeset.fold(command.nodes))} {_quoted(line)}"


def _named(word: str) -> str:
    """Return a word, or the name of our script in its place, which the scheduler's lines may precede."""
    return next((f"<{name}>" for name in SPOKEN if word.endswith(spoken(name))), word)


def _quoted(line: str) -> str:
    """Return a line as one word, in double quotes where the shell reads nothing in them."""
    return shlex.quote(line) if re.search(r'["$`\\!]', line) else f'"{line}"'


def guard(plan_dir: str, container: Words) -> Words:
    return (*BASH, "-c", spoken(BOOT), plan_dir, *container)


def fetch(script: str, words: Words) -> Words:
    return (*BASH, "-c", spoken(FETCH), script, *words)


def awaiting(plan_dir: str, script: str, *words: str) -> Words:
    """Return the words that run `script` as `node` does, once the guard there lets it."""
    return (*BASH, "-c", spoken(AWAIT), plan_dir, script, *words)


def node(plan_dir: str, script: str, *words: str) -> Words:
    """Return the words that run `script` of the job's directory on a node, after a check that the directory is this
    job's."""
    return (*BASH, "-c", spoken(INTO), plan_dir, script, *words)


def sample(plan_dir: str, seconds: int) -> Words:
    """Return the words that report what the job uses, at these intervals. They need nothing that only a watched job's
    kit has."""
    return (*BASH, "-c", f"{spoken(INTO)}\n{spoken(SAMPLE)}", plan_dir, "job.sh", str(seconds))


def enter(plan_dir: str, rank: str, words: Words) -> Words:
    """Return the words that run `words` in the container of a rank, or of the node's first rank if `rank` is ""."""
    return node(plan_dir, "enter.sh", rank, *words)


def inside(plan_dir: str, script: str, *words: str) -> Words:
    """Return the same for a container, which may have no bash."""
    return ("sh", "-c", spoken(INTO), plan_dir, script, *words)


def on_node(lines: str) -> str:
    """Return the lines by which a script learns its node's name and more, and ends if another task does the work.

    `lines` are those of the scheduler (ON_NODE of its package).
    """
    return f"{ON_NODE[0]}{lines}{ON_NODE[1]}"


def of_scheduler(words: Words, lines: str) -> Words:
    """Return the words of a step on a node, with `lines` of its scheduler in front of boot.sh or fetch.sh."""
    scripts = (spoken(BOOT), spoken(FETCH))
    return tuple(on_node(lines) + word if word in scripts else word for word in words)


def probe(name: str, lines: str = "") -> str:
    """Return a script that asks a node, in one text. `lines` are those of the scheduler that starts it."""
    return on_node(lines) + bundle(name)


def bundle(name: str) -> str:
    """Return a script in one text with what its line `# needs:` names.

    `home.sh` stands in front of it. `engines.sh()` does so as a function, which the script calls once it has set its
    values. `mnrun_into=into.sh` is a variable that holds the script.
    """
    texts: dict[str, str] = {}
    _gather(name, texts)
    return "".join(texts.values())


def _gather(name: str, texts: dict[str, str]) -> None:
    """Add a script to `texts`, after what it needs. Each stands there once."""
    script = wrapper(name)
    for need in _needs(script):
        variable, _, file = need.rpartition("=")
        file, function, _ = file.partition("()")
        if variable:
            texts[need] = environment.assignments({variable: bundle(file)})
        elif function:
            for below in _needs(wrapper(file)):
                _gather(below, texts)
            texts[need] = f"{file.partition('.')[0]}() {{\n{lean(wrapper(file))}}}\n"
        elif need not in texts:
            _gather(need, texts)
    texts[name] = lean(script)


def _needs(script: str) -> list[str]:
    line = re.search(r"^# needs: (.*)$", script, re.MULTILINE)
    return line[1].split() if line else []


def _beats(plan: Plan, pulse: bool) -> dict[str, int | str]:
    """Return the seconds between two heartbeats of a node, and those of silence after which a lease has ended."""
    beat, silence = BEAT if plan.channels else "", SILENCE if plan.channels or pulse else ""
    return {"mnrun_beat": beat, "mnrun_silence": silence}


def prepare_input(
    plan: Plan, environ: Mapping[str, str], pulse: bool = False, copy: tuple[str, int] | None = None
) -> bytes:
    """Return PREPARE's script as it goes down its lease: its size on a line, then its text.

    `copy` has the path and the size of the image file's copy on the nodes, if they get one. A scheduler passes on the
    environment and the end of the lease. For channels, the script sets the registries' variables and the heartbeat's
    times.
    """
    settings = environment.assignments(_beats(plan, pulse))
    if plan.channels:
        settings += environment.exports(environment.of_registries(environ))
    if copy is not None:
        settings += environment.assignments({"mnrun_copy": copy[0], "mnrun_size": copy[1]})
    text = (settings + bundle(PULL if copy is None else STAGE)).encode("utf-8", "surrogateescape")
    return b"%d\n%s" % (len(text), text)


def _idle(plan: Plan) -> Iterator[str]:
    """Yield the wrappers that this plan does not use. Each file costs a node 0.1 ms, and so do 2 kB of text."""
    kinds, words = {kind for kind, _ in plan.needs}, {word for step in plan.steps for word in step.argv}
    if not kinds & {"usable", "named image"}:
        yield from ("engines.sh", "exposed.sh")
    for name in ("engine.sh", "ch-run.sh", "join_container.sh"):
        if f"./{name}" not in words:
            yield name
    if "hold_container.sh" not in words:
        yield "hold_container.sh"
    if plan.spec.resources.gpu_bind != "closest":
        yield from ("gpu_closest.sh", "gpu_numa.sh")
    if not any(plan.layout.gpus):
        yield "gpu_users.sh"
    if plan.connect != "pipe":
        yield "pipe_demux.sh"
    if not plan.spec.program.label:
        yield "label.sh"
    if not plan.spec.program.prompt:
        yield "shell.sh"
    if not plan.spec.service.ready:
        yield from ("attend.sh", "fill.sh")
    if plan.starter != "ray":
        yield "ray.sh"


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


def values(plan: Plan, here: JobHere = ALONE, pulse: bool = False) -> str:
    """Return job.sh, the wrappers' values of this job. wrappers/PROTOCOL.toml says what each means."""
    spec = plan.spec
    own = [f"{here.variable}={here.value}"] if here.variable else []
    # mpirun begins in this directory, which is in the container or on the node.
    begin = spec.program.chdir if spec.start.mode == "inside-out" else dict(plan.needs)["working directory"]
    gpu_bind = spec.resources.gpu_bind
    return "# shellcheck shell=sh disable=SC2016,SC2034\n" + environment.assignments(
        {
            "mnrun_id": plan.job,
            "mnrun_job_variable": here.variable,
            "mnrun_job_value": here.value,
            "mnrun_group": here.group,
            "mnrun_warnings": " ".join(here.warnings),
            "mnrun_jobs": " ".join(dict.fromkeys((*own, *plan.of_schedulers.jobs))),
            "mnrun_marks": "|".join(dict.fromkeys(filter(None, (*plan.of_schedulers.marks, here.variable)))),
            "mnrun_submits": " ".join(plan.of_schedulers.submits),
            "mnrun_nodes": ",".join(plan.layout.nodes),
            "mnrun_cwd": spec.program.cwd,
            "mnrun_chdir": spec.program.chdir,
            "mnrun_begin": begin,
            "mnrun_inside": "1" if spec.start.mode == "inside-out" else "",
            "mnrun_connect": plan.connect,
            "mnrun_joined": "1" if plan.joined else "",
            **_beats(plan, pulse),
            "mnrun_runtime": spec.container.runtime,
            "mnrun_image": _compared(plan),
            "mnrun_home": spec.container.home,
            "mnrun_podman": spec.container.podman_root,
            "mnrun_hardened": "1" if spec.container.hardened else "",
            "mnrun_starter": "scheduler" if plan.by_scheduler else plan.starter,
            "mnrun_mpi": spec.start.mpi if spec.start.mpi in MPIS else "",
            "mnrun_by_mpi": "" if plan.starter in WITHOUT_MPI else "1",
            "mnrun_stdin": plan.stdin,
            "mnrun_overhear": "1" if spec.overhears else "",
            "mnrun_no_gpu": "1" if spec.resources.no_gpu else "",
            "mnrun_gpu_bind": "" if plan.by_scheduler or gpu_bind == "none" else gpu_bind,
            "mnrun_judge": "" if spec.force or spec.start.mode == "inside-out" else _starter(plan),
            "mnrun_ports": spec.start.ports,
            "mnrun_umask": spec.program.umask,
            "mnrun_split": spec.program.split_output,
            "mnrun_label": "1" if spec.program.label else "",
            "mnrun_limited": " ".join(limit.partition("=")[0] for limit in spec.batch.ulimit),
            "mnrun_keep": "1" if spec.keep else "",
            "mnrun_watch": str(spec.watch or ""),
            "mnrun_into": spoken(INTO),
            "mnrun_shell": spec.program.prompt,
            "mnrun_serves": "1" if spec.service.ready else "",
        }
    )


def _compared(plan: Plan) -> str:
    """Return the image file that must be the same on all nodes, or "" if PREPARE has seen to that."""
    pulls = any(step.phase is Phase.PREPARE for step in plan.steps)
    return "" if pulls or plan.spec.force else plan.spec.container.image_file


def _starter(plan: Plan) -> str:
    kind = plan.spec.start.mpi
    return f"{plan.starter} --mpi={kind}" if plan.by_scheduler else mpi_starter(kind)


def files(plan: Plan, extra: Mapping[str, str], here: JobHere = ALONE, pulse: bool = False) -> dict[str, str]:
    """Return name -> text of everything in the kit.

    `extra` has more files of mpirun, by their names. `pulse`: mnrun shows on the lease that it lives.
    """
    inside, rules = plan.mpirun_dir == plan.box_dir, plan.of_schedulers.rules
    texts, idle = node_wrappers(plan.connect, inside), set(_idle(plan))
    job, user = values(plan, here, pulse), FABRIC + UNBUFFERED + environment.exports(user_variables(plan))
    mpirun = {**launch_files(plan), **extra}
    if not inside and plan.connect:  # commands of mpirun's daemons run on the node, with the job's variables
        mpirun["user.env"] = user
    return {
        **{name: text for name, text in texts.items() if name.rpartition("/")[2] not in idle},
        "job.sh": job,
        "rules.sh": rules,
        "needs": "".join(f"{kind}\t{name}\n" for kind, name in plan.needs),
        **boxed({"job.sh": job, "rules.sh": rules, "user.env": user}),
        **(boxed({"server.env": environment.exports(server)}) if (server := _server(plan)) else {}),
        **(boxed({"scheduler.env": plan.of_schedulers.ranks}) if plan.of_schedulers.ranks else {}),
        **(boxed({"words": f"set -- {' '.join(map(environment.quote, plan.words))}\n"}) if plan.words else {}),
        **plan.of_schedulers.files,
        **by_mpirun(plan, mpirun),
        **({SAMPLE: lean(wrapper(SAMPLE))} if plan.spec.watch else {}),
    }


def _server(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables by which a rank in a container finds the host's mpirun."""
    if plan.spec.start.mode == "inside-out" or plan.starter != "mpirun":
        return ()
    return openmpi.server(plan.layout.nodes, dict(word.split("=", 1) for word in plan.of_schedulers.jobs))


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
    """Return the kit as it goes down the lease: the size of a list on a line, the list with a line `NAME SIZE` for each
    file, and the texts."""
    texts = {name.encode(): text.encode("utf-8", "surrogateescape") for name, text in contents.items()}
    names = b"".join(b"%s %d\n" % (name, len(text)) for name, text in texts.items())
    return b"%d\n%s" % (len(names), names) + b"".join(texts.values())


def launch_files(plan: Plan) -> dict[str, str]:
    """Return name -> text of the files by which mpirun finds the nodes, the head first, and of its environment
    inside-out. Hydra has a format of its own."""
    if not plan.connect:
        return {}
    files = {"hostfile": "{} slots={}\n", "hostfile.hydra": "{}:{}\n"}
    if plan.spec.start.mode == "inside-out":
        files["layout"] = "{} {}\n"
    pairs = list(zip(plan.layout.nodes, (plan.starter == "ray" and plan.layout.cpus) or plan.layout.ranks))
    texts = {name: "".join(line.format(*pair) for pair in pairs) for name, line in files.items()}
    return {**texts, **({"launch.env": inside_environment(plan)} if "layout" in files else {})}


def outside_environment(plan: Plan, scheduler: tuple[Variable, ...]) -> str:
    """Return launch.env of outside-in: the variables that the host's mpirun must see, the scheduler's first."""
    variables = [Variable("TMPDIR", f"{plan.box_dir}/tmp")]  # where ranks find mpirun
    if plan.connect:  # no scheduler starts mpirun's daemons
        variables += mpi_environment(_mpirun(plan))
    else:
        variables += (Variable(*pair) for pair in openmpi.ranks(_mpirun(plan)).items())
    return FABRIC + environment.exports((*scheduler, *variables))


def _mpirun(plan: Plan) -> Mpirun:
    short = {name.partition(".")[0] for name in plan.layout.nodes}
    return Mpirun(
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
    hidden = plan.of_schedulers.hidden
    back = ";".join(f"{v.name}={v.value}" for v in hidden if v.value is not None and ";" not in v.value)
    given_back = (Variable("OMPI_MCA_mca_base_env_list", back),) if back else ()
    script = () if spec.program.direct else plan.of_schedulers.script
    exports = environment.exports((*mpi_environment(_mpirun(plan)), *given_back, *legacy, *script))
    path = f"PATH={environment.quote(plan.box_dir + '/bin')}:$PATH\nexport PATH\n"
    return f'# shellcheck shell=sh source=user.env disable=SC2154\n{path}{exports}. "$mnrun_here/user.env"\n'
