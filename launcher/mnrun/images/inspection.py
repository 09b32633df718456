"""Describe images by the facts that nodes and containers reported: what one has for mnrun, and whether nodes have the
same. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from mnrun import nodeset
from mnrun.errors import NodeError, RuntimeFailed
from mnrun.facts import Fact, values
from mnrun.mpi.facts import MpiFacts

NONE = "none"


@dataclass(frozen=True)
class Listed:
    """An image of the cache, or an image file in a directory."""

    names: Annotated[tuple[str, ...], "the references to it; none if each has a newer image"]
    digest: Annotated[str, "its digest in the registry; empty for a file in a directory"]
    size: Annotated[int, "size of the file, in bytes"]
    used: Annotated[float, "when a job last took it, or a file of a directory was last changed, in seconds since 1970"]
    file: Annotated[str, "the file"]


@dataclass(frozen=True)
class Cache:
    """The images of the cache or of a directory, those used longest ago first."""

    cache: Annotated[str, "the directory"]
    images: Annotated[tuple[Listed, ...], "one for each file"]


@dataclass(frozen=True)
class Inspected:
    """What an image has for mnrun, and whether it works. A text is empty where the image has no such thing."""

    image: Annotated[str, "the file, the directory, or the name in a store"]
    size: Annotated[int | None, "of a file, or in a store, in bytes"]
    digest: Annotated[str, "of a file its SHA-256; of the cache or a store that in a registry, or else the id"]
    system: Annotated[str, "name and version of its Linux"]
    architecture: Annotated[str, "`x86_64`, `aarch64` …"]
    glibc: Annotated[str, "version of the C library"]
    mpis: Annotated[tuple[str, ...], "its MPIs, in the order of PATH"]
    pmix: Annotated[str, "version of PMIx"]
    sshd: Annotated[str, "version of sshd"]
    python: Annotated[str, "version and path of the first `python3` on PATH"]
    pytorch: Annotated[str, "version of that Python's PyTorch"]
    cuda: Annotated[str, "version of CUDA, by CUDA_VERSION, /usr/local/cuda-VERSION or PyTorch"]
    verdict: Annotated[tuple[str, ...], "the verdict of `mnrun plan`, in lines"]


def inspected(name: str, size: int | None, digest: str, facts: MpiFacts, verdict: Sequence[str]) -> Inspected:
    """Return an image by the facts that its container reported."""
    image = facts.image
    told = image.values
    return Inspected(
        image=name,
        size=size,
        digest=digest,
        system=told.get("system", ""),
        architecture=told.get("arch", ""),
        glibc=told.get("glibc", "").replace("glibc ", ""),
        mpis=tuple(map(str, image.mpis)),
        pmix=image.pmix,
        sshd=told.get("sshd", ""),
        python=told.get("python", ""),
        pytorch=told.get("pytorch", ""),
        cuda=told.get("cuda") or told.get("toolkit") or told.get("pytorch_cuda", ""),
        verdict=tuple(verdict),
    )


def stored(facts: MpiFacts) -> tuple[int | None, str]:
    """Return the size and the digest of an image in the store of an engine: that of its registry, or else its id."""
    size, *names = facts.node.values.get("stored", "").split() or [""]
    digests = [digest for name in names[1:] if (digest := name.rpartition("@")[2])]
    identity = f"sha256:{names[0].rpartition(':')[2]}" if names else ""
    return int(size) if size.isdecimal() else None, (digests or [identity])[0]


def rows(found: Inspected, size: str) -> list[tuple[str, str]]:
    """Return (property, value) of an image. The lines stay the same for every image, so that two can be compared."""
    return [
        ("size", size or "unknown"),
        ("digest", found.digest or "unknown"),
        ("system", found.system or "unknown"),
        ("architecture", found.architecture or "unknown"),
        ("glibc", found.glibc or NONE),
        *(("MPI", text) for text in found.mpis or (NONE,)),
        ("PMIx", found.pmix or NONE),
        ("sshd", found.sshd or NONE),
        ("Python", found.python or NONE),
        ("PyTorch", found.pytorch or NONE),
        ("CUDA", found.cuda or NONE),
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


def copies(answers: Mapping[str, Sequence[Fact]], nodes: Sequence[str], signature: str = "") -> list[Copy]:
    """Return the nodes' image files, by verify_image.sh's facts. `signature` is of all, if no node looked for one."""
    found = []
    for name in nodes:
        said = values(answers.get(name, ()), "node")
        missing = "" if "digest" in said else said.get("missing", "no answer")
        found.append(Copy(name, said.get("digest", ""), said.get("signature", signature), missing))
    return found


def table(found: Sequence[Copy]) -> list[tuple[str, str, str]]:
    """Return (nodes, digest, signature), with nodes of equal files in one row."""
    rows = ((c.node, (c.digest or c.missing, "none" if c.unsigned else c.signature)) for c in found)
    return [(nodes, *row) for nodes, row in nodeset.grouped(rows)]


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
        problem = f"{image} has no valid signature: {nodeset.folded(bad)}"
        raise RuntimeFailed(problem, "get the image anew, or name another --key")
