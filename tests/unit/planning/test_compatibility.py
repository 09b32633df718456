"""Facts of a node and an image to a verdict: one table of who goes with whom."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.errors import Impossible
from mnrun.facts import parse
from mnrun.mpi.facts import MpiFacts, mpi_facts
from mnrun.planning import compatibility
from unit.samples import build, make

# As wrappers/probe/mpi_node.sh said it on the rehearsal cluster, but for the images that cannot be installed there.
NODE = (
    "node name node01\n"
    "node mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 5.0.7  Report bugs to https://www.open-mpi.org/community/help/\n"
    "node mpi mpich /usr/bin/mpiexec.hydra HYDRA build details:     Version:          4.2.1     Release Date:\n"
    "node pmix PMIx 5.0.7\n"
    "node glibc glibc 2.41\n"
    "node srun none pmi2 cray_shasta pmix specific pmix plugin versions available: pmix_v5\n"
    "node userns yes\n"
    "node users user:[4026531837]\n"
)
OMPI5 = "image mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 5.0.7\nimage pmix PMIx 5.0.7\nimage glibc glibc 2.41\n"
OMPI4 = "image mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4\nimage pmix PMIx 4.2.2\nimage glibc glibc 2.36\n"
MPICH = "image mpi mpich /usr/bin/mpirun HYDRA build details: Version: 4.2.1\n"
MVAPICH2 = "image mpi mvapich2 /opt/mvapich2/bin/mpirun HYDRA build details: Version: 3.2.1\n"
INTEL = (
    "image mpi intelmpi /opt/intel/oneapi/mpi/2021.9.0/bin/mpirun "
    "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)\n"
)
PMIX3 = "image mpi openmpi /usr/local/bin/mpirun mpirun (Open MPI) 4.1.8\nimage pmix 3.2.5\n"
HANGS = "image mpi hangs /usr/bin/mpirun\n"
NONE = "image glibc glibc 2.41\n"
OUTSIDE: dict[str, Any] = {"mode": "outside-in"}


def facts_of(image: str, node: str = NODE) -> MpiFacts:
    lines = "".join(f"fact node01 {line}\n" for line in (node + image).splitlines())
    facts = mpi_facts(parse(f"a word of a login shell\n{lines}"))
    assert facts is not None
    return facts


def test_facts_are_read() -> None:
    """Kinds, versions, places and offers; a word that is none of ours is passed over."""
    facts = facts_of(OMPI4)
    assert [str(mpi) for mpi in facts.node.mpis] == [
        "Open MPI 5.0.7 (/usr/bin/mpirun)",
        "MPICH 4.2.1 (/usr/bin/mpiexec.hydra)",
    ]
    assert (facts.offers, facts.node.pmix, facts.image.pmix) == (("pmi2", "pmix", "pmix_v5"), "5.0.7", "4.2.2")
    assert str(facts_of(INTEL).image.mpis[0]) == "Intel MPI 2021.9 (/opt/intel/oneapi/mpi/2021.9.0/bin/mpirun)"
    assert mpi_facts(parse("srun: error\n\n")) is None


@pytest.mark.parametrize(
    ("given", "image", "chosen"),
    [
        ({}, OMPI5, ("inside-out", "mpirun", "auto")),
        ({}, OMPI4 + MPICH, ("inside-out", "mpirun", "auto")),
        ({"mpi": "mpich"}, OMPI4 + MPICH, ("inside-out", "mpirun", "mpich")),
        ({}, NONE, ("inside-out", "mpirun", "auto")),
        (OUTSIDE, OMPI5, ("outside-in", "mpirun", "openmpi")),
        (OUTSIDE, OMPI4, ("outside-in", "mpirun", "openmpi")),
        (OUTSIDE, MPICH, ("outside-in", "mpirun", "mpich")),
        (OUTSIDE, MVAPICH2, ("outside-in", "mpirun", "mvapich2")),
        (OUTSIDE, INTEL, ("outside-in", "mpirun", "intelmpi")),
        ({"launcher": "srun"}, OMPI5, ("outside-in", "srun", "pmix")),
        (OUTSIDE, PMIX3, ("outside-in", "srun", "pmix")),
        ({**OUTSIDE, "launcher": "mpirun", "nodes": 1}, PMIX3, ("outside-in", "mpirun", "openmpi")),
        ({"launcher": "srun"}, MPICH, ("outside-in", "srun", "pmi2")),
        ({"launcher": "srun"}, MVAPICH2, ("outside-in", "srun", "pmi2")),
        ({"launcher": "srun", "env": ("I_MPI_PMI_LIBRARY=/x",)}, INTEL, ("outside-in", "srun", "pmi2")),
        ({"mpi": "pmi2"}, OMPI5 + MPICH, ("outside-in", "srun", "pmi2")),
        ({"launcher": "env"}, NONE, ("inside-out", "env", "auto")),
    ],
)
def test_what_will_be_done(given: dict[str, Any], image: str, chosen: tuple[str, str, str]) -> None:
    """What is left to us follows the image."""
    spec = build("./app", **given)
    decision = compatibility.decide(spec, compatibility.judge(spec, facts_of(image)))
    assert (decision.start.mode, decision.start.launcher, decision.start.mpi) == chosen


@pytest.mark.parametrize(
    ("given", "image", "said"),
    [
        ({"mpi": "mpich", "mode": "inside-out"}, OMPI5, ("no MPICH: found Open MPI 5.0.7",)),
        ({"mode": "inside-out", "launcher": "mpirun"}, NONE, ("no mpirun", "--mode outside-in")),
        ({"mode": "inside-out", "mpi_args": ("-v",)}, NONE, ("no mpirun", "--mode outside-in")),
        ({"mode": "inside-out"}, HANGS, ("/usr/bin/mpirun, which hangs",)),
        ({"mpi": "pmix"}, MPICH, ("MPICH", "pmi2", "0 of 1", "--mode inside-out works", "--force")),
        ({"mpi": "pmi2"}, OMPI4, ("Open MPI", "pmix", "0 of 1")),
        ({**OUTSIDE, "launcher": "mpirun", "mpi": "openmpi"}, MPICH, ("MPICH", "Open MPI", "0 of 1")),
        (
            {**OUTSIDE, "launcher": "mpirun"},
            PMIX3,
            ("PMIx 3.2.5 is too old for the node's Open MPI 5.0.7", "PML add procs failed", "--mode inside-out works"),
        ),
        ({"launcher": "srun"}, INTEL, ("I_MPI_PMI_LIBRARY",)),
        ({"launcher": "srun"}, OMPI5.replace("5.0.7", "2.0.1"), ("PMIx 2.0.1 is too old",)),
        ({"mpi": "pmi2", "runtime": "docker", "image": "app:1"}, MPICH, ("open file", "docker")),
    ],
)
def test_what_is_known_to_fail_is_refused(given: dict[str, Any], image: str, said: tuple[str, ...]) -> None:
    """With the reason and what works; --force tries it all the same."""
    spec = build("./app", **given)
    with pytest.raises(Impossible) as refused:
        compatibility.decide(spec, compatibility.judge(spec, facts_of(image)))
    for text in said:
        assert text in str(refused.value)
    forced = build("./app", **given, force=True)
    assert compatibility.decide(forced, compatibility.judge(forced, facts_of(image))).start.mode == forced.start.mode


@pytest.mark.parametrize("given", [{}, {"mode": "inside-out"}])
def test_an_image_without_mpirun_leaves_the_starter_open(given: dict[str, Any]) -> None:
    """The head node looks for an mpirun itself, so that an earlier answer never changes the ranks' starter."""
    job = build("./app", **given)
    verdict = compatibility.judge(job, facts_of(NONE))
    assert (verdict.chosen.launcher, verdict.chosen.works) == ("env", True)
    assert compatibility.decide(job, verdict).start.undecided == ("launcher",)
    assert make(compatibility.decide(job, verdict), 1, 1).starter == "auto"


def test_what_an_older_pmix_is_told_under_sruns() -> None:
    """Not to ask for what it has not; unless the user has said something else."""
    for env, value in (((), "native"), (("PMIX_SECURITY_MODE=munge",), "munge")):
        spec = build("./app", launcher="srun", env=env)
        variables = compatibility.decide(spec, compatibility.judge(spec, facts_of(PMIX3))).program.env
        assert [(v.name, v.value) for v in variables if v.name.startswith("PMIX")] == [
            ("PMIX_SECURITY_MODE", value),
            ("PMIX_GDS_MODULE", "hash"),
        ]
    spec = build("./app", launcher="srun")
    assert compatibility.decide(spec, compatibility.judge(spec, facts_of(OMPI4))).program.env == spec.program.env


def test_only_what_srun_offers() -> None:
    """A Slurm without PMIx starts no Open MPI; one without srun nothing; mpirun, where it is left to us, then does."""
    bare = NODE.replace(" pmix specific pmix plugin versions available: pmix_v5", "")
    spec = build("./app", launcher="srun")
    method = compatibility.judge(spec, facts_of(OMPI5, bare)).chosen
    assert (method.works, "needs pmix, srun --mpi offers pmi2: every rank" in method.why) == (False, True)
    spec = build("./app", mpi="pmix")
    assert "offers pmi2, not pmix" in compatibility.judge(spec, facts_of(OMPI5, bare)).chosen.why
    none = "".join(line for line in NODE.splitlines(True) if not line.startswith("node mpi "))
    spec = build("./app", **OUTSIDE)
    assert compatibility.judge(spec, facts_of(OMPI5, none)).chosen.launcher == "srun"


@pytest.mark.parametrize(
    ("given", "image", "said"),
    [
        ({}, OMPI5, "on, the ranks of a node live in one container"),
        (OUTSIDE, OMPI5, "on, the ranks of a node share one container"),
        ({**OUTSIDE, "container_per": "rank"}, OMPI5, "--container-per node shares one (set: OMPI_MCA_btl_vader"),
        ({**OUTSIDE, "runtime": "podman", "image": "app"}, OMPI5, "off, each rank has a container"),
        ({**OUTSIDE, "runtime": "docker", "image": "app"}, OMPI5, "docker forbids kcmp(2), which Open MPI 5 needs"),
        ({**OUTSIDE, "runtime": "docker", "image": "app"}, OMPI4, "on, the containers of a node are in its own"),
        ({"runtime": "docker", "image": "app"}, OMPI5, "on, the ranks of a node live in one container"),
        ({"runtime": "podman", "image": "app", "hardened": True}, OMPI5, "for it: do without --hardened"),
        ({**OUTSIDE, "runtime": "docker", "image": "app", "privileged": True}, OMPI5, "on, the containers"),
        ({**OUTSIDE, "container_per": "rank"}, OMPI5 + "image users user:[4026531837]\n", "on, the containers"),
        ({"runtime": "host"}, OMPI5, "on, there is no container"),
    ],
)
def test_whether_ranks_can_copy_once(given: dict[str, Any], image: str, said: str) -> None:
    """By the containers as they will be, and as they were found to be."""
    assert said in compatibility.single_copy(build("./app", **given), facts_of(image))


def test_two_images_of_one_mind_are_told_which_is_first() -> None:
    """The first on PATH is used; the other is named, with how to have it."""
    why = compatibility.judge(build("./app"), facts_of(OMPI4 + MPICH)).chosen.why
    assert "Open MPI 4.1.4 (/usr/bin/mpirun); it also has MPICH 4.2.1" in why


@pytest.mark.parametrize(
    ("require", "driver", "cuda", "enough"),
    [
        ("cuda>=12.4", "550.54", "12.4", True),
        ("cuda>=12.4", "535.104.05", "12.2", False),
        (
            "cuda>=12.4 brand=tesla,driver>=535,driver<536 brand=tesla,driver>=470,driver<471",
            "535.104.05",
            "12.2",
            True,
        ),
        ("cuda>=12.4 driver>=470,driver<471", "535.104.05", "12.2", False),
        ("cuda>=11.0", "450", "", True),
        ("", "1", "1", True),
    ],
)
def test_driver_and_cuda(require: str, driver: str, cuda: str, enough: bool) -> None:
    """NVIDIA_REQUIRE_CUDA as NVIDIA's images write it; what is not known is not held against anybody."""
    assert compatibility.satisfied(require, {"driver": driver, "cuda": cuda}) is enough


def test_a_driver_that_is_too_old_is_told_with_the_text_that_it_would_give() -> None:
    node = NODE + "node driver 470.57.02\nnode driver_cuda 11.4\n"
    image = OMPI5 + "image cuda 12.4.1\nimage require cuda>=12.4\n"
    notes = compatibility.judge(build("./app"), facts_of(image, node)).notes
    assert any("too old" in note and "CUDA driver version is insufficient" in note for note in notes)
    newer = NODE + "node driver 550.54\nnode driver_cuda 12.4\n"
    assert any(
        "is enough for the image's CUDA 12.4.1" in note
        for note in compatibility.judge(build("./app"), facts_of(image, newer)).notes
    )


OLD = NODE.replace("pmix_v5\n", "pmix_v4\nnode unloadable pmix pmix_v4\n")  # Debian 12's 22.05


@pytest.mark.parametrize("given", [{"launcher": "srun"}, {"launcher": "srun", "mpi": "pmix"}])
def test_a_plugin_that_is_listed_may_not_load(given: dict[str, Any]) -> None:
    """It is not counted among what srun offers, and what works instead is said; auto goes another way."""
    facts = facts_of(OMPI4, OLD)
    assert (facts.offers, facts.broken) == (("pmi2",), ("pmix", "pmix_v4"))
    spec = build("./app", **given)
    with pytest.raises(Impossible) as refused:
        compatibility.decide(spec, compatibility.judge(spec, facts))
    for word in ("pmix", "cannot", "--mode inside-out works"):
        assert word in str(refused.value)
    auto = build("./app", **OUTSIDE)
    assert compatibility.decide(auto, compatibility.judge(auto, facts)).start.launcher == "mpirun"
    spec = build("./app", launcher="srun")
    assert compatibility.judge(spec, facts_of(MPICH, OLD)).chosen.mpi == "pmi2"
