"""`mnrun image`: its verbs and their options. work/image.py does their work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.jobs import CONTEXT
from mnrun.images import BUILDERS, FORMATS, STORES

_cache = click.option("--image-cache", metavar="DIR", help="Directory of the images.  [default: ~/.mnrun/cache]")
_timeout = click.option("--pull-timeout", metavar="TIME", help="Time limit for the pull.  [default: 30m]")
_runtime = click.option("--runtime", metavar="NAME", default=None, help="Container runtime, as for a job.")


@click.group(context_settings=CONTEXT)
def image() -> None:
    """Build images from recipes, and look after those that are there."""


@image.command("recipes")
def recipes_(**given: Any) -> None:
    """List the recipes that ship with mnrun, with their build arguments."""
    from mnrun.cli.work import image as work

    work.recipes_(**given)


@image.command("build")
@click.argument("source", metavar="RECIPE|FILE")
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
def build(**given: Any) -> None:
    """Build an image from a recipe of mnrun, or from a recipe, Dockerfile or definition of yours.

    A recipe of yours is a program for HPCCM, and its name ends in .py.
    """
    from mnrun.cli.work import image as work

    work.build(**given)


@image.command()
@_cache
def ls(**given: Any) -> None:
    """List the images in the cache, those used longest ago first."""
    from mnrun.cli.work import image as work

    work.ls(**given)


@image.command()
@click.option("--older", default="30d", show_default=True, metavar="TIME", help="Time without a job: 30d, 12h or 4w.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@_cache
def gc(**given: Any) -> None:
    """Remove images from the cache that no job has used for long, as `mnrun clean --images` does."""
    from mnrun.cli.work import image as work

    work.gc(**given)


@image.command()
@click.argument("reference")
@click.option("-o", "--output", metavar="FILE", default="", help="Copy the image to this file.")
@click.option("--pull", "policy", type=click.Choice(["missing", "always"]), default="missing", help="As for a job.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option("-Q", "--quiet", is_flag=True, help="Show errors only.")
@_runtime
@_timeout
@_cache
def pull(**given: Any) -> None:
    """Pull an image of a registry to this machine, as a job would, and print its place."""
    from mnrun.cli.work import image as work

    work.pull(**given)


@image.command()
@click.argument("name", metavar="IMAGE")
@_runtime
@_cache
def inspect(**given: Any) -> None:
    """Show what an image has for mnrun, and whether its MPI works here: in a Slurm job on its first node."""
    from mnrun.cli.work import image as work

    work.inspect(**given)


@image.command()
@click.argument("name", metavar="IMAGE")
@click.option("--key", metavar="FILE", default="", help="Demand a signature by this public key (PEM).")
@_runtime
@_cache
def verify(**given: Any) -> None:
    """Compare the digests of an image file on all nodes of the Slurm job, or show it here, and check its signature."""
    from mnrun.cli.work import image as work

    work.verify(**given)


@image.command()
@click.argument("source", metavar="FILE|NAME")
@click.option("-o", "--output", metavar="FILE", default="", help="Make this SIF file of an image in a store.")
@click.option("-t", "--tag", metavar="NAME", default="", help="Make an image of this name in a store, of a file.")
@click.option("--store", type=click.Choice(STORES), default=None, help="Use this store.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@click.option("-v", "--verbose", is_flag=True, help="Show all that the programs say.")
@click.option("-Q", "--quiet", is_flag=True, help="Show errors only.")
def convert(**given: Any) -> None:
    """Turn an image of Podman's or Docker's store into a file, or a file into such an image, on this machine."""
    from mnrun.cli.work import image as work

    work.convert(**given)
