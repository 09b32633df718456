"""Facts of a node and an image to a verdict: one table of who goes with whom."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.errors import Impossible
from mnrun.facts import parse
from mnrun.jobspec import JobSpec
from mnrun.mpi.facts import MpiFacts, mpi_facts
from mnrun.planning import compatibility
from unit.cases import Cases, given
from unit.samples import build, make
from unit.texts import Refused, Says

# As wrappers/probe/mpi_node.sh said it on the rehearsal cluster, but for the images that cannot be installed there.
NODE = (
    "node name node01\n"
    "node mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 5.0.7  Report bugs to https://www.open-mpi.org/community/help/\n"
    "node mpi mpich /usr/bin/mpiexec.hydra HYDRA build details:     Version:          4.2.1     Release Date:\n"
    "node pmix PMIx 5.0.7\n"
    "node glibc glibc 2.41\n"
    "node starts none pmi2 cray_shasta pmix specific pmix plugin versions available: pmix_v5\n"
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
OMPI2 = OMPI5.replace("5.0.7", "2.0.1")
USERS = "image users user:[4026531837]\n"
OUTSIDE: dict[str, Any] = {"mode": "outside-in"}


def facts_of(image: str, node: str = NODE) -> MpiFacts:
    lines = "".join(f"fact node01 {line}\n" for line in (node + image).splitlines())
    facts = mpi_facts(parse(f"a word of a login shell\n{lines}"))
    assert facts is not None
    return facts


def content(names: str) -> str:
    """Return the facts of an image that has all of these."""
    return "".join(globals()[name] for name in names.split())


def judged(spec: JobSpec, image: str) -> compatibility.Verdict:
    return compatibility.judge(spec, facts_of(content(image)))


def test_facts_are_read() -> None:
    facts = facts_of(OMPI4)
    assert [str(mpi) for mpi in facts.node.mpis] == [
        "Open MPI 5.0.7 (/usr/bin/mpirun)",
        "MPICH 4.2.1 (/usr/bin/mpiexec.hydra)",
    ]
    assert (facts.offers, facts.node.pmix, facts.image.pmix) == (("pmi2", "pmix", "pmix_v5"), "5.0.7", "4.2.2")
    assert str(facts_of(INTEL).image.mpis[0]) == "Intel MPI 2021.9 (/opt/intel/oneapi/mpi/2021.9.0/bin/mpirun)"
    assert mpi_facts(parse("srun: error\n\n")) is None


def test_what_will_be_done(cases: Cases) -> None:
    def chosen(options: str, image: str) -> tuple[str, ...]:
        forced = build("./app", **given(f"{options} force"))
        assert compatibility.decide(forced, judged(forced, image)).start.mode
        spec = build("./app", **given(options))
        start = compatibility.decide(spec, judged(spec, image)).start
        return (start.mode, start.launcher, start.mpi)

    cases(chosen)


@pytest.mark.parametrize("given", [{}, {"mode": "inside-out"}])
def test_an_image_without_mpirun_leaves_the_starter_open(given: dict[str, Any]) -> None:
    """The head node looks for an mpirun itself, so that an earlier answer never changes the ranks' starter."""
    job = build("./app", **given)
    verdict = compatibility.judge(job, facts_of(NONE))
    assert (verdict.chosen.launcher, verdict.chosen.works) == ("env", True)
    assert compatibility.decide(job, verdict).start.undecided == ("launcher",)
    assert make(compatibility.decide(job, verdict), 1, 1).starter == "auto"


def test_what_an_older_pmix_is_told_under_sruns() -> None:
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


def test_a_machine_in_no_job_judges_no_srun() -> None:
    """The login node answers by no plugin, though srun works on the nodes."""
    none = NODE.replace("node starts ", "node is ")
    methods = compatibility.judge(build("./app", local=True), facts_of(OMPI5, none)).methods
    assert [method.judged for method in methods if method.launcher == "srun"] == [False]
    methods = compatibility.judge(build("./app"), facts_of(OMPI5, none)).methods
    assert [method.judged for method in methods if method.launcher == "srun"] == [True]


def test_whether_ranks_can_copy_once(cases: Cases) -> None:
    cases(lambda options, image: compatibility.single_copy(build("./app", **given(options)), facts_of(content(image))))


def test_two_images_of_one_mind_are_told_which_is_first(says: Says) -> None:
    why = compatibility.judge(build("./app"), facts_of(OMPI4 + MPICH)).chosen.why
    says(why)


def test_driver_and_cuda(cases: Cases) -> None:
    """NVIDIA_REQUIRE_CUDA as NVIDIA's images write it; what is not known is not held against anybody."""
    cases(lambda require, driver, cuda: compatibility.satisfied(require, {"driver": driver, "cuda": cuda}))


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
def test_a_plugin_that_is_listed_may_not_load(refused: Refused, given: dict[str, Any]) -> None:
    facts = facts_of(OMPI4, OLD)
    assert (facts.offers, facts.broken) == (("pmi2",), ("pmix", "pmix_v4"))
    spec = build("./app", **given)
    with refused(Impossible):
        compatibility.decide(spec, compatibility.judge(spec, facts))
    auto = build("./app", **OUTSIDE)
    assert compatibility.decide(auto, compatibility.judge(auto, facts)).start.launcher == "mpirun"
    spec = build("./app", launcher="srun")
    assert compatibility.judge(spec, facts_of(MPICH, OLD)).chosen.mpi == "pmi2"
