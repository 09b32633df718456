"""The ways into a job's directory on a node, into.sh and await.sh, run for real: neither believes a name in /tmp."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mnrun.nodes import kit
from unit.conftest import Shell, own

SHELLS = (("sh",), ("dash",), ("bash",), ("bash", "-p"), ("busybox", "sh"))
# As root: in a directory that all may enter, which Python's own is not. $place is the job's directory, $as who enters.
FOREIGN = """
above=$(mktemp -d /tmp/mnrun-test.XXXXXX) && trap 'rm -rf "$above"' EXIT && chmod 755 "$above"
place=$above/mnrun.7
mkdir "$place" && echo "$place node01 1 0" >"$place/own" && mkfifo "$place/gate" && : >"$place/open"
echo 'echo ran' | tee "$place/script.sh" >"$place/head.sh"
chmod -R a+rX "$place"; chown -R 1500:1500 "$place"
as='setpriv --reuid 1500 --regid 1500 --clear-groups'
cd "$above"
"""
root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can play two users, and by setpriv"
)


@pytest.fixture(params=SHELLS, ids=" ".join)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the words of a shell that is here."""
    found: tuple[str, ...] = request.param
    if shutil.which(found[0]) is None:
        pytest.skip(f"there is no {found[0]} here")
    return (*found, "-c", kit.spoken(kit.INTO))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make a job's directory with a script that says how it was started."""
    made = own(tmp_path / "mnrun.7")
    script = 'printf "<%s>" "$mnrun_here" "$mnrun_back" "${mnrun_from-}" "$@"; pwd; exit 7\n'
    (made / "script.sh").write_text(script)
    return made


def test_a_script_runs_in_the_directory_with_its_words(sh: Shell, words: tuple[str, ...], place: Path) -> None:
    """And it knows whence it came; its code is the code."""
    given = ("a b", "", "$x", "-n", "two\nlines")
    said = sh('exec "$@"', *words, str(place), "script.sh", *given, code=7).decode()
    shown = "".join(f"<{word}>" for word in (place, place.parent, "", *given))
    assert said == f"{shown}{place}\n"


def test_whence_it_came_may_be_told(sh: Shell, words: tuple[str, ...], place: Path) -> None:
    """Where one who was in the directory already starts it again; and nobody after it is told so."""
    said = sh('exec "$@"', *words, str(place), "script.sh", environ={"mnrun_from": "/usr"}, code=7).decode()
    assert said == f"<{place}></usr><>{place}\n"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param('rm -r "$1"', id="not there"),
        pytest.param('rm "$1/own"', id="without a name"),
        pytest.param(': >"$1/own"', id="with no name"),
        pytest.param('echo "${1%7}8 node01 1 0" >"$1/own"', id="with another's name"),
        pytest.param('mkdir elsewhere && mv "$1" elsewhere && ln -s elsewhere/mnrun.7 "$1"', id="a link to it"),
        pytest.param('mv "$1" x && cp x/script.sh "$1"', id="a file"),
    ],
)
def test_what_is_not_the_jobs_directory_is_refused(sh: Shell, words: tuple[str, ...], place: Path, spoilt: str) -> None:
    """Nothing is read from it but its name, however good it looks."""
    said = sh(f'{spoilt}\nshift; exec "$@" 2>&1', str(place), *words, str(place), "script.sh", code=121)
    assert said.decode().splitlines()[-1] == f"mnrun: {place} is not the directory of this job"
    assert b"<" not in said


@root
@pytest.mark.parametrize("theirs", ["", '"$place"', '"$place/own"', '-R "$place"'])
def test_a_directory_of_somebody_else_is_refused(sh: Shell, words: tuple[str, ...], theirs: str) -> None:
    """Though it has the right name in it, and all may read it. One that is ours is not."""
    spoilt = f"chown 1501 {theirs}" if theirs else ":"
    script = f'{FOREIGN}{spoilt}\n$as "$@" "$place" script.sh 2>&1; code=$?; echo "$place"; exit $code'
    *said, name = sh(script, *words, code=121 if theirs else 0).decode().splitlines()
    assert said == ([f"mnrun: {name} is not the directory of this job"] if theirs else ["ran"])


AWAIT = ("bash", "-p", "-c", kit.spoken(kit.AWAIT))
# Tells the last one that was started to end, once it can hear it: proc(5), status, SigCgt.
TELL = r"""
until [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$!/status") & 0x4000)) != 0 ]; do sleep 0.02; done
sleep 0.2; kill -TERM $!; wait $!
"""


def test_the_head_waits_for_a_directory_that_comes_late(sh: Shell, tmp_path: Path) -> None:
    """Which is made first, has its name then, and its files last; until all that is so, the head does not begin."""
    place = tmp_path / "mnrun.7-abcdef"
    script = """{
    sleep 0.1; mkdir -m 700 "$1"; sleep 0.1; echo "$1 node01 1 0" >"$1/own"
    sleep 0.1; echo 'printf "<%s>" "$PWD" "$MNRUN_JOB_ID" "$@"' >"$1/head.sh"; sleep 0.1; : >"$1/open"
    } &
    shift; exec "$@" 2>&1"""
    said = sh(script, str(place), *AWAIT, str(place), "a b", "$x;")
    assert said.decode() == f"<{place}><7-abcdef><a b><$x;>"
    assert {path.name for path in place.iterdir()} == {"own", "open", "head.sh", "gate"}


@pytest.mark.parametrize("gone", ['rm "$1/own"', 'rm -r "$1"'])
def test_the_head_ends_with_its_guard(sh: Shell, place: Path, gone: str) -> None:
    """Which has taken its files away before it made the gate, with the directory or without."""
    script = f'{{ sleep 0.2; {gone}; }} &\nshift; exec timeout 10 "$@" 2>&1'
    assert sh(script, str(place), *AWAIT, str(place), "a") == b""


def test_the_head_is_told_to_end_where_there_is_no_guard(sh: Shell, tmp_path: Path) -> None:
    """And it does, without a word."""
    assert sh(f'"$@" 2>&1 &{TELL}', *AWAIT, f"{tmp_path}/none", "a") == b""


def test_the_head_is_told_by_a_row_of_signals(sh: Shell, tmp_path: Path) -> None:
    """srun forwards USR1, but not TERM. One or two may be a scheduler's or a user's, and do not end it."""
    told = TELL.replace("kill -TERM $!; wait $!", "")
    script = f"""exec 2>&1; "$@" &{told}
    tell() {{ kill -USR1 $! && sleep 0.2; }}
    tell; tell; kill -0 $! && echo waits
    tell; kill -USR1 $!; wait $!"""
    assert sh(script, *AWAIT, f"{tmp_path}/none", "a") == b"waits\n"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param('echo "${1%7}8 node01 1 0" >"$1/own"', id="another's name"),
        pytest.param('mkdir elsewhere && mv "$1" elsewhere && ln -s elsewhere/mnrun.7 "$1"', id="a link to it"),
    ],
)
def test_the_head_goes_on_waiting_before_what_is_not_the_jobs_directory(sh: Shell, place: Path, spoilt: str) -> None:
    """Everything is there, and yet it is not its guard's."""
    (place / "head.sh").write_text("echo ran\n")
    script = f'mkfifo "$1/gate"; : >"$1/open"; {spoilt}\nshift; "$@" 2>&1 &{TELL}'
    assert sh(script, str(place), *AWAIT, str(place)) == b""


@root
@pytest.mark.parametrize("mode", ["755", "700"])
def test_the_head_refuses_a_directory_of_somebody_else(sh: Shell, mode: str) -> None:
    """At once, whether or not he lets it in: it would wait for ever."""
    script = f'{FOREIGN}chown -R 1501 "$place"; chmod {mode} "$place"'
    script += '\ntimeout 10 $as "$@" "$place" 2>&1; code=$?; echo "$place"; exit $code'
    said, name = sh(script, *AWAIT, code=121).decode().splitlines()
    assert said == f"mnrun: {name} belongs to another user"


@pytest.mark.skipif(os.geteuid() == 0, reason="the test above says more")
def test_the_head_refuses_what_is_not_its_users(sh: Shell) -> None:
    """As far as one user alone can tell."""
    said = sh('exec timeout 10 "$@" 2>&1', *AWAIT, "/usr", code=121)
    assert said == b"mnrun: /usr belongs to another user\n"
