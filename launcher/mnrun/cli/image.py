"""`mnrun image`: build images from recipes, and look after those that are there."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from mnrun import formats
from mnrun.cli import complete
from mnrun.cli.clean import cache_of
from mnrun.cli.parsing import job_dir_option, json_option, print_json, print_text, some_options
from mnrun.cli.words.help import Verbs
from mnrun.errors import Impossible, RuntimeFailed, UsageError
from mnrun.images import BUILDERS, FILES, FORMATS, STORES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mnrun.images.cache import Image
    from mnrun.running.probe import Probe
    from mnrun.running.request import Request
    from mnrun.system.screen import Screen

MOMENT = 0.001  # seconds: an image that was used later than it was listed stays


@click.group(cls=Verbs)
def image() -> None:
    """Build images from recipes, and look after those that are there."""


@image.command("recipes")
def recipes_() -> None:
    """List the recipes that ship with mnrun, with their build arguments."""
    from mnrun.images import recipes
    from mnrun.system import screen

    rows = []
    for recipe in recipes.recipes():
        rows.append((recipe.name, "", recipe.purpose))
        rows += [
            ("", f"{name}={default}", f"{meaning[0].upper()}{meaning[1:]}.")
            for name, (default, meaning) in recipe.arguments.items()
        ]
    screen.table(("RECIPE", "ARGUMENT", "MEANING"), rows)


@image.command("build")
@click.argument("source", metavar="RECIPE|FILE|DIR", shell_complete=complete.sources)
@click.option("-o", "--output", metavar="FILE", default="", help="Make this SIF file, with Apptainer.")
@click.option(
    "-t", "--tag", metavar="NAME", default="", help="Make an image of this name in the store of Podman or Docker."
)
@click.option("--arg", "arguments", metavar="NAME=VALUE", multiple=True, help="Set a build argument. Repeatable.")
@click.option("--format", "form", type=click.Choice(FORMATS), default=None, help="Print the text, and build nothing.")
@click.option("--builder", type=click.Choice(BUILDERS), default=None, help="Build with this program.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option("-v", "--verbose", is_flag=True, help="Show all that the builder says.")
@click.option("-Q", "--quiet", is_flag=True, help="Show errors only.")
def build(
    source: str,
    output: str,
    tag: str,
    arguments: tuple[str, ...],
    form: str | None,
    builder: str | None,
    force: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Build an image from a recipe of mnrun, or from a recipe, Dockerfile or definition of yours.

    A recipe of yours is a program for HPCCM, and its name ends in .py. In DIR, mnrun takes the file that needs no
    conversion, or else a recipe.
    """
    from pathlib import Path

    from mnrun.images import build as building
    from mnrun.system.screen import Screen

    given = _arguments(arguments)
    if bool(output) + bool(tag) + bool(form) != 1:
        raise UsageError("an image needs one place", "write -o FILE.sif, or --tag NAME, or --format to print its text")
    named = source
    source = building.chosen(source, form or ("docker" if tag else "singularity"))
    if form:
        if source != named:
            Screen(quiet).say(f"this is {source}")
        click.echo(building.text_of(source, given, form)[0], nl=False)
        return
    target, shown = Path(output).expanduser().absolute(), Screen(quiet, verbose)
    if tag:
        building.to_store(source, tag, given, builder or "", _podman_root(), os.environ, shown)
    else:
        building.to_file(source, target, given, builder or "", force, os.environ, shown)
    click.echo(tag or str(target))


def _arguments(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise UsageError(f"--arg {name} has no value", "write --arg NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _podman_root() -> str:
    from mnrun.attach import user

    place = user.standing("podman_root")
    return os.path.abspath(os.path.expanduser(str(place))) if place else ""


@image.command()
@click.argument("folder", metavar="[DIR]", default="", type=click.Path())
@json_option
@some_options("image_cache")
def ls(folder: str, image_cache: str | None, as_json: bool) -> None:
    """List the images of registries in the cache, those used longest ago first, or the image files in DIR."""
    from pathlib import Path

    from mnrun.images import cache
    from mnrun.images.inspection import Cache, Listed
    from mnrun.schedulers.vocabulary import span
    from mnrun.system import screen
    from mnrun.system.screen import Screen

    if folder:
        place = Path(folder).expanduser().absolute()
        entries = cache.files(place)
    else:
        place = cache_of(image_cache)
        entries = cache.images(place) if cache.owned(place) else []
    if as_json:
        listed = (Listed(i.names, "" if folder else i.digest, i.size, i.used, str(i.path)) for i in entries)
        print_json(Cache(str(place), tuple(listed)))
        return
    now = time.time()
    rows = [
        (
            ", ".join(entry.names) or (entry.path.name if folder else "-"),
            formats.size(entry.size),
            span(int(now - entry.used)),
            str(entry.path),
        )
        for entry in entries
    ]
    screen.table(("IMAGE", "SIZE", "AGE" if folder else "UNUSED FOR", "FILE"), rows)
    if not rows:
        Screen().say(
            f"no images in {place}{'' if folder else '; mnrun image ls DIR lists the image files of a directory'}"
        )


@image.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True, shell_complete=complete.cached)
@job_dir_option
@some_options("image_cache")
def rm(names: tuple[str, ...], image_cache: str | None, job_dir: str | None) -> None:
    """Remove images from the cache, by a name, a digest or a file that `mnrun image ls` shows.

    An image with several names stays until the last of them is removed. An image that a running job uses stays, too.
    """
    from mnrun.attach import user
    from mnrun.images import cache

    place = cache_of(image_cache)
    cache.owned(place)
    for word in names:  # all of them, before one is removed
        _refuse_used(*cache.meant(place, word), user.bases(job_dir))
    for word in names:
        found, name = cache.meant(place, word)
        others = [other for other in found.names if name and other != name]
        if others:
            cache.unname(place, found, name)
            click.echo(f"removed the name {name}: {found.path} stays as {', '.join(others)}")
        elif cache.remove(found, found.used + MOMENT):
            click.echo(
                f"removed {found.path}: {', '.join(found.names) or 'without a name'}, {formats.size(found.size)}"
            )
        else:
            raise UsageError(f"{word} stays: a job has just taken it", "mnrun status shows your jobs")
    cache.tidy(place, 0)


def _refuse_used(found: Image, name: str, bases: Sequence[Path]) -> None:
    """Raise Impossible if the last name of an image is to go, and a job runs in it."""
    from mnrun.jobs import launches
    from mnrun.schedulers import SCHEDULERS

    if name and len(found.names) > 1:
        return
    for launch in launches.running(bases):
        if launch.image in found.words and (
            launch.near or SCHEDULERS[launch.scheduler].runs(launch.number, os.environ)
        ):
            job = " ".join(filter(None, (launch.name, launch.title and f"({launch.title})")))
            raise Impossible(f"{name or found.path} is in use by job {job}", "remove it after the end of that job")


@image.command()
@click.argument("reference", shell_complete=complete.cached)
@click.option("-o", "--output", metavar="FILE", default="", help="Copy the image to this file.")
@click.option(
    "--pull",
    "policy",
    type=click.Choice(["missing", "always"]),
    default="missing",
    help="Pull an image that is missing, or always.",
)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option("-Q", "--quiet", is_flag=True, help="Show errors only.")
@some_options("runtime", "pull_timeout", "image_cache")
def pull(reference: str, output: str, policy: str, force: bool, quiet: bool, **options: object) -> None:
    """Pull an image of a registry to this machine, as a job would, and print its place."""
    import shutil
    from pathlib import Path

    from mnrun.images import build as building
    from mnrun.runtimes import RUNTIMES
    from mnrun.system.screen import Screen

    request = _request(reference, True, pull=policy, **options)
    spec = request.spec
    if not spec.container.by_reference:
        raise UsageError(
            f"{reference} is a file or directory, and needs no pull", "name an image of a registry, as docker://…"
        )
    if output and RUNTIMES[spec.container.runtime].HAS_STORE:
        raise UsageError(f"{spec.container.runtime} makes no file", "leave out -o, or use --runtime apptainer")
    shown = Screen(quiet)
    if not output:
        click.echo(_pulled(request, shown))
        return
    target = Path(output).expanduser().absolute()
    with building.workshop(target, force) as place:
        try:
            shutil.copyfile(_pulled(request, shown), place / "image.sif")
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror}", "name another with -o") from None
        building.keep(place / "image.sif", target)
    click.echo(str(target))


def _request(name: str, local: bool, **options: object) -> Request:

    from mnrun.config import load
    from mnrun.running import request

    made = request.read(("true",), {"image": name, **options}, scope=load.Scope())
    hosts = made.spec.hosts._replace(local=local or not made.in_job)
    return made._replace(spec=made.spec._replace(hosts=hosts))


def _pulled(request: Request, shown: Screen) -> str:
    import queue

    from mnrun.planning import layout, plan
    from mnrun.running import nodes, prepare, session
    from mnrun.system import process
    from mnrun.system.events import Event
    from mnrun.system.signals import Signals

    spec = request.spec
    held = nodes.current(request)
    launch_plan = plan.make(spec, layout.lay_out(spec, held.allocation), f"pull-{session.token()}")
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    try:
        with Signals(events):
            pulled = prepare.prepare(launch_plan, held.site, request.environ, events, shown, process.start)
    finally:
        shown.done()
    return pulled.spec.container.image_name


def _asked(name: str, **options: object) -> tuple[Probe, str]:
    """Return a question about an image to the first node of this job, or here, and the image's name there. Raises
    UsageError if this machine can tell that the image is not there."""
    from pathlib import Path

    from mnrun.images import cache
    from mnrun.running import nodes, probe

    request = _request(name, False, **options)
    spec, held = request.spec, nodes.current(request)
    node_probe = probe.Probe(held, held.names)
    if node_probe.cache:
        cache.owned(Path(node_probe.cache))
    place = node_probe.image
    if not place:
        raise UsageError(f"{name} is not in {spec.container.image_cache}", f"mnrun image pull {name}")
    if spec.hosts.local and place.startswith("/") and not (os.path.isfile(place) or os.path.isdir(place)):
        problem = "is neither a file nor a directory" if os.path.exists(place) else "does not exist"
        raise UsageError(f"{place} {problem}", "name a file, a directory or a reference")
    return node_probe, place


@image.command()
@click.argument("name", metavar="IMAGE", shell_complete=complete.images)
@json_option
@some_options("runtime", "image_cache")
def inspect(name: str, as_json: bool, **options: object) -> None:
    """Show what an image has, and whether its MPI works on this machine, or in a job on its first node."""
    from mnrun.images import inspection
    from mnrun.planning import show
    from mnrun.runtimes import RUNTIMES

    node_probe, place = _asked(name, **options)
    has_store = RUNTIMES[node_probe.held.spec.container.runtime].HAS_STORE
    facts = node_probe.ask(stored=has_store)
    if facts is None or facts.silent:
        raise RuntimeFailed(f"no container of {name} answers: {facts.silent if facts else node_probe.origin}")
    size, digest = inspection.stored(facts) if has_store else _file(place, node_probe.held.spec.container.image_cache)
    lines = show.Judgement(node_probe.judge(facts), node_probe.origin, node_probe.held.spec).lines
    found = inspection.inspected(place, size, digest, facts, lines)
    if as_json:
        print_json(found)
        return
    rows = inspection.rows(found, "" if found.size is None else formats.size(found.size))
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        print_text(f"{label.ljust(width)}  {value}")
    for line in lines:
        print_text(line)


def _file(place: str, image_cache: str) -> tuple[int | None, str]:
    """Return the size of an image file of this machine, and its digest: the file in the cache has it in its name."""
    from pathlib import Path

    from mnrun.images import staged
    from mnrun.system.screen import Screen

    file = Path(place)
    if not place.startswith("/") or not file.is_file():
        return None, ""
    if file.parent == Path(image_cache) and file.name.startswith("sha256-"):
        return file.stat().st_size, file.stem.replace("-", ":")
    screen = Screen()
    screen.phase(f"reading {place}")
    try:
        source = staged.source(place, Path(image_cache))
    finally:
        screen.done()
    return source.size, f"sha256:{source.digest}"


@image.command()
@click.argument("name", metavar="IMAGE", shell_complete=complete.images)
@click.option("--key", metavar="FILE", default="", help="Demand a signature by this public key (PEM).")
@some_options("runtime", "image_cache")
def verify(name: str, key: str, **options: object) -> None:
    """Compare the digests of an image file on all nodes of the job, or show it without a job. Check its signature."""
    from pathlib import Path

    from mnrun.files import BASH
    from mnrun.images import cosign, inspection, reference
    from mnrun.jobspec import ImageKind
    from mnrun.nodes import kit
    from mnrun.runtimes import RUNTIMES
    from mnrun.schedulers import SCHEDULERS
    from mnrun.system import screen

    node_probe, place = _asked(name, **options)
    container = node_probe.held.spec.container
    if RUNTIMES[container.runtime].HAS_STORE:
        raise UsageError(f"{container.runtime} has no file of {name}", "each launch compares the images of stores")
    if key and not os.path.isfile(key):
        raise UsageError(f"--key {key} is not a file", "name a public key in PEM format")
    program = container.runtime if container.runtime in FILES else ""
    signature, image = "", container.image
    if key and image is not None and image.kind is ImageKind.REFERENCE:
        digest = Path(place).stem.replace("-", ":")  # the cache names files by the digest of the image in the registry
        if in_registry := reference.by_digest(image.name, digest):
            signature, program = cosign.signature(in_registry, key), ""
    key = os.path.abspath(key) if key else ""
    script = kit.probe("verify_image.sh", SCHEDULERS[node_probe.held.site.scheduler].ON_NODE)
    words = (*BASH, "-c", script, "verify_image.sh", node_probe.cache, place, key, program)
    found = inspection.copies(node_probe.held.ask(node_probe.names, words), node_probe.names, signature)
    screen.table(("NODES", "DIGEST", "SIGNATURE"), inspection.table(found))
    sys.stdout.flush()
    inspection.refuse(name, found, bool(key))


@image.command()
@click.argument("source", metavar="FILE|NAME", shell_complete=complete.images)
@click.option("-o", "--output", metavar="FILE", default="", help="Make this SIF file of an image in a store.")
@click.option("-t", "--tag", metavar="NAME", default="", help="Make an image of this name in a store, of a file.")
@click.option("--store", type=click.Choice(STORES), default=None, help="Use this store.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option("-v", "--verbose", is_flag=True, help="Show all that the programs say.")
@click.option("-Q", "--quiet", is_flag=True, help="Show errors only.")
def convert(source: str, output: str, tag: str, store: str | None, force: bool, verbose: bool, quiet: bool) -> None:
    """Turn an image of Podman's or Docker's store into a file, or a file into such an image, on this machine."""
    from pathlib import Path

    from mnrun.images import build as building
    from mnrun.images import builders
    from mnrun.system import process
    from mnrun.system.screen import Screen

    if bool(output) + bool(tag) != 1:
        raise UsageError("an image needs one place", "write -o FILE.sif, or --tag NAME")
    if tag and not Path(source).expanduser().exists():
        raise UsageError(f"{source} does not exist", "name a file, or use -o FILE.sif for an image of a store")
    programs = builders.choose(STORES, store or "", process.has), builders.choose(FILES, "", process.has)
    building.refuse_root(programs[1], os.getuid())
    target, shown = Path(output).expanduser().absolute(), Screen(quiet, verbose)
    shown.say(f"converting {source} to {output or tag}, by {' and '.join(programs)}")
    if output:
        building.file_of(source, target, programs, force, _podman_root(), os.environ, shown)
    else:
        building.store_of(Path(source).expanduser().absolute(), tag, programs, _podman_root(), os.environ, shown)
    click.echo(tag or str(target))
