"""Turn JobSpec and Layout into a Plan: every step of a launch, before anything is done. Pure.

inside-out = container( mpirun( command ) )
outside-in = mpirun( container( command ) )
"""

from __future__ import annotations

import os.path
from dataclasses import replace

from mnrun import environment, mpi
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import ContainerOptions, Image, JobSpec, Mount, Start
from mnrun.model import Box, Layout, Phase, Plan, Step, Where, Words, box_dir
from mnrun.nodes import kit
from mnrun.nodeset import counted
from mnrun.planning import needs, starters
from mnrun.runtimes import RUNTIMES, SHARING
from mnrun.schedulers.hosts import login_shell

# An image has directories of its own with these names. The node's must not hide them.
OF_IMAGES = ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var")
# starters that speak with their ranks through an open file
OPEN_FILE = {"pmi2": "PMI2", **{name: f"{mpi.MPIS[name].NAME}'s mpiexec" for name in mpi.HYDRA}}


def make(spec: JobSpec, layout: Layout, job: str) -> Plan:
    """Return the plan of one launch. `job` is its id, unique on every node."""
    starters.check_numbers(spec, layout)
    plan = _plan(spec, layout, job)
    lines = [login_shell.line(step.argv) for step in plan.steps if step.argv and spec.hosts.names]
    if any(len(line) > login_shell.LONGEST - 1024 for line in lines):
        letters = sum(map(len, spec.program.command))
        problem = f"the command has {letters} characters, more than a login shell reads in one line"
        raise Impossible(problem, "write it into a script, and run that")
    return plan


def _plan(spec: JobSpec, layout: Layout, job: str) -> Plan:
    program, start = spec.program, spec.start
    if start.require != "any" and not program.direct:
        problem = f"--require {start.require} works only with ranks that mnrun starts, and this command starts its own"
        raise Impossible(problem, "let mnrun start them, or leave it out")
    if start.mode == "inside-out":
        return _inside_out(spec, layout, job)
    if program.once or program.script:
        name = "--script" if program.script else program.command[0]
        raise Impossible(
            f"{name} runs once in the first node's container, which outside-in lacks", "use --mode inside-out"
        )
    return _outside_in(spec, layout, job)


def node_dir(job: str) -> str:
    """Return the job's own directory on each node: a short path (for Unix sockets), local, mode 0700."""
    return f"/tmp/mnrun.{job}"


def _inside_out(spec: JobSpec, layout: Layout, job: str) -> Plan:
    here = node_dir(job)
    inside = box_dir(here)
    box = RUNTIMES[spec.container.runtime].node(_box(spec, here, job))
    direct = spec.program.direct
    joined = _is_joined(spec)
    single = joined and len(layout.nodes) == 1
    serve = () if single else _boxed(spec, here, "inside", "serve", (*box, *kit.inside(inside, "worker.sh")))
    words = _master_words(spec, layout, inside)
    run = _boxed(spec, here, "inside", "tmp", (*box, *kit.inside(inside, "wait_go.sh", *words)))
    others = "every other node" if joined else "every node"
    guard = "a guard on the node" if single else f"a guard on every node, and a container that waits on {others}"
    master = f"the {'' if single else 'master '}container, which waits for go: {_inside(spec, layout)}"
    connect = "pipe" if single else _connect(spec)
    return Plan(
        spec=spec,
        layout=layout,
        job=job,
        node_dir=here,
        starter=_starter(spec) if direct else "mpirun",
        connect=connect,
        stdin="rank" if direct else "",
        alone=False,
        joined=joined,
        counted=direct and spec.start.launcher != "torchrun",  # torchrun's processes do not report to mnrun
        steps=(
            *_prepare(spec, job),
            Step(Phase.SERVE, Where.ALL, kit.guard(here, serve), guard, True),
            Step(Phase.RUN, Where.HEAD, kit.head(here, run), master),
            _await(spec.start, "" if single else _reached(connect)),
            _stop(here),
        ),
        needs=_needs(spec),
        notes=_notes(spec),
    )


def _is_joined(spec: JobSpec) -> bool:
    """Return whether the first node has one container, in which the head runs and other nodes reach it.

    An engine passes no open file on, which head.sh needs. A prompt starts only after its node is ready.
    """
    return not RUNTIMES[spec.container.runtime].NAMED and spec.program.prompt != "terminal"


def _master_words(spec: JobSpec, layout: Layout, here: str) -> Words:
    """Return the words that run in the master container."""
    program = spec.program
    if program.prompt:
        return ("sh", f"{here}/shell.sh", program.prompt)
    if program.script:
        return (program.script, *program.command)
    if program.once:
        return program.command
    if spec.start.launcher in mpi.WITHOUT_MPI:
        return ("sh", f"{here}/start.sh", "sh", f"{here}/rank.sh", *_torchrun(spec))
    starter = ("mpirun", "-n", str(layout.ntasks), *spec.start.mpi_args)
    return (*starter, "sh", f"{here}/rank.sh", *program.command)


def _starter(spec: JobSpec) -> str:
    """Return the starter of the ranks. It is `auto` where the image's mpirun starts them only if there is one."""
    open_ = "launcher" in spec.start.undecided and not spec.start.mpi_args
    return "auto" if open_ else spec.start.launcher


def _await(start: Start, reached: str) -> Step:
    return Step(Phase.AWAIT, Where.HERE, (), f"every node reports ready within {start.timeout} s{reached}; then go")


def _connect(spec: JobSpec) -> str:
    """Return the way from mpirun to the other nodes. Where pdsh leaves no pipe, running/hosts.py has put in ssh."""
    return "pipe" if spec.start.connect == "auto" else spec.start.connect


def _reached(connect: str) -> str:
    """Return how the nodes will reach each other, in words."""
    return " (reached by the pipe)" if connect == "pipe" else ""


def _inside(spec: JobSpec, layout: Layout) -> str:
    """Return the content of the master container, in words."""
    if spec.program.prompt == "terminal":
        return "a shell on your terminal"
    if spec.program.prompt:
        return "a shell, for the commands on standard input"
    if spec.program.script:
        return "the script, once"
    if spec.program.once:
        return "the command, once"
    if spec.start.launcher == "torchrun":
        return f"torchrun on each node, {counted(layout.ntasks, 'rank')} in all"
    mpirun = "the image's mpirun"
    known = {"env": "mnrun, without an MPI", "auto": f"{mpirun}, or by mnrun where it has none"}
    return f"{counted(layout.ntasks, 'rank')}, started by {known.get(_starter(spec), mpirun)}"


def _torchrun(spec: JobSpec) -> Words:
    """Return the command for torchrun: it runs a FILE.py or a -m MODULE by Python, and others by --no-python."""
    command = spec.program.command
    if spec.start.launcher != "torchrun" or starters.torchrun_words(command) is not None:
        return command
    python = command[0].startswith("-") or command[0].endswith(".py")
    return ("torchrun", *(() if python else ("--no-python",)), *command)


def _outside_in(spec: JobSpec, layout: Layout, job: str) -> Plan:
    here, start = node_dir(job), spec.start
    runtime = RUNTIMES[spec.container.runtime]
    shared = _shared(spec.container, layout)
    if start.mpi in OPEN_FILE and not runtime.FILES:
        starter, name = OPEN_FILE[start.mpi], spec.container.runtime
        problem = f"{starter} uses an open file, which {name} does not pass on to a container"
        raise Impossible(problem, "use --mode inside-out, or --mpi pmix with an image that supports it")
    serve = _serve_outside(spec, _box(spec, here, job), shared)
    connect = _connect(spec) if spec.hosts.names else ""
    ready = _await(start, _reached(connect))
    run = _run_outside(spec, layout, job, shared)
    return Plan(
        spec=spec,
        layout=layout,
        job=job,
        node_dir=here,
        starter=start.launcher,
        connect=connect,
        stdin="rank" if start.launcher == "mpirun" else "",
        alone=runtime.APART and not shared and max(layout.ranks) > 1,
        joined=False,
        counted=True,
        steps=(
            *_prepare(spec, job),
            serve,
            # mpirun waits on its node for go. The ranks of srun would need no word, and so start after it.
            *((ready, run) if start.launcher == "srun" else (run, ready)),
            _stop(here),
        ),
        needs=_needs(spec),
        notes=_notes(spec),
    )


def _serve_outside(spec: JobSpec, box: Box, shared: bool) -> Step:
    """Return the step with a guard on every node, and with the container that the node's ranks share."""
    here = node_dir(box.job)
    container: Words = ()
    parts = ["a guard on every node"]
    if shared:
        hold = SHARING[spec.container.runtime].hold(box)
        container = _boxed(spec, here, "inside", "hold", (*hold, *kit.inside(box_dir(here), "hold_container.sh")))
        parts.append("with the container that its ranks share")
    if spec.hosts.names:
        # Without a scheduler the host's mpirun starts its daemons through the pipe, or an sshd of the job's own. The
        # guard starts either, so that it needs no key of the user's on the nodes, and ends with everything else.
        way = "the pipe" if _connect(spec) == "pipe" else "an sshd"
        parts.append(f"{'and' if shared else 'with'} {way} for the host's mpirun")
    return Step(Phase.SERVE, Where.ALL, kit.guard(here, container), ", ".join(parts), True)


def _run_outside(spec: JobSpec, layout: Layout, job: str, shared: bool) -> Step:
    """Return the step in which srun or the host's mpirun starts a container for each rank, or joins the shared one."""
    here = node_dir(job)
    box = _box(spec, here, job)
    around = SHARING[spec.container.runtime].join(box) if shared else RUNTIMES[spec.container.runtime].rank(box)
    adverbs = ("join_container.sh",) if shared else ()
    words = (*around, *kit.inside(box_dir(here), "rank.sh", *spec.program.command))
    rank = _boxed(spec, here, spec.start.launcher, "tmp", words, adverbs)
    each = "one container for the ranks of a node" if shared else "a container for each rank"
    if spec.start.launcher == "srun":
        return Step(Phase.RUN, Where.RANKS, rank, f"{counted(layout.ntasks, 'rank')} by srun, {each}")
    words = (mpi.starter(spec.start.mpi), "-n", str(layout.ntasks), *spec.start.mpi_args, *rank)
    head = kit.head(here, kit.inside(here, "wait_go.sh", *words))
    return Step(Phase.RUN, Where.HEAD, head, f"{counted(layout.ntasks, 'rank')} by the host's mpirun, {each}")


def _prepare(spec: JobSpec, job: str) -> tuple[Step, ...]:
    """Return the step that brings the image to every node. A file that the nodes read where it is needs none."""
    container = spec.container
    if spec.staged:
        words = kit.fetch(kit.STAGE, (container.stage_limit, job))
        why = f"a copy of the image in {container.stage_dir} on every node; at most {container.pull_timeout} s"
        return (Step(Phase.PREPARE, Where.ALL, words, why),)
    if not container.by_reference:
        return ()
    runtime = RUNTIMES[container.runtime]
    kind, place = ("store", container.podman_root) if runtime.NAMED else ("file", container.image_cache)
    words = kit.fetch(kit.PULL, (kind, container.image_name, container.pull, place, job, runtime.BINARY))
    if_there = {"always": "", "missing": ", unless it is there", "never": " (mnrun only checks)"}[container.pull]
    where = f"{container.runtime}'s store on every node" if runtime.NAMED else container.image_cache
    why = f"the image, from its registry to {where}{if_there}; at most {container.pull_timeout} s"
    return (Step(Phase.PREPARE, Where.ALL, words, why),)


def with_image(plan: Plan, image: Image) -> Plan:
    """Return the plan after PREPARE has reported the place of the image. The later steps name that place."""
    full_plan = make(plan.spec.with_image(image), plan.layout, plan.job)
    after = (step for step in full_plan.steps if step.phase is not Phase.PREPARE)
    return replace(full_plan, steps=(plan.step(Phase.PREPARE), *after))


def _stop(here: str) -> Step:
    why = (
        "close the lease: every guard ends what is left and removes its directory; this runs only if a guard was killed"
    )
    return Step(Phase.STOP, Where.ALL, kit.node(here, "stop.sh"), why)


def _shared(container: ContainerOptions, layout: Layout) -> bool:
    """Return whether a node's ranks share a container. Start cost, page cache, CMA and CUDA IPC all favour it."""
    if container.runtime not in SHARING or container.per == "rank":
        if container.per == "node" and RUNTIMES[container.runtime].CONTAINED:
            raise Impossible(f"{container.runtime} has no container that ranks share", "use --container-per rank")
        return False
    return container.per == "node" or max(layout.ranks) > 1


def _boxed(spec: JobSpec, here: str, context: str, place: str, words: Words, adverbs: Words = ()) -> Words:
    runtime = RUNTIMES[spec.container.runtime]
    bare = "" if runtime.CONTAINED else environment.BARE
    changes = (f"./{adverb}" for adverb in (runtime.ADVERB, *adverbs))
    return kit.node(here, "clean_env.sh", context + bare, place, *changes, *words)


def _box(spec: JobSpec, here: str, job: str) -> Box:
    """Return the container. mnrun's mounts come first, so that a user's mounts can lie above them."""
    program, container = spec.program, spec.container
    # A container may have a /dev/shm of its own. Apptainer then can mount nothing below that.
    mounts = [Mount(box_dir(here)), Mount(kit.shm_dir(here), f"{box_dir(here)}/shm")]
    if spec.start.mode == "inside-out" or RUNTIMES[container.runtime].USERS:
        mounts += [Mount(f"{here}/etc.passwd", "/etc/passwd"), Mount(f"{here}/etc.group", "/etc/group")]
    chdir, folder = (needs.place(spec, path) for path in (program.chdir, os.path.dirname(program.script)))
    in_home = container.home and (chdir + "/").startswith(container.home + "/")
    if not in_home and chdir != "/" and needs.on_node(spec, chdir) == chdir:
        mounts.append(_mounted(spec, "the working directory", chdir, "--chdir"))
    if folder.strip("/") and folder.split("/")[1] not in OF_IMAGES and not needs.shown(spec, folder):
        mounts.append(_mounted(spec, "the directory of --script", folder, "--script"))
    if program.split_output:
        split = needs.place(spec, program.split_output)
        mounts.append(_mounted(spec, "the directory of --split-output", split, "--split-output"))
    return Box(
        image=container.image_name,
        binds=(*mounts, *_above(spec, box_dir(here))),
        home=container.home,
        chdir=program.chdir,
        args=container.args,
        job=job,
        privileged=container.privileged,
        hardened=container.hardened,
    )


def _above(spec: JobSpec, here: str) -> tuple[Mount, ...]:
    """Return the user's mounts. Raises UsageError for one that would hide mnrun's own directory in the container.

    Docker and Podman mount the deeper directory last, so that they hide nothing.
    """
    hides = not RUNTIMES[spec.container.runtime].NAMED and needs.on_node(spec, here) != here
    for mount in spec.container.binds if hides else ():
        target = mount.target or mount.source
        if (here + "/").startswith(target.rstrip("/") + "/"):
            raise UsageError(
                f"--bind {mount} hides mnrun's own directory in {target}",
                f"mount it elsewhere: --bind {mount.source}:/scratch -x TMPDIR=/scratch",
            )
    return spec.container.binds


def _mounted(spec: JobSpec, subject: str, path: str, option: str) -> Mount:
    if spec.container.image and set(path) & set(",:\n"):
        why = "has a comma, a colon or a newline, so that it cannot be mounted"
        raise UsageError(f"{subject} {path!r} {why}", f"name another with {option}")
    return Mount(path)


def _needs(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    container = spec.container
    runtime = RUNTIMES[container.runtime]
    found: list[tuple[str, str]] = []
    if runtime.BINARY:
        kind = "named image" if runtime.NAMED else "image"
        found += [("program", runtime.BINARY), (kind, container.image_name)]
    if runtime.TRIED:
        found.append(("usable", container.runtime))
    if spec.start.mode == "outside-in" and spec.start.launcher == "mpirun":
        found.append(("program", mpi.starter(spec.start.mpi)))
    found += [("bind source", mount.source) for mount in container.binds]
    found += [("script", spec.program.script)] if spec.program.script else []
    found.append(("working directory", needs.on_node(spec, spec.program.chdir)))
    return tuple(found)


def _notes(spec: JobSpec) -> Words:
    start = spec.start
    notes = []
    cpus = spec.resources.cpus_per_task or 1
    if start.launcher == "mpirun" and start.bind_to == "core" and cpus > 1:
        words = f"--mpi-args '--map-by slot:PE={cpus}'"
        notes.append(f"--bind-to core: Open MPI 5 binds each rank to one core, whatever -c is, except with {words}")
    notes += [*_without_effect(spec), *_without_hosts(spec)]
    if spec.sets("stage") and spec.container.stage and not spec.container.image_file:
        notes.append("--stage: no effect here, since only an image file is copied")
    elif spec.sets("stage") and spec.hosts.local:
        notes.append("--stage: no effect on this machine alone")
    if spec.container.nv:
        notes.append("--nv: not needed, since mnrun brings in the NVIDIA driver of each node")
    return tuple(notes)


def _without_effect(spec: JobSpec) -> list[str]:
    """Return notes on options that have no effect on ranks that the user starts, or that no MPI starts."""
    notes = []
    program, launcher = spec.program, spec.start.launcher
    if program.label and not program.direct:
        notes.append(
            "--label: no effect on ranks that your own mpirun starts; --tag-output or -prepend-rank is its own"
        )
    if not program.direct:
        args = spec.sets("mpi_args") and launcher not in mpi.WITHOUT_MPI
        given = {"gpu-bind": spec.resources.gpu_bind, "split-output": program.split_output, "mpi-args": args}
        notes += [f"--{name}: no effect on ranks that your own mpirun starts" for name, value in given.items() if value]
    if launcher in mpi.WITHOUT_MPI:
        if not program.direct:
            notes.append(f"--launcher {launcher}: no effect on ranks that you start yourself")
        for option, name in (("--mpi-args", "mpi_args"), ("--bind-to", "bind_to")):
            if name in spec.origins:
                notes.append(f"{option}: no effect on ranks that no MPI starts")
    return notes


def _without_hosts(spec: JobSpec) -> list[str]:
    """Return notes on options that have an effect only with hosts, or only without them."""
    notes = []
    of_hosts = [name for name in ("rsh", "ssh_user", "ssh_port") if spec.sets(name)]
    if of_hosts and not spec.hosts.names:
        notes.append(f"{', '.join('--' + name.replace('_', '-') for name in of_hosts)}: no effect without --hosts")
    if spec.hosts.names and spec.start.module:
        notes.append(f"module load {' '.join(spec.start.module)}: not done, since it would change only this machine")
    if spec.hosts.names and spec.sets("stage_limit"):
        notes.append("--stage-limit: no effect with --hosts")
    if spec.start.mode == "outside-in" and not spec.hosts.names and spec.sets("connect"):
        notes.append("--connect: no effect outside-in, where the scheduler starts what runs on the nodes")
    return notes
