"""Turn JobSpec and Layout into a Plan: every step of a launch, before anything is done. Pure.

inside-out = container( mpirun( command ) )
outside-in = mpirun( container( command ) )
"""

from __future__ import annotations

import os.path
from collections.abc import Callable

from mnrun import environment, mpi
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import ContainerOptions, Image, JobSpec, Mount, Start, split_gres
from mnrun.model import Container, Layout, Phase, Plan, Step, Where, Words, box_dir
from mnrun.nodes import kit
from mnrun.nodeset import counted, fold
from mnrun.planning import needs, starters, variables
from mnrun.planning.layout import PER_GPU, refuse_uneven_gpus, size
from mnrun.reach import login_shell
from mnrun.runtimes import RUNTIMES, SHARING, as_root

# An image has directories of its own with these names. The node's must not hide them.
OF_IMAGES = ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var")
HEAD = "head.sh"
LONG = 32 * 1024  # bytes of a program's words, above which these come by a file
WIDTH = 73  # the characters of a summary, which follow `mnrun: `
# starters that speak with their ranks through an open file
OPEN_FILE = {"pmi2": "PMI2", **{name: f"{mpi.MPIS[name].NAME}'s mpiexec" for name in mpi.HYDRA}}


def make(spec: JobSpec, layout: Layout, job: str, channels: bool = False) -> Plan:
    """Return the plan of one launch. `job` is its id, unique on every node. `channels` is as in Site."""
    starters.check_numbers(spec, layout)
    refuse_uneven_gpus(spec, layout)
    if not spec.start.bind_to and _is_free(spec, layout):
        spec = spec._replace(start=spec.start._replace(bind_to="none"))
    if spec.service.ready and layout.ntasks > 1:  # so that an error can show each node's last lines
        spec = spec._replace(program=spec.program._replace(label=True))
    bare = Plan(spec, layout, job, node_dir(job), needs=_needs(spec), notes=_notes(spec), channels=channels)
    plan = _with_steps(bare._replace(words=_long_words(spec)))
    plan = plan._replace(steps=(*_prepare(spec, job), *plan.steps, _stop(plan.node_dir)))
    lines = [login_shell.line(step.argv) for step in plan.steps if step.argv and channels]
    if any(len(line) > login_shell.LONGEST - 1024 for line in lines):
        letters = sum(map(len, spec.program.command))
        problem = f"the command has {letters} characters, more than a login shell reads in one line"
        raise Impossible(problem, "write it into a script, and run that")
    return plan._replace(of_schedulers=variables.of_schedulers(plan))


def _is_free(spec: JobSpec, layout: Layout) -> bool:
    """Return whether a rank keeps all CPUs of its node. By default, mpirun binds each to one core, which does not suit
    ranks with GPUs or threads."""
    want = spec.resources
    asked = want.gpus_per_node or want.gpus or want.gpus_per_task or split_gres(want.gres)[0] or want.cpus_per_task
    return bool(asked or any(layout.gpus))


def _with_steps(plan: Plan) -> Plan:
    program, start = plan.spec.program, plan.spec.start
    if start.require != "any" and not program.direct:
        problem = f"--require {start.require} works only with ranks that mnrun starts, and this command starts its own"
        raise Impossible(problem, "let mnrun start them, or leave it out")
    if plan.spec.service.ready and not program.direct:
        problem = "a service is a program that mnrun starts on each node, and this command starts its own"
        raise Impossible(problem, "leave out --ready")
    if start.mode == "inside-out":
        return _inside_out(plan)
    if program.once or program.script:
        name = "--script" if program.script else program.command[0]
        problem = f"{name} runs once in the first node's container, which outside-in lacks"
        raise Impossible(problem, "use --mode inside-out")
    return _outside_in(plan)


def node_dir(job: str) -> str:
    """Return the job's own directory on each node: a short path (for Unix sockets), local, mode 0700."""
    return f"/tmp/mnrun.{job}"


def _inside_out(plan: Plan) -> Plan:
    spec, layout, here, inside = plan.spec, plan.layout, plan.node_dir, plan.box_dir
    container = RUNTIMES[spec.container.runtime].node(_container(spec, here, plan.job))
    direct = spec.program.direct
    joined = _is_joined(spec)
    single = joined and len(layout.nodes) == 1
    serve = (
        () if single else _in_clean_env(spec, here, "inside", "serve", (*container, *kit.inside(inside, "worker.sh")))
    )
    words = _master_words(spec, layout, inside)
    run = _in_clean_env(spec, here, "inside", "tmp", (*container, *kit.inside(inside, "wait_go.sh", *words)))
    others = "every other node" if joined else "every node"
    guard = "a guard on the node" if single else f"a guard on every node, and a container that waits on {others}"
    master = f"the {'' if single else 'master '}container, which waits for go: {_inside(spec, layout)}"
    connect = "pipe" if single else _connect(spec)
    return plan._replace(
        starter=_starter(spec) if direct else "mpirun",
        connect=connect,
        stdin="rank" if direct else "",
        joined=joined,
        counted=direct and spec.start.launcher != "torchrun",  # torchrun's processes do not report to mnrun
        steps=(
            Step(Phase.SERVE, Where.ALL, kit.guard(here, serve), guard, True),
            Step(Phase.RUN, Where.HEAD, kit.awaiting(here, HEAD, *run), master),
            _await(spec.start, "" if single else connect),
        ),
    )


def _is_joined(spec: JobSpec) -> bool:
    """Return whether the first node has one container, in which the head runs and other nodes reach it.

    An engine passes no open file on, which head.sh needs. A prompt starts only after its node is ready.
    """
    return not RUNTIMES[spec.container.runtime].HAS_STORE and spec.program.prompt != "terminal"


def _master_words(spec: JobSpec, layout: Layout, here: str) -> Words:
    program = spec.program
    if program.prompt:
        return ("sh", f"{here}/shell.sh", program.prompt)
    if program.script:
        return (program.script, *program.command)
    if program.once:
        return program.command
    if spec.start.launcher == "ray":
        return ("sh", f"{here}/start.sh", "sh", f"{here}/rank.sh", "sh", f"{here}/ray.sh", *program.command)
    if spec.start.launcher in mpi.WITHOUT_MPI:
        return ("sh", f"{here}/start.sh", "sh", f"{here}/rank.sh", *_of_rank(spec))
    starter = ("mpirun", "-n", str(layout.ntasks), *spec.start.mpi_args)
    return (*starter, "sh", f"{here}/rank.sh", *_of_rank(spec))


def _of_rank(spec: JobSpec) -> Words:
    """Return the words of a rank's program, or none if they come by a file."""
    return () if _long_words(spec) else _torchrun(spec)


def _long_words(spec: JobSpec) -> Words:
    """Return the words of each rank's program if they are so long that rank.sh reads them from a file. Open MPI gives
    a rank its whole line in OMPI_COMMAND and OMPI_ARGV, and no variable is longer than 128 kB (MAX_ARG_STRLEN,
    execve(2)). Neither is the line of a login shell."""
    words = _torchrun(spec) if spec.program.direct and spec.start.launcher != "ray" else ()
    return words if sum(len(os.fsencode(word)) + 1 for word in words) > LONG else ()


def _starter(spec: JobSpec) -> str:
    """Return the starter of the ranks. It is `auto` where the image's mpirun starts them only if there is one."""
    open_ = "launcher" in spec.start.undecided and not spec.start.mpi_args
    return "auto" if open_ else spec.start.launcher


def _await(start: Start, connect: str) -> Step:
    reached = " (reached by the pipe)" if connect == "pipe" else ""
    return Step(Phase.AWAIT, Where.HERE, (), f"every node reports ready within {start.timeout} s{reached}; then go")


def _connect(spec: JobSpec) -> str:
    return "pipe" if spec.start.connect == "auto" else spec.start.connect


def _inside(spec: JobSpec, layout: Layout) -> str:
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
    if spec.start.launcher == "ray":
        return f"the command, once, by a Ray cluster of {counted(layout.nnodes, 'node')}"
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


def _outside_in(plan: Plan) -> Plan:
    spec, layout, start, notes = plan.spec, plan.layout, plan.spec.start, plan.notes
    runtime = RUNTIMES[spec.container.runtime]
    shared = _shared(spec.container, layout)
    if start.mpi in OPEN_FILE and not runtime.PASSES_OPEN_FILES:
        starter, name = OPEN_FILE[start.mpi], spec.container.runtime
        problem = f"{starter} uses an open file, which {name} does not pass on to a container"
        raise Impossible(problem, "use --mode inside-out, or --mpi pmix with an image that supports it")
    connect = _connect(spec) if plan.channels else ""
    container = _container(spec, plan.node_dir, plan.job)
    if not connect and spec.sets("connect"):
        notes = (*notes, "--connect: no effect outside-in, where the scheduler starts what runs on the nodes")
    return plan._replace(
        starter=start.launcher,
        connect=connect,
        stdin="rank" if start.launcher == "mpirun" else "",
        alone=runtime.OWN_USER_NAMESPACE and not shared and max(layout.ranks) > 1,
        steps=(
            _serve_outside(spec, container, shared, connect),
            _run_outside(spec, layout, container, shared),
            _await(start, connect),
        ),
        notes=notes,
    )


def _serve_outside(spec: JobSpec, container: Container, shared: bool, connect: str) -> Step:
    here = node_dir(container.job)
    shares: Words = ()
    parts = ["a guard on every node"]
    if shared:
        hold = SHARING[spec.container.runtime].hold(container)
        shares = _in_clean_env(spec, here, "inside", "hold", (*hold, *kit.inside(box_dir(here), "hold_container.sh")))
        parts.append("with the container that its ranks share")
    if connect:
        # Without a scheduler the host's mpirun starts its daemons through the pipe, or an sshd of the job's own. The
        # guard starts either, so that it needs no key of the user's on the nodes, and ends with everything else.
        way = "the pipe" if connect == "pipe" else "an sshd"
        parts.append(f"{'and' if shared else 'with'} {way} for the host's mpirun")
    return Step(Phase.SERVE, Where.ALL, kit.guard(here, shares), ", ".join(parts), True)


def _run_outside(spec: JobSpec, layout: Layout, container: Container, shared: bool) -> Step:
    """Return the step in which the scheduler or the host's mpirun starts a container for each rank, or joins the
    shared one."""
    here = node_dir(container.job)
    around = (
        SHARING[spec.container.runtime].join(container) if shared else RUNTIMES[spec.container.runtime].rank(container)
    )
    adverbs = ("join_container.sh",) if shared else ()
    words = (*around, *kit.inside(box_dir(here), "rank.sh", *_of_rank(spec)))
    by_scheduler = spec.start.launcher in starters.OF_SCHEDULERS
    context = environment.SCHEDULER if by_scheduler else environment.MPIRUN
    start = kit.awaiting if by_scheduler else kit.node
    rank = _in_clean_env(spec, here, context, "tmp", words, adverbs, start)
    each = "one container for the ranks of a node" if shared else "a container for each rank"
    if by_scheduler:
        return Step(Phase.RUN, Where.RANKS, rank, f"{counted(layout.ntasks, 'rank')} by {spec.start.launcher}, {each}")
    words = (mpi.starter(spec.start.mpi), "-n", str(layout.ntasks), *spec.start.mpi_args, *rank)
    head = kit.awaiting(here, HEAD, *kit.inside(here, "wait_go.sh", *words))
    return Step(Phase.RUN, Where.HEAD, head, f"{counted(layout.ntasks, 'rank')} by the host's mpirun, {each}")


def _prepare(spec: JobSpec, job: str) -> tuple[Step, ...]:
    """Return the step that brings the image to every node. A file that the nodes read where it is needs none."""
    container = spec.container
    if spec.staged:
        words = kit.fetch(kit.STAGE, (container.stage_limit, job))
        why = f"a copy of the image in {container.stage_dir} on every node; at most {container.pull_timeout} s"
        return (Step(Phase.PREPARE, Where.ALL, words, why),)
    runtime = RUNTIMES[container.runtime]
    if not container.by_reference or not runtime.CONTAINED:
        return ()
    kind, place = ("store", container.podman_root) if runtime.HAS_STORE else ("file", container.image_cache)
    words = kit.fetch(kit.PULL, (kind, container.image_name, container.pull, place, job, runtime.BINARY))
    if_there = {"always": "", "missing": ", unless it is there", "never": " (mnrun only checks)"}[container.pull]
    where = f"{container.runtime}'s store on every node" if runtime.HAS_STORE else container.image_cache
    why = f"the image, from its registry to {where}{if_there}; at most {container.pull_timeout} s"
    return (Step(Phase.PREPARE, Where.ALL, words, why),)


def with_image(plan: Plan, image: Image) -> Plan:
    """Return the plan after PREPARE has reported the place of the image. The later steps name that place."""
    full_plan = make(plan.spec.with_image(image), plan.layout, plan.job, plan.channels)
    after = (step for step in full_plan.steps if step.phase is not Phase.PREPARE)
    return full_plan._replace(steps=(plan.step(Phase.PREPARE), *after))


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


def _in_clean_env(
    spec: JobSpec,
    here: str,
    context: str,
    place: str,
    words: Words,
    adverbs: Words = (),
    start: Callable[..., Words] = kit.node,
) -> Words:
    runtime = RUNTIMES[spec.container.runtime]
    bare = "" if runtime.CONTAINED else environment.BARE
    changes = (f"./{adverb}" for adverb in (runtime.ADVERB, *adverbs))
    return start(here, "clean_env.sh", context + bare, place, *changes, *words)


def _container(spec: JobSpec, here: str, job: str) -> Container:
    """Return the container. mnrun's mounts come first, so that a user's mounts can lie above them."""
    program, container = spec.program, spec.container
    # A container may have a /dev/shm of its own. Apptainer then can mount nothing below that.
    mounts = [Mount(box_dir(here)), Mount(kit.shm_dir(here), f"{box_dir(here)}/shm")]
    needed = spec.start.mode == "inside-out" or RUNTIMES[container.runtime].NEEDS_PASSWD
    if needed and not (spec.start.launcher == "env" and as_root(container.runtime, container.args)):
        mounts += [Mount(f"{here}/etc.passwd", "/etc/passwd"), Mount(f"{here}/etc.group", "/etc/group")]
    chdir, folder = (needs.behind_links(spec, path) for path in (program.chdir, os.path.dirname(program.script)))
    in_home = container.home and (chdir + "/").startswith(container.home + "/")
    if not in_home and chdir != "/" and needs.on_node(spec, chdir) == chdir:
        mounts.append(_mounted(spec, "the working directory", chdir, "--chdir"))
    if folder.strip("/") and folder.split("/")[1] not in OF_IMAGES and not needs.shown(spec, folder):
        mounts.append(_mounted(spec, "the directory of --script", folder, "--script"))
    if program.split_output:
        split = needs.behind_links(spec, program.split_output)
        mounts.append(_mounted(spec, "the directory of --split-output", split, "--split-output"))
    return Container(
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
    hides = not RUNTIMES[spec.container.runtime].HAS_STORE and needs.on_node(spec, here) != here
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
        kind = "named image" if runtime.HAS_STORE else "image"
        found += [("program", runtime.BINARY), (kind, container.image_name)]
    if runtime.NEEDS_TRIAL:
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
    loads = spec.hosts.names and RUNTIMES[spec.container.runtime].HAS_STORE  # running/hosts.py
    if spec.sets("stage") and spec.container.stage and not spec.container.image_file and not loads:
        notes.append("--stage: no effect here, since only an image file is copied")
    elif spec.sets("stage") and spec.hosts.local:
        notes.append("--stage: no effect on this machine alone")
    service = spec.service
    if service.ready and not service.address[1] and not any("{port}" in word for word in spec.program.command):
        notes.append(
            "no word has {port}, so the program does not learn at which port mnrun waits for it: write {port} there, "
            "or --ready http://127.0.0.1:8000/ for a port of its own"
        )
    if spec.container.nv:
        notes.append("--nv: not needed, since mnrun brings in the NVIDIA driver of each node")
    return tuple(notes)


def _without_effect(spec: JobSpec) -> list[str]:
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
    notes = []
    of_hosts = [name for name in ("rsh", "ssh_user", "ssh_port") if spec.sets(name)]
    if of_hosts and not spec.hosts.names:
        notes.append(f"{', '.join('--' + name.replace('_', '-') for name in of_hosts)}: no effect without --hosts")
    if spec.hosts.names and spec.start.module:
        notes.append(f"module load {' '.join(spec.start.module)}: not done, since it would change only this machine")
    return notes


def summary(plan: Plan, job: str) -> str:
    """Return a launch in one line of a narrow terminal: its `job`, ranks, nodes, runtime, and starter if that is known:
    of an image that may lack mpirun, the head tells it later."""
    layout, program, start = plan.layout, plan.spec.program, plan.spec.start
    what, starter = counted(layout.ntasks, "rank"), "" if plan.starter == "auto" else plan.starter
    if program.once:
        what, starter = os.path.basename(program.command[0]), ""
    elif not program.direct:
        what, starter = "a shell" if program.prompt else "the script", ""
    outside = start.mode if start.mode == "outside-in" else ""
    if starter == "mpirun" and RUNTIMES[plan.spec.container.runtime].CONTAINED:
        outside, starter = "", f"the {'node' if outside else 'image'}'s mpirun"
    how = ", ".join(filter(None, (plan.spec.container.runtime, outside, starter)))
    unasked = layout.why_ranks.startswith(PER_GPU) and not plan.spec.resources.gpus_asked
    whats = (f"{what} ({PER_GPU})", what) if unasked and program.direct and not program.once else (what,)
    places = (fold(layout.nodes), counted(layout.nnodes, "node"))
    lines = [f"{job and f'job {job}: '}{what} on {nodes}, {how}" for nodes in places for what in whats]
    return next((line for line in lines if len(line) <= WIDTH), lines[-1])


def reasons(plan: Plan) -> str:
    """Return a launch with the reasons for its ranks and nodes."""
    layout = plan.layout
    nodes = f"{fold(layout.nodes)} ({layout.why_nodes})"
    return f"{size(layout)} ({layout.why_ranks}) on {nodes}; {plan.spec.start.mode}, {begin(plan)}"


def begin(plan: Plan) -> str:
    """Return what starts the program, for a person. Whether an image has mpirun, the head tells later."""
    program = plan.spec.program
    if program.once:
        return f"{program.command[0]} starts its own ranks"
    if not program.direct:
        return "a shell in the master container" if program.prompt else "the script in the master container"
    return f"ranks by {'mpirun, or by mnrun without one' if plan.starter == 'auto' else plan.starter}"
