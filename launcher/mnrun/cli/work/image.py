"""`mnrun image`: build images from recipes, and look after those that are there."""

from __future__ import annotations

import os
import queue
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from mnrun.cli.parsing import print_text
from mnrun.cli.work.clean import age_of, cache_of, remove_images, size_of
from mnrun.config import load
from mnrun.errors import RuntimeFailed, UsageError
from mnrun.facts import parse
from mnrun.files import BASH
from mnrun.images import FILES, STORES, TAGGERS, builders, cache, cosign, definitions, inspection, recipes, reference
from mnrun.images import build as building
from mnrun.jobspec import ImageKind, JobSpec
from mnrun.nodes import kit
from mnrun.planning import layout, plan, show
from mnrun.running import nodes, probe, session
from mnrun.running import prepare as preparation
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.model import span
from mnrun.system import process, screen
from mnrun.system.process import Event, Stopped
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals


def recipes_() -> None:
    """List the recipes that ship with mnrun, with their build arguments."""
    rows = []
    for recipe in recipes.recipes():
        rows.append((recipe.name, "", recipe.purpose))
        rows += [
            ("", f"{name}={default}", f"{meaning[0].upper()}{meaning[1:]}.")
            for name, (default, meaning) in recipe.arguments.items()
        ]
    screen.table(("RECIPE", "ARGUMENT", "MEANING"), rows)


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
    """Build an image from a recipe of mnrun, or from a recipe, Dockerfile or definition of yours."""
    given = _arguments(arguments)
    if bool(output) + bool(tag) + bool(form) != 1:
        raise UsageError("an image needs one place", "write -o FILE.sif, or --tag NAME, or --format to print its text")
    if form:
        click.echo(_text(source, given, form)[0], nl=False)
        return
    shown = Screen(quiet, verbose)
    try:
        if tag:
            _to_store(source, tag, given, builder or "", shown)
        else:
            _to_file(source, Path(output).expanduser().absolute(), given, builder or "", force, shown)
    except Stopped as stop:
        sys.exit(128 + stop.signum)


def _arguments(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise UsageError(f"--arg {name} has no value", "write --arg NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _text(source: str, given: Mapping[str, str], form: str) -> tuple[str, Path, Mapping[str, str]]:
    """Return the text to build in this format, the directory of the files that it copies, and the builder's arguments.

    Raises UsageError.
    """
    recipe = recipes.find(source)
    path = Path(source).expanduser().absolute()
    if recipe is None and path.suffix == ".py":
        recipe = recipes.read(path)
    if recipe:
        return recipes.render(recipe, given, form), recipe.path.parent, {}
    if not path.is_file():
        known = ", ".join(recipe.name for recipe in recipes.recipes())
        raise UsageError(f"{source} is neither a file here nor a recipe", f"the recipes are {known}")
    if definitions.form_of(path) == form:
        return path.read_text(encoding="utf-8"), path.parent, given
    if given:
        raise UsageError(f"--arg has no effect on {source}, which is converted first", "set its arguments in the file")
    return definitions.converted(path, form), path.parent, {}


def _to_file(source: str, target: Path, given: Mapping[str, str], wanted: str, force: bool, shown: Screen) -> None:
    text, context, arguments = _text(source, given, "singularity")
    builder = builders.choose(FILES, wanted, process.has)
    building.refuse_root(builder, os.getuid())
    with building.workshop(target, force) as place:
        definition, made = place / "image.def", place / "image.sif"
        definition.write_text(text, encoding="utf-8")
        shown.say(f"building {target} from {source}, by {builder}")
        words = builders.to_file(builder, made, definition, arguments)
        building.run(str(target), words, context, os.environ, shown)
        building.keep(made, target)
    click.echo(str(target))


def _to_store(source: str, tag: str, given: Mapping[str, str], wanted: str, shown: Screen) -> None:
    text, context, arguments = _text(source, given, "docker")
    builder = builders.choose(TAGGERS, wanted, process.has)
    shown.say(f"building {tag} from {source}, by {builder}")
    words = builders.to_store(builder, tag, context, arguments, _podman_root())
    building.run(tag, words, context, os.environ, shown, text)
    click.echo(tag)


def _podman_root() -> str:
    """Return the place of Podman's store for every job, or "" for its usual place."""
    setting = load.standing(os.environ, str(Path.home())).get("podman_root")
    return str(Path(str(setting.value)).expanduser().absolute()) if setting and setting.value else ""


def ls(image_cache: str | None) -> None:
    """List the images in the cache, those used longest ago first."""
    place = cache_of(image_cache)
    entries = cache.images(place) if cache.owned(place) else []
    now = time.time()
    rows = [
        (", ".join(entry.names) or "-", size_of(entry.size), span(int(now - entry.used)), str(entry.path))
        for entry in entries
    ]
    screen.table(("IMAGE", "SIZE", "UNUSED FOR", "FILE"), rows)
    if not rows:
        Screen().say(f"no images in {place}")


def gc(older: str, dry_run: bool, image_cache: str | None) -> None:
    """Remove images from the cache that no job has used for long, as `mnrun clean --images` does."""
    remove_images(cache_of(image_cache), age_of(older), dry_run)


def pull(reference: str, output: str, policy: str, force: bool, quiet: bool, **options: object) -> None:
    """Pull an image of a registry to this machine, as a job would, and print its place."""
    spec = _spec(reference, True, pull=policy, **options)
    if not spec.container.by_reference:
        raise UsageError(
            f"{reference} is a file or directory, and needs no pull", "name an image of a registry, as docker://…"
        )
    if output and RUNTIMES[spec.container.runtime].NAMED:
        raise UsageError(f"{spec.container.runtime} makes no file", "leave out -o, or use --runtime apptainer")
    shown = Screen(quiet)
    if not output:
        click.echo(_pulled(spec, shown))
        return
    target = Path(output).expanduser().absolute()
    with building.workshop(target, force) as place:
        try:
            shutil.copyfile(_pulled(spec, shown), place / "image.sif")
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror}", "name another with -o") from None
        building.keep(place / "image.sif", target)
    click.echo(str(target))


def _spec(name: str, local: bool, **options: object) -> JobSpec:
    """Return a job in this image, on this machine if `local`. Raises LaunchError."""
    return session.spec_of(("true",), {"image": name, **options}, scope=load.Scope(own={"local": local}))


def _pulled(spec: JobSpec, shown: Screen) -> str:
    """Pull the image of a job to this machine, and return its place. Raises LaunchError."""
    allocation, site = nodes.current(spec)
    launch_plan = plan.make(spec, layout.lay_out(spec, allocation), f"pull-{session.token()}")
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    try:
        with Signals(events):
            pulled = preparation.prepare(launch_plan, site, os.environ, events, shown, process.start)
    except Stopped as stop:
        sys.exit(128 + stop.signum)
    finally:
        shown.done()
    return pulled.spec.container.image_name


def _asked(name: str, **options: object) -> tuple[probe.Probe, str]:
    """Return a question about an image to the first node of this Slurm job, or here, and the image's name there.

    Raises UsageError if this machine can tell that the image is not there.
    """
    spec = _spec(name, not nodes.in_job(), **options)
    allocation, site = nodes.current(spec)
    node_probe = probe.Probe(spec, allocation, site, os.environ, None)
    if node_probe.cache:
        cache.owned(Path(node_probe.cache))
    place = node_probe.image
    if not place:
        raise UsageError(f"{name} is not in {spec.container.image_cache}", f"mnrun image pull {name}")
    if spec.hosts.local and place.startswith("/") and not (os.path.isfile(place) or os.path.isdir(place)):
        problem = "is neither a file nor a directory" if os.path.exists(place) else "does not exist"
        raise UsageError(f"{place} {problem}", "name a file, a directory or a reference")
    return node_probe, place


def inspect(name: str, **options: object) -> None:
    """Show what an image has for mnrun, and whether its MPI works here: in a Slurm job on its first node."""
    node_probe, _ = _asked(name, **options)
    facts = node_probe.ask()
    if facts is None or facts.silent:
        raise RuntimeFailed(f"no container of {name} answers: {facts.silent if facts else node_probe.origin}")
    width = max(len(label) for label, _ in inspection.rows(facts))
    for label, value in inspection.rows(facts):
        print_text(f"{label.ljust(width)}  {value}")
    for line in show.Judgement(node_probe.judge(facts), node_probe.origin, node_probe.spec).lines:
        print_text(line)


def verify(name: str, key: str, **options: object) -> None:
    """Compare the digests of an image file on all nodes of the Slurm job, or show it here, and check its signature.

    A key demands a signature: cosign's for an image that was pulled from a registry, or else Apptainer's in the file.
    """
    node_probe, place = _asked(name, **options)
    container = node_probe.spec.container
    if RUNTIMES[container.runtime].NAMED:
        raise UsageError(f"{container.runtime} has no file of {name}", "each launch compares the images of stores")
    if key and not os.path.isfile(key):
        raise UsageError(f"--key {key} is not a file", "name a public key in PEM format")
    allocation = node_probe.allocation
    assert allocation is not None
    names = [node.name for node in allocation.nodes]
    program = container.runtime if container.runtime in FILES else ""
    signature, image = "", container.image
    if key and image is not None and image.kind is ImageKind.REFERENCE:
        digest = Path(place).stem.replace("-", ":")  # the cache names files by the digest of the image in the registry
        if in_registry := reference.by_digest(image.name, digest):
            signature, program = cosign.signature(in_registry, key), ""
    key = os.path.abspath(key) if key else ""
    words = (*BASH, "-c", kit.verifying(), kit.NODE, node_probe.cache, place, key, program)
    answer = SCHEDULERS[node_probe.site.scheduler].on_each(allocation, names, words, os.environ)
    found = inspection.copies(parse(answer), names, signature)
    screen.table(("NODES", "DIGEST", "SIGNATURE"), inspection.table(found))
    sys.stdout.flush()
    inspection.refuse(name, found, bool(key))


def convert(source: str, output: str, tag: str, store: str | None, force: bool, verbose: bool, quiet: bool) -> None:
    """Turn an image of Podman's or Docker's store into a file, or a file into such an image, on this machine."""
    if bool(output) + bool(tag) != 1:
        raise UsageError("an image needs one place", "write -o FILE.sif, or --tag NAME")
    if tag and not Path(source).expanduser().exists():
        raise UsageError(f"{source} does not exist", "name a file, or use -o FILE.sif for an image of a store")
    programs = builders.choose(STORES, store or "", process.has), builders.choose(FILES, "", process.has)
    building.refuse_root(programs[1], os.getuid())
    shown = Screen(quiet, verbose)
    shown.say(f"converting {source} to {output or tag}, by {' and '.join(programs)}")
    try:
        if output:
            _file_of(source, Path(output).expanduser().absolute(), programs, force, shown)
        else:
            _store_of(Path(source).expanduser().absolute(), tag, programs, shown)
    except Stopped as stop:
        sys.exit(128 + stop.signum)


def _file_of(source: str, target: Path, programs: tuple[str, str], force: bool, shown: Screen) -> None:
    with building.workshop(target, force) as place:
        made = place / "image.sif"
        words = builders.conversion(*programs, _podman_root(), place, "file", source, str(made))
        building.run(str(target), words, place, os.environ, shown)
        building.keep(made, target)
    click.echo(str(target))


def _store_of(source: Path, tag: str, programs: tuple[str, str], shown: Screen) -> None:
    with building.sheltered("mnrun-convert.") as place:
        words = builders.conversion(*programs, _podman_root(), place, "store", str(source), tag)
        building.run(tag, words, place, os.environ, shown)
    click.echo(tag)
