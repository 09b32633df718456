"""Each way by which a command of alice's comes to a node, or looks at something: the columns of test_promises.py."""

from __future__ import annotations

from dataclasses import dataclass

from .stranger import FIRST

NODE = ("-N1", "-w", FIRST)
HELD = ("salloc", "-Q", *NODE)


@dataclass(frozen=True)
class Entry:
    """A command line up to its image. `program` says that it has --image, and a program to start."""

    words: tuple[str, ...]
    program: bool = False

    def line(self, image: str) -> tuple[str, ...]:
        """Return the words with an image, or without one if it is ""."""
        named = ("--image", image) if self.program else (image,)
        return (*self.words, *(named if image else ()), *(("--", "true") if self.program else ()))


STARTS = {
    "run": Entry((*HELD, "mnrun", "-Q"), program=True),
    "submit": Entry(("mnrun", "submit", "--wait", *NODE, "-o", "out", "-e", "err"), program=True),
    "paramiko": Entry(("mnrun", "-Q", "--hosts", FIRST, "--rsh", "paramiko"), program=True),
    "ssh": Entry(("mnrun", "-Q", "--hosts", FIRST, "--rsh", "ssh"), program=True),
    "local": Entry(("mnrun", "-Q", "--local"), program=True),
}
PAPER = {
    "plan on paper": Entry(("mnrun", "plan"), program=True),
    "dry run": Entry(("mnrun", "submit", "--dry-run"), program=True),
}
PAPER_HELD = {  # the job has nodes, which these lines do not ask
    "dry run on a node": Entry((*HELD, "mnrun", "submit", "--dry-run"), program=True),
    "script on a node": Entry((*HELD, "mnrun", "plan", "--format", "sbatch"), program=True),
}
PLANS = {
    "plan": Entry((*HELD, "mnrun", "plan"), program=True),
    "plan of hosts": Entry(("mnrun", "plan", "--hosts", FIRST), program=True),
    "plan of this machine": Entry(("mnrun", "plan", "--local"), program=True),
    "check": Entry(("mnrun", "check", *NODE, "--image")),
    "check of hosts": Entry(("mnrun", "check", "--hosts", FIRST, "--image")),
}
VERBS = {
    "inspect": Entry(("mnrun", "image", "inspect")),
    "inspect on a node": Entry((*HELD, "mnrun", "image", "inspect")),
    "verify": Entry(("mnrun", "image", "verify")),
    "verify on a node": Entry((*HELD, "mnrun", "image", "verify")),
}
PULL = {"pull": Entry(("mnrun", "image", "pull"))}
LIST = {"ls": Entry(("mnrun", "image", "ls"))}
STORES = {
    "convert": Entry(("mnrun", "image", "convert", "-o", "made.sif", "--store", "podman")),
    "build": Entry(("mnrun", "image", "build", "Dockerfile", "--builder", "podman", "--tag")),
}
WAYS = {**STARTS, **PAPER, **PAPER_HELD, **PLANS, **VERBS, **PULL, **LIST, **STORES}
