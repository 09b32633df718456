"""Describe what an image has for mnrun, by the facts that a container of it reported. Reads no file."""

from __future__ import annotations

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
