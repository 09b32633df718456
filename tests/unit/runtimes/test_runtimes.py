"""One table over all runtimes: a maximal and a minimal box, and every way to say "in a container"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mnrun.errors import Impossible
from mnrun.jobspec import Mount
from mnrun.model import Box, Words
from mnrun.runtimes import RUNTIMES, SHARING

MINIMAL = Box(image="/app.sif", binds=(), home="/home/alice", chdir="/home/alice/run", job="7-abc")
MAXIMAL = Box(
    image="/images/a b.sif",
    binds=(Mount("/tmp/mnrun.7-abc"), Mount("/x", "/etc/passwd"), Mount("/data dir", "/in", "ro")),
    home="",
    chdir="/it's here",
    args=("--writable-tmpfs", "--no-mount", "hostfs"),
    job="7-abc",
    hardened=True,
)
BOXES = {"minimal": MINIMAL, "maximal": MAXIMAL}

BINDS = ("--bind", "/tmp/mnrun.7-abc:/tmp/mnrun.7-abc", "--bind", "/x:/etc/passwd", "--bind", "/data dir:/in:ro")
HOME = ("--bind", "/home/alice:/home/alice")
REST = ("--pwd", "/it's here", "--writable-tmpfs", "--no-mount", "hostfs", "/images/a b.sif")


def engine(name: str) -> dict[tuple[str, str], Words]:
    """docker's and podman's: alike but for the user, whom podman maps."""
    first = (name, "run", "--rm", "--interactive", "--label=mnrun.job=7-abc")
    inside: Words = ("--init",)
    outside: Words = ("--pid=host",)
    if name == "podman":
        ours = ("--userns=keep-id", "--group-add=keep-groups", "--ulimit=host")
        inside, outside = ("--init", "--cgroups=disabled", *ours), (*outside, *ours)
    shared = ("--network=host", "--ipc=host", "--uts=host", "--log-driver=none", "--entrypoint=")
    trace = {"minimal": ("--cap-add=SYS_PTRACE",), "maximal": ()}  # the maximal one is hardened
    home = ("--security-opt=no-new-privileges", "--mount", "type=bind,source=/home/alice,target=/home/alice")
    minimal = (*shared, *home, "--workdir", "/home/alice/run", "/app.sif")
    mounts = (
        *("--mount", "type=bind,source=/tmp/mnrun.7-abc,target=/tmp/mnrun.7-abc"),
        *("--mount", "type=bind,source=/x,target=/etc/passwd"),
        *("--mount", "type=bind,source=/data dir,target=/in,readonly"),
    )
    rights = ("--cap-drop=ALL", "--security-opt=no-new-privileges")
    maximal = (*shared, *rights, *mounts, "--workdir", *REST[1:])
    each = {"minimal": minimal, "maximal": maximal}
    return {
        **{("node", box): (*first, *inside, *trace[box], *rest) for box, rest in each.items()},
        **{("rank", box): (*first, *outside, *rest) for box, rest in each.items()},
    }


HELD = "instance://sharens_instance_MNRUN_HOLDER"
EXPECTED: dict[tuple[str, str, str], Words] = {
    ("apptainer", "node", "minimal"): (
        "apptainer",
        "-q",
        "exec",
        "--pid",
        *HOME,
        "--pwd",
        "/home/alice/run",
        "/app.sif",
    ),
    ("apptainer", "rank", "minimal"): ("apptainer", "-q", "exec", *HOME, "--pwd", "/home/alice/run", "/app.sif"),
    ("apptainer", "hold", "minimal"): (
        "apptainer",
        "-q",
        "exec",
        "--sharens",
        *HOME,
        "--pwd",
        "/home/alice/run",
        "/app.sif",
    ),
    ("apptainer", "join", "minimal"): ("apptainer", "-q", "exec", "--pwd", "/home/alice/run", HELD),
    ("apptainer", "node", "maximal"): ("apptainer", "-q", "exec", "--pid", "--no-home", *BINDS, *REST),
    ("apptainer", "rank", "maximal"): ("apptainer", "-q", "exec", "--no-home", *BINDS, *REST),
    ("apptainer", "hold", "maximal"): ("apptainer", "-q", "exec", "--sharens", "--no-home", *BINDS, *REST),
    ("apptainer", "join", "maximal"): ("apptainer", "-q", "exec", "--no-home", *REST[:-1], HELD),
    **{(name, *key): words for name in ("docker", "podman") for key, words in engine(name).items()},
    ("host", "node", "minimal"): (),
    ("host", "rank", "minimal"): (),
    ("host", "node", "maximal"): (),
    ("host", "rank", "maximal"): (),
}


CH_RUN = ("ch-run", "--write-fake", "--no-passwd")
CH_BINDS = (
    *("--bind", "/tmp/mnrun.7-abc:/tmp/mnrun.7-abc", "--bind", "/x:/etc/passwd", "--bind", "/data dir:/in"),
    *("--cd", "/it's here", *REST[2:-1], "/images/a b", "--"),
)
CH_HOME = ("--bind", "/home/alice:/home/alice", "--cd", "/home/alice/run", "/app.sif", "--")


def test_words_of_charliecloud() -> None:
    """Its mounts have no options, so that one that is to be read only is refused."""
    box = replace(MAXIMAL, image="/images/a b", binds=tuple(replace(m, options="") for m in MAXIMAL.binds))
    charliecloud = SHARING["charliecloud"]
    assert charliecloud.node(box) == charliecloud.rank(box) == charliecloud.hold(box) == (*CH_RUN, *CH_BINDS)
    assert charliecloud.join(box) == (*CH_RUN, "--join-pid=MNRUN_HOLDER", *CH_BINDS)
    assert charliecloud.node(MINIMAL) == (*CH_RUN, *CH_HOME)
    with pytest.raises(Impossible, match="cannot mount /data dir read-only"):
        charliecloud.node(MAXIMAL)


EXPECTED.update(
    {
        ("singularity", way, box): ("singularity", *words[1:])
        for (name, way, box), words in EXPECTED.items()
        if name == "apptainer" and way in ("node", "rank")  # SingularityCE has no --sharens
    }
)


@pytest.mark.parametrize(("runtime", "way", "box"), sorted(EXPECTED))
def test_words_in_front_of_a_command(runtime: str, way: str, box: str) -> None:
    """The whole argv; a runtime that is added adds its lines to the table."""
    module = RUNTIMES[runtime]
    assert getattr(module, way)(BOXES[box]) == EXPECTED[runtime, way, box]


def test_what_engines_call_an_image() -> None:
    """Its name, as it stands; what is a file or another registry's is refused."""
    for runtime in ("docker", "podman"):
        assert RUNTIMES[runtime].refuse("docker://host:5000/a/b:1") is None
        assert RUNTIMES[runtime].address("docker://host:5000/a/b:1") == "host:5000/a/b:1"
        assert RUNTIMES[runtime].address("localhost/ompi5") == "localhost/ompi5"
        for wrong in ("./app.sif", "--privileged"):
            assert str(RUNTIMES[runtime].refuse(wrong)) == (
                f"--image {wrong} is not an image name for {runtime}; "
                f"name one of `{runtime} images`, or use --runtime apptainer for a file"
            )


def test_what_charliecloud_does_not_pull() -> None:
    """Its names have no scheme, and no tag beside a digest. ch-image pulls no other kind of image."""
    assert RUNTIMES["charliecloud"].refuse("docker://site/app:1") is None
    assert RUNTIMES["charliecloud"].address("docker://site/app:1") == "site/app:1"
    digest = f"sha256:{'5' * 64}"
    assert RUNTIMES["charliecloud"].address(f"site/app:1@{digest}") == f"site/app@{digest}"
    with pytest.raises(Impossible, match="charliecloud cannot pull oras://site/app:1"):
        RUNTIMES["charliecloud"].address("oras://site/app:1")


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("docker://site/team/app:1.2", "docker://site/team/app:1.2"),
        ("oras://site/app", "oras://site/app"),
        ("registry.example:5000/team/app:1.2", "docker://registry.example:5000/team/app:1.2"),
        (f"app:1.2@sha256:{'a' * 64}", f"docker://app@sha256:{'a' * 64}"),
    ],
)
def test_what_apptainer_calls_an_image_of_a_registry(written: str, address: str) -> None:
    """With a scheme; a digest says all, and it wants no tag beside it."""
    assert RUNTIMES["apptainer"].refuse(written) is None
    assert RUNTIMES["apptainer"].address(written) == address


def test_what_a_node_needs_of_a_runtime() -> None:
    """The program that is looked for there, and whether there is a container at all."""
    assert {name: (module.BINARY, module.CONTAINED) for name, module in RUNTIMES.items()} == {
        "apptainer": ("apptainer", True),
        "singularity": ("singularity", True),
        "docker": ("docker", True),
        "podman": ("podman", True),
        "charliecloud": ("ch-run", True),
        "host": ("", False),
    }


@pytest.mark.parametrize("word", ["--home=/scratch:/home/alice", "-H", "--no-home"])
def test_the_users_own_home_is_not_hidden(word: str) -> None:
    """F9: home is mounted whatever the site says of it, but not where the user's arguments choose another, or none."""
    words = RUNTIMES["apptainer"].node(replace(MINIMAL, args=(word,)))
    assert "/home/alice:/home/alice" not in words
    assert word in words
