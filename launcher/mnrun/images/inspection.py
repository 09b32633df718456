"""Describe images by the facts that nodes and containers reported: what one has for mnrun, and whether nodes have the
same. Reads no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnrun import nodeset
from mnrun.errors import NodeError, RuntimeFailed
from mnrun.facts import Fact, by_node, values
from mnrun.mpi.facts import MpiFacts

NONE = "none"


def rows(facts: MpiFacts) -> list[tuple[str, str]]:
    """Return (property, value) of an image. The lines stay the same for every image, so that two can be compared."""
    image = facts.image
    mpis = [str(mpi) for mpi in image.mpis] or [NONE]
    return [
        ("system", image.values.get("system", "unknown")),
        ("architecture", image.values.get("arch", "unknown")),
        ("glibc", image.values.get("glibc", NONE).replace("glibc ", "")),
        *(("MPI", text) for text in mpis),
        ("PMIx", image.pmix or NONE),
        ("sshd", image.values.get("sshd", NONE)),
        ("CUDA", image.values.get("cuda", NONE)),
    ]


@dataclass(frozen=True)
class Copy:
    """The image file that a node sees: its digest, the answer of Apptainer or cosign about its signature, or why it has
    none."""

    node: str
    digest: str
    signature: str
    missing: str

    @property
    def signed(self) -> bool:
        return self.signature == "valid"

    @property
    def unsigned(self) -> bool:
        """Return whether the image has no signature, or no program could look for one."""
        return not self.signature or "signature not found" in self.signature or "no signatures found" in self.signature


def copies(facts: Sequence[Fact], nodes: Sequence[str], signature: str = "") -> list[Copy]:
    """Return the image files of the nodes, by the facts of wrappers/images/verify_image.sh.

    `signature` is the answer about all of them where the nodes were not asked for one.
    """
    found = []
    answers = by_node(facts)
    for name in nodes:
        said = values(answers.get(name, ()), "node")
        missing = "" if "digest" in said else said.get("missing", "no answer")
        found.append(Copy(name, said.get("digest", ""), said.get("signature", signature), missing))
    return found


def table(found: Sequence[Copy]) -> list[tuple[str, str, str]]:
    """Return (nodes, digest, signature), with nodes of equal files in one row."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for copy in found:
        row = (copy.digest or copy.missing, "none" if copy.unsigned else copy.signature)
        nodes.setdefault(row, []).append(copy.node)
    return [(nodeset.fold(names), *row) for row, names in nodes.items()]


def refuse(image: str, found: Sequence[Copy], demanded: bool) -> None:
    """Raise NodeError if the files differ, and RuntimeFailed for a wrong signature, or for none if it is `demanded`."""
    missing = {copy.node: copy.missing for copy in found if copy.missing}
    if missing:
        raise NodeError(f"{image} is not on every node: {nodeset.folded(missing)}", "copy it there")
    if len({copy.digest for copy in found}) > 1:
        differing = nodeset.folded({copy.node: copy.digest for copy in found})
        raise NodeError(f"{image} is not the same on all nodes: {differing}", "copy one of them to the others")
    bad = {copy.node: copy.signature or "no runtime looked" for copy in found if not copy.signed}
    if bad and (demanded or not all(copy.unsigned for copy in found)):
        raise RuntimeFailed(
            f"{image} has no valid signature: {nodeset.folded(bad)}", "get the image anew, or name another --key"
        )
