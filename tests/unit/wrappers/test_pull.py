"""pull_image.sh: what runtimes say of an image that they cannot have, in a person's words; they are played."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mnrun.nodes import kit
from unit.cases import Cases
from unit.conftest import Shell
from unit.texts import Says

# Its standard input is a lease, which ends once the node has the image.
PULL = """\
mkfifo lease said
bash -p ./pull_image.sh "$@" <lease >said &
exec 5>lease
while read -r line; do
  echo "$line"
  if [[ $line == image* ]]; then exec 5>&-; fi
done <said
wait
"""
DIGEST = "sha256:" + "5" * 64


class Node:
    """Where pull_image.sh runs, with what a runtime says there."""

    def __init__(self, sh: Shell, place: Path) -> None:
        self.sh, self.place = sh, place
        self.job = (
            f"7-{place.name}.{os.getpid()}"  # what ends of one is looked for by it, on the whole machine, and late
        )
        (place / "pull_image.sh").write_text(kit.probe(kit.PULL, "mnrun_beat= mnrun_silence=\n"))
        (place / "bin").mkdir()

    def program(self, name: str, script: str) -> None:
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o700)

    def pull(self, *words: str, environ: Mapping[str, str] = {}, script: str = PULL) -> list[str]:  # read only
        path = f"{self.place}/bin:{os.environ['PATH']}"
        given = {"PATH": path, "MNRUN_NODE": "node01", "TMPDIR": str(self.place), **environ}
        said = self.sh(script, *words, shell="bash", environ=given).decode().splitlines()
        return [line for line in said if not line.startswith("pulling ")]  # a second of a busy machine shows such lines


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path)


DOCKER = """\
case $1 in
  info) echo '{"ServerVersion":"26.1.5"}' ;;
  image) echo "Error: No such image: $3" >&2; exit 1 ;;
  pull) echo "$SAID" >&2; exit 1 ;;
esac
"""
APPTAINER = 'echo "$SAID" >&2; exit 255'


def test_an_image_that_cannot_be_had(cases: Cases, node: Node) -> None:
    def said(runtime: str, reference: str, words: str) -> str:
        node.program(runtime, DOCKER if runtime == "docker" else APPTAINER)
        kind, place = ("store", "") if runtime == "docker" else ("file", str(node.place / "cache"))
        lines = node.pull(kind, reference, "missing", place, node.job, runtime, environ={"SAID": words})
        assert not list(node.place.glob("mnrun.pull.*"))
        return next((line for line in lines if line.startswith("unpulled")), str(lines))

    cases(said)


def test_a_lease_that_ends_at_the_last_word(node: Node) -> None:
    node.program("apptainer", APPTAINER)
    node.program("setsid", "exec cat >/dev/null")
    script = node.place / "pull_image.sh"
    ends = """set -T; trap '[[ ${FUNCNAME-} != finish ]] || kill -TERM $$' DEBUG\n"""
    script.write_text(ends + script.read_text())
    *_, line = node.pull("file", "docker://app:1", "missing", f"{node.place}/cache", node.job, "apptainer")
    assert line.startswith("unpulled node01"), line
    assert not [*node.place.glob("mnrun.pull.*"), *node.place.glob("cache/refs/*")]


def test_podmans_login_is_told_where_nodes_see_it(node: Node) -> None:
    store, mine = node.place / "store", node.place / "run/containers"
    mine.mkdir(parents=True)
    (mine / "auth.json").write_text("{}")
    node.program("getsubids", "exit 0")
    said = (
        "Error: initializing source docker://reg:5000/app:1: reading manifest 1: unauthorized: authentication required"
    )
    node.program(
        "podman", f'case "$*" in *" pull "*) cat $XDG_RUNTIME_DIR/containers/auth.json; echo "{said}"; esac; exit 1'
    )
    runtime_dir = {"XDG_RUNTIME_DIR": str(node.place / "run")}
    lines = node.pull("store", "reg:5000/app:1", "missing", str(store), node.job, "podman", environ=runtime_dir)
    assert "refuses the login" in lines[-1], lines
    assert "`podman login` with --authfile ~/.config/containers/auth.json" in lines[-1]
    assert (store / "user/containers/auth.json").readlink() == mine / "auth.json"


def test_a_digest_that_is_there_is_not_converted_again(node: Node) -> None:
    node.program("apptainer", f"echo asked >{node.place}/asked; exit 1")
    (node.place / "cache").mkdir()
    held = node.place / "cache" / f"{DIGEST.replace(':', '-')}.sif"
    held.write_text("an image")
    (held.parent / "sums").mkdir()
    (held.parent / "sums" / held.name).write_text(f"{hashlib.sha256(b'an image').hexdigest()}  -\n")
    for policy in ("missing", "always", "never"):
        words = ("file", f"docker://other/name@{DIGEST}", policy, str(held.parent), node.job, "apptainer")
        assert node.pull(*words)[-1] == f"image node01 {DIGEST} {held}"
    assert not (node.place / "asked").exists()
    held.write_text("an imag")
    node.pull("file", f"docker://other/name@{DIGEST}", "always", str(held.parent), f"{node.job}.2", "apptainer")
    assert (node.place / "asked").exists(), "(R4) a damaged one was believed"


def test_a_lease_that_ends_while_a_node_cleans_up(node: Node) -> None:
    node.program("setsid", ":")
    node.program("grep", "sleep 0.5")
    (node.place / "cache").mkdir()
    held = node.place / "cache" / f"{DIGEST.replace(':', '-')}.sif"
    held.write_text("an image")
    words = ("file", f"docker://app@{DIGEST}", "missing", str(held.parent), node.job, "apptainer")
    assert node.pull(*words) == [f"image node01 {DIGEST} {held}"]
    assert not list(node.place.glob("mnrun.pull.*"))


LAYERS = """\
layers=$APPTAINER_CACHEDIR/cache/blob/blobs/sha256
ls "$layers" >seen
case $REGISTRY in
  stops)
    printf whole >"$layers/$WHOLE"
    printf brok >"$layers/$(printf broken | sha256sum | cut -d' ' -f1)"
    echo half >"$layers/${WHOLE}123"
    echo half >"$APPTAINER_CACHEDIR/cache/blob/oci-put-blob1"
    exec sleep 60 ;;
  resets) echo "read tcp: connection reset by peer" >&2; exit 255 ;;
  fills) echo "write: no space left on device" >&2; exit 255 ;;
esac
echo "{\\"digest\\": \\"$DIGEST\\"}" >"$APPTAINER_CACHEDIR/cache/blob/index.json"
echo image | tee "$3" >"$APPTAINER_CACHEDIR/cache/oci-tmp/key"
"""
CUT = """\
mkfifo cut
bash -p ./pull_image.sh "$@" <cut >/dev/null &
exec 5>cut
until compgen -G 'cache/refs/*.lock/cache/cache/blob/oci-put-blob1' >/dev/null; do sleep 0.1; done
kill -KILL $!
while compgen -G 'mnrun.pull.*' >/dev/null; do sleep 0.1; done
"""


def test_a_pull_that_was_cut_off_goes_on(node: Node) -> None:
    refs, whole = node.place / "cache/refs", hashlib.sha256(b"whole").hexdigest()
    node.program("apptainer", LAYERS.replace("seen", f"{node.place}/seen"))

    def pull(registry: str, script: str = PULL) -> list[str]:
        environ = {"REGISTRY": registry, "WHOLE": whole, "DIGEST": DIGEST}
        words = ("file", "docker://app:1", "missing", str(refs.parent), node.job, "apptainer")
        return node.pull(*words, environ=environ, script=script)

    def seen() -> list[str]:
        return (node.place / "seen").read_text().split()

    pull("stops", CUT)
    (layers,) = refs.iterdir()
    assert len(list(layers.iterdir())) == 2
    assert "connection reset" in pull("resets")[-1] and seen() == [whole]
    assert [path.name for path in layers.iterdir()] == [whole]
    assert pull("")[-1].startswith(f"image node01 {DIGEST} ") and seen() == [whole]
    assert not layers.exists()
    layers.mkdir()
    (layers / whole).write_text("whole")
    next(refs.parent.glob("*.sif")).unlink()
    assert "no space left" in pull("fills")[-1] and not layers.exists()


SIGNALLED = """\
mkfifo lease said
set -m
bash -p ./pull_image.sh "$@" <lease >said &
set +m
exec 5>lease 6<said
until [[ -e begun ]]; do sleep 0.05; done
kill -USR1 -- "-$!"
kill -CONT -- "-$!"
while read -r line <&6 && [[ $line = pulling* ]]; do :; done
kill -USR2 -- "-$!"
sleep 0.2
exec 5>&-
wait "$!" && echo "$line"
"""


def test_a_signal_for_the_program_ends_no_pull(node: Node) -> None:
    """Slurm sends it to all processes of the step. Nor does it end the lease, with which the pull's step ends."""
    node.program("apptainer", f"touch {node.place}/begun; sleep 0.5\n{LAYERS.replace('seen', '/dev/null')}")
    words = ("file", "docker://app:1", "missing", str(node.place / "cache"), node.job, "apptainer")
    (line,) = node.pull(*words, environ={"REGISTRY": "", "DIGEST": DIGEST}, script=SIGNALLED)
    assert line.startswith(f"image node01 {DIGEST} ")


def test_a_full_cache(node: Node, says: Says) -> None:
    node.program("mkdir", '/bin/mkdir "$@" && case ${*: -1} in *.lock) ln -s /dev/full "${*: -1}/owner" ;; esac')
    cache = node.place / "cache"
    (line,) = node.pull("file", "docker://app:1", "missing", str(cache), node.job, "apptainer")
    says(line)
    assert not list((cache / "refs").iterdir())


TAKEN = f"""\
mkdir -p "$LOCK/claim"
echo node01 4194305 >"$LOCK/owner" # above the highest number of a process (proc(5), pid_max)
touch -d @0 "$LOCK/claim"
for ((round = 0; round < 100; round++)); do
  if [[ $(cat "$LOCK/owner") == "node02 5" && ! -e $LOCK/claim ]]; then echo gone; rm -rf "$LOCK"; break; fi
  sleep 0.05
done 2>/dev/null &
{PULL}"""


def test_a_claim_of_a_dead_lock_does_not_outlive_its_maker(node: Node) -> None:
    node.program("apptainer", LAYERS.replace("seen", "/dev/null"))
    cache = node.place / "cache"
    words = ("file", "docker://app:1", "missing", str(cache), node.job, "apptainer")
    environ = {"REGISTRY": "", "DIGEST": DIGEST}
    node.pull(*words, environ=environ)
    (ref,) = (cache / "refs").iterdir()
    ref.unlink()
    environ["LOCK"] = f"{ref}.lock"
    node.program(
        "mkdir",
        'if /bin/mkdir "$@"; then case ${*: -1} in */claim) echo node02 5 >"$LOCK/owner" ;; esac; else exit 1; fi',
    )
    lines = node.pull(*words, environ=environ, script=TAKEN)
    assert "gone" in lines and lines[-1].startswith(f"image node01 {DIGEST} "), lines


INSPECTED = """\
case "$*" in
  info*) echo '{"ServerVersion":"26.1.5"}' ;;
  *'{{.Id}}'*) echo sha256:1234 ;;
  *) echo "$*" >>asked; echo layers ;;
esac
"""


def test_what_a_version_of_docker_adds_to_an_image_is_no_difference(node: Node) -> None:
    node.program("docker", INSPECTED.replace("asked", f"{node.place}/asked"))
    (line,) = node.pull("store", "localhost/app", "always", "", node.job, "docker")
    assert line.startswith("image node01 sha256:") and line.endswith(" sha256:1234"), line
    asked = (node.place / "asked").read_text()
    assert ".RootFS.Layers" in asked and ".Config.Env" in asked and "json .Config}}" not in asked, asked


def test_an_undertaker_finishes_the_removal_of_a_lock(node: Node) -> None:
    script = """\
end_marked() { :; }
eval "$(sed -n '/^clean() {/,/^}/p' pull_image.sh)"
mkdir -p spare x.lock.node01.7.gone/cache y.lock
cd spare
clean "$PWD" "$OLDPWD/x.lock" "node01 7" "$1"
clean "$PWD" "$OLDPWD/y.lock" "node01 7" "$1"
cd .. && ls -d *lock* spare 2>/dev/null"""
    assert node.sh(f"{script} || :", node.job, shell="bash").decode().split() == ["y.lock"]


CACHED = """\
held=$APPTAINER_CACHEDIR/cache/oci-tmp/$KEY
if [[ ! -e $held ]]; then
  echo "$KEY" >"$held"
  echo "$KEY" >>converted
  echo "{\\"digest\\": \\"sha256:${KEY}\\"}" >"$APPTAINER_CACHEDIR/cache/blob/index.json"
fi
cp "$held" "$3"
"""


def test_a_tag_that_moves_and_comes_back(node: Node) -> None:
    cache, converted = node.place / "cache", node.place / "converted"
    node.program("apptainer", CACHED.replace("converted", str(converted)))
    for number, key in enumerate(("f0", "a1", "a1", "f0", "f0", "a1")):
        words = ("file", "docker://app:1", "always", str(cache), f"{node.job}{number}", "apptainer")
        last = node.pull(*words, environ={"KEY": key})[-1]
        assert last == f"image node01 sha256:{key} {cache}/sha256-{key}.sif"
        assert Path(last.split()[-1]).read_text() == f"{key}\n"
    assert converted.read_text().split() == ["f0", "a1", "f0", "a1"]


def test_a_tag_that_moves_without_apptainers_cache(node: Node) -> None:
    node.program("apptainer", 'echo "$IMAGE" >"$3"')
    for number, text in enumerate(("one", "two", "two")):
        words = ("file", "docker://app:1", "always", str(node.place / "cache"), f"{node.job}{number}", "apptainer")
        place = node.pull(*words, environ={"IMAGE": text})[-1].split()[-1]
        assert Path(place).read_text() == f"{text}\n"


def test_an_image_without_an_index(node: Node) -> None:
    node.program("apptainer", 'echo image | tee "$3" >"$APPTAINER_CACHEDIR/cache/oci-tmp/key"')
    digest = hashlib.sha256(b"image\n").hexdigest()
    words = ("file", "oras://app:1", "missing", str(node.place / "cache"), node.job, "apptainer")
    assert node.pull(*words)[-1].split()[2] == f"sha256:{digest}"
    (reference,) = (path for path in (node.place / "cache/refs").iterdir() if path.is_file())
    assert reference.read_text() == f"sha256:{digest} key {node.job} oras://app:1\n"


def test_where_singularity_unpacks(node: Node) -> None:
    node.program("singularity", 'echo "$SINGULARITY_TMPDIR" >&2; exit 1')
    large = node.place / "large"
    large.mkdir()
    words = ("file", "docker://app:1", "missing", str(node.place / "cache"), node.job, "singularity")
    assert f": {large}/mnrun.pull." in node.pull(*words, environ={"SINGULARITY_TMPDIR": str(large)})[-1]
