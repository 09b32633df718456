"""Turn JobSpec and Layout into a Plan: every step of a launch, before anything is done. Pure.

inside-out = container( mpirun( command ) )
outside-in = mpirun( container( command ) )
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from mnrun import environment, mpi
from mnrun.errors import Impossible, UsageError
from mnrun.model import Box, JobSpec, Layout, Mount, Phase, Plan, Step, Where, Words
from mnrun.nodes import kit
from mnrun.runtimes import RUNTIMES, SHARING
from mnrun.schedulers.hosts import names

# starters that speak with their ranks through an open file
OPEN_FILE = {"pmi2": "PMI2", **{name: f"{mpi.MPIS[name].NAME}'s mpiexec" for name in mpi.HYDRA}}


def make(spec: JobSpec, layout: Layout, job: str) -> Plan:
    """Return the plan of one launch. `job` is its id, unique on every node."""
    plan = _plan(spec, layout, job)
    lines = [names.in_one_line(step.argv) for step in plan.steps if step.argv and spec.hosts]
    if any(len(line) > names.LONGEST - 1024 for line in lines):
        what = f"the command has {sum(map(len, spec.command))} characters, more than a login shell reads in one line"
        raise Impossible(what, "write it into a script, and run that")
    return plan


def _plan(spec: JobSpec, layout: Layout, job: str) -> Plan:
    if spec.require != "any" and (spec.once or spec.script or spec.shell):
        what = f"--require {spec.require} works only with ranks that mnrun starts, and this command starts its own"
        raise Impossible(what, "let mnrun start them, or leave it out")
    if spec.mode == "inside-out":
        return _inside_out(spec, layout, job)
    if spec.once or spec.script:
        what = "--script" if spec.script else spec.command[0]
        raise Impossible(
            f"{what} runs once in the first node's container, which outside-in lacks",
            "use --mode inside-out",
        )
    return _outside_in(spec, layout, job)


def node_dir(job: str) -> str:
    """Return the job's own directory on each node: a short path (for Unix sockets), local, mode 0700."""
    return f"/tmp/mnrun.{job}"


def _inside_out(spec: JobSpec, layout: Layout, job: str) -> Plan:
    here = node_dir(job)
    box = RUNTIMES[spec.runtime].node(_box(spec, here, job))
    direct = not (spec.once or spec.script or spec.shell)
    ours = direct and spec.launcher in mpi.WITHOUT_MPI
    words: Words
    if spec.shell:
        words = ("sh", f"{here}/shell.sh", spec.shell)
    elif spec.script:
        words = (spec.script, *spec.command)
    elif spec.once:
        words = spec.command
    elif ours:
        words = ("sh", f"{here}/start.sh", "sh", f"{here}/rank.sh", *_torchrun(spec))
    else:
        words = ("mpirun", "-n", str(layout.ntasks), *spec.mpi_args, "sh", f"{here}/rank.sh", *spec.command)
    serve = _boxed(spec, here, "inside", "serve", (*box, *kit.inside(here, "worker.sh")))
    run = _boxed(spec, here, "inside", "tmp", (*box, *kit.inside(here, "wait_go.sh", *words)))
    return Plan(
        spec=spec,
        layout=layout,
        job=job,
        node_dir=here,
        starter=spec.launcher if ours else "mpirun",
        connect=spec.connect,
        stdin="rank" if direct else "",
        alone=False,
        counted=direct and spec.launcher != "torchrun",  # torchrun's processes do not report to mnrun
        steps=(
            *_prepare(spec, job),
            Step(
                Phase.SERVE,
                Where.ALL,
                kit.guard(here, serve),
                "a guard on every node, with a container that waits",
                True,
            ),
            Step(
                Phase.RUN,
                Where.HEAD,
                kit.head(here, run),
                f"the master container, which waits for go: {_inside(spec, layout)}",
            ),
            Step(
                Phase.AWAIT,
                Where.HERE,
                (),
                f"every node reports ready within {spec.start_timeout} s{_reached(spec)}; then go",
            ),
            _stop(here),
        ),
        needs=_needs(spec),
        notes=_notes(spec),
    )


def _reached(spec: JobSpec) -> str:
    """Return how the nodes will reach each other, in words."""
    known = {"auto": "decided on the nodes: by ssh if all have it, else by the pipe", "pipe": "reached by the pipe"}
    return f" ({known[spec.connect]})" if spec.connect in known else ""


def _inside(spec: JobSpec, layout: Layout) -> str:
    """Return the content of the master container, in words."""
    if spec.shell:
        return "a shell on your terminal" if spec.shell == "terminal" else "a shell, for the commands on standard input"
    if spec.script:
        return "the script, once"
    if spec.once:
        return "the command, once"
    if spec.launcher == "torchrun":
        return f"torchrun on each node, {layout.ntasks} ranks in all"
    who = "mnrun, without an MPI" if spec.launcher == "env" else "the image's mpirun"
    return f"{layout.ntasks} ranks, started by {who}"


def _torchrun(spec: JobSpec) -> Words:
    """Return the command for torchrun: it runs a FILE.py or a -m MODULE by Python, and others by --no-python."""
    first = spec.command[0]
    if spec.launcher != "torchrun" or PurePosixPath(first).name == "torchrun":
        return spec.command
    ours = first.startswith("-") or first.endswith(".py")
    return ("torchrun", *(() if ours else ("--no-python",)), *spec.command)


def _outside_in(spec: JobSpec, layout: Layout, job: str) -> Plan:
    here = node_dir(job)
    runtime = RUNTIMES[spec.runtime]
    shared = _shared(spec, layout)
    if spec.mpi in OPEN_FILE and not runtime.FILES:
        what = f"{OPEN_FILE[spec.mpi]} uses an open file, which {spec.runtime} does not pass on to a container"
        raise Impossible(what, "use --mode inside-out, or --mpi pmix with an image that supports it")
    box = _box(spec, here, job)
    held: Words = ()
    why = "a guard on every node"
    if shared:
        held = _boxed(
            spec, here, "inside", "hold", (*SHARING[spec.runtime].hold(box), *kit.inside(here, "hold_container.sh"))
        )
        why += ", with the container that its ranks share"
    if spec.hosts:
        # Without a scheduler the host's mpirun starts its daemons through an sshd of the job's own, or the pipe. The
        # guard starts it, so that it needs no key of the user's on the nodes, and ends with everything else.
        why += ", and an sshd for the host's mpirun" if shared else ", with an sshd for the host's mpirun"
    around = SHARING[spec.runtime].join(box) if shared else runtime.rank(box)
    adverbs = ("join_container.sh",) if shared else ()
    rank = _boxed(spec, here, spec.launcher, "tmp", (*around, *kit.inside(here, "rank.sh", *spec.command)), adverbs)
    serve = Step(Phase.SERVE, Where.ALL, kit.guard(here, held), why, True)
    by = _reached(spec) if spec.hosts else ""
    ready = Step(Phase.AWAIT, Where.HERE, (), f"every node reports ready within {spec.start_timeout} s{by}; then go")
    each = "one container for the ranks of a node" if shared else "a container for each rank"
    if spec.launcher == "srun":
        run = Step(Phase.RUN, Where.RANKS, rank, f"{layout.ntasks} ranks by srun, {each}")
        steps: tuple[Step, ...] = (serve, ready, run)
    else:
        words = (mpi.starter(spec.mpi), "-n", str(layout.ntasks), *spec.mpi_args, *rank)
        run = Step(
            Phase.RUN,
            Where.HEAD,
            kit.head(here, kit.inside(here, "wait_go.sh", *words)),
            f"{layout.ntasks} ranks by the host's mpirun, {each}",
        )
        steps = (serve, run, ready)
    return Plan(
        spec=spec,
        layout=layout,
        job=job,
        node_dir=here,
        starter=spec.launcher,
        connect=spec.connect if spec.hosts else "",
        stdin="rank" if spec.launcher == "mpirun" else "",
        alone=runtime.APART and not shared and max(layout.ranks) > 1,
        counted=True,
        steps=(*_prepare(spec, job), *steps, _stop(here)),
        needs=_needs(spec),
        notes=_notes(spec),
    )


def _prepare(spec: JobSpec, job: str) -> tuple[Step, ...]:
    """Return the step that brings a registry's image to every node. An image that is a file of the nodes needs none."""
    if not spec.by_reference:
        return ()
    runtime = RUNTIMES[spec.runtime]
    kind, place = ("store", spec.podman_root) if runtime.NAMED else ("file", spec.image_cache)
    words = kit.fetch((kind, spec.image, spec.pull, place, job, runtime.BINARY))
    missing = (
        "" if spec.pull == "always" else ", unless it is there" if spec.pull == "missing" else " (mnrun only checks)"
    )
    where = f"{spec.runtime}'s store on every node" if runtime.NAMED else spec.image_cache
    why = f"the image, from its registry to {where}{missing}; at most {spec.pull_timeout} s"
    return (Step(Phase.PREPARE, Where.ALL, words, why),)


def with_image(plan: Plan, place: str) -> Plan:
    """Return the plan after PREPARE has reported the place of the image. The later steps name that place."""
    made = make(replace(plan.spec, image=place), plan.layout, plan.job)
    after = (step for step in made.steps if step.phase is not Phase.PREPARE)
    return replace(made, steps=(plan.step(Phase.PREPARE), *after))


def _stop(here: str) -> Step:
    why = (
        "close the lease: every guard ends what is left and removes its directory; this runs only if a guard was killed"
    )
    return Step(Phase.STOP, Where.ALL, kit.node(here, "stop.sh"), why)


def _shared(spec: JobSpec, layout: Layout) -> bool:
    """Return whether a node's ranks share a container. Start cost, page cache, CMA and CUDA IPC all favour it."""
    if spec.runtime not in SHARING or spec.container_per == "rank":
        if spec.container_per == "node" and RUNTIMES[spec.runtime].CONTAINED:
            raise Impossible(f"{spec.runtime} has no container that ranks share", "use --container-per rank")
        return False
    return spec.container_per == "node" or max(layout.ranks) > 1


def _boxed(spec: JobSpec, here: str, context: str, place: str, words: Words, adverbs: Words = ()) -> Words:
    runtime = RUNTIMES[spec.runtime]
    bare = "" if runtime.CONTAINED else environment.BARE
    for adverb in (runtime.ADVERB, *adverbs):
        words = ("bash", "-p", f"./{adverb}", *words)
    return kit.node(here, "clean_env.sh", context + bare, place, *words)


def _box(spec: JobSpec, here: str, job: str) -> Box:
    """Return the container. mnrun's mounts come first, so that a user's mounts can lie above them."""
    own = [Mount(here)]
    if spec.mode == "inside-out" or RUNTIMES[spec.runtime].USERS:
        own += [Mount(f"{here}/etc.passwd", "/etc/passwd"), Mount(f"{here}/etc.group", "/etc/group")]
    covered = spec.home and (spec.chdir + "/").startswith(spec.home + "/")
    if not covered and spec.chdir != "/":
        own.append(_mounted(spec, "the working directory", spec.chdir, "--chdir"))
    if spec.split_output:
        own.append(_mounted(spec, "the directory of --split-output", spec.split_output, "--split-output"))
    return Box(
        image=spec.image,
        binds=(*own, *spec.binds),
        home=spec.home,
        chdir=spec.chdir,
        args=spec.container_args,
        job=job,
        privileged=spec.privileged,
        hardened=spec.hardened,
    )


def _mounted(spec: JobSpec, what: str, path: str, option: str) -> Mount:
    if spec.image and set(path) & set(",:\n"):
        why = "has a comma, a colon or a newline, so that it cannot be mounted"
        raise UsageError(f"{what} {path!r} {why}", f"name another with {option}")
    return Mount(path)


def _needs(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    runtime = RUNTIMES[spec.runtime]
    needs: list[tuple[str, str]] = []
    if runtime.BINARY:
        needs += [("program", runtime.BINARY), ("image" if not runtime.NAMED else "named image", spec.image)]
    if spec.runtime == "charliecloud":
        needs.append(("usable", spec.runtime))
    if spec.mode == "outside-in" and spec.launcher == "mpirun":
        needs.append(("program", mpi.starter(spec.mpi)))
    needs += [("bind source", mount.source) for mount in spec.binds]
    needs += [("script", spec.script)] if spec.script else []
    needs.append(("working directory", spec.chdir))
    return tuple(needs)


def _notes(spec: JobSpec) -> Words:
    notes = []
    if spec.origins.get("mode") == "built-in":
        why = "auto" if spec.mode == "inside-out" else f"as {spec.launcher} starts ranks that way"
        notes.append(f"mode is {spec.mode} ({why})")
    if spec.once:
        notes.append(f"{spec.command[0]} starts its own ranks: run once, in the master container")
    if spec.label and (spec.once or spec.script or spec.shell):
        notes.append(
            "--label: no effect on ranks that your own mpirun starts; --tag-output or -prepend-rank is its own"
        )
    if spec.gpu_bind and (spec.once or spec.script or spec.shell):
        notes.append("--gpu-bind: no effect on ranks that your own mpirun starts")
    if spec.launcher == "mpirun" and spec.bind_to == "core" and (spec.cpus_per_task or 1) > 1:
        words = f"--mpi-args '--map-by slot:PE={spec.cpus_per_task}'"
        notes.append(f"--bind-to core: Open MPI 5 binds each rank to one core, whatever -c is, except with {words}")
    if spec.launcher in mpi.WITHOUT_MPI:
        if spec.once or spec.script or spec.shell:
            notes.append(f"--launcher {spec.launcher}: no effect on ranks that you start yourself")
        for option, name in (("--mpi-args", "mpi_args"), ("--bind-to", "bind_to")):
            if name in spec.origins:
                notes.append(f"{option}: no effect on ranks that no MPI starts")
    notes += _ineffective(spec)
    if spec.nv:
        notes.append("--nv: not needed, since mnrun brings in the NVIDIA driver of each node")
    return tuple(notes)


def _ineffective(spec: JobSpec) -> list[str]:
    """Return notes on the options that have no effect on this job."""
    notes = []
    of_hosts = [name for name in ("stage", "rsh", "ssh_user", "ssh_port") if spec.own(name)]
    if of_hosts and not spec.hosts:
        notes.append(f"{', '.join('--' + name.replace('_', '-') for name in of_hosts)}: no effect without --hosts")
    if spec.hosts and spec.stage and not spec.image.startswith("/"):
        notes.append("--stage: no effect here, since only an image file is copied")
    if spec.hosts and spec.module:
        notes.append(f"module load {' '.join(spec.module)}: not done, since it would change only this machine")
    if spec.mode == "outside-in" and not spec.hosts and spec.own("connect"):
        notes.append("--connect: no effect outside-in, where the scheduler starts what runs on the nodes")
    return notes
