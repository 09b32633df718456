"""The wrappers of the guard (wrappers/guard/): its loop over the lease, its words, and the users of a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnrun.diagnosis import runtimes
from mnrun.diagnosis.recognise import diagnose
from mnrun.files import wrapper, wrappers
from unit.conftest import BOOT, Shell, own
from unit.diagnosis.test_recognise import Text, read
from unit.wrappers.node import Node

RUNTIMES = [text for text in read() if text.entry in {entry.name for entry in runtimes.ENTRIES}]
# The first and the last lines of what Apptainer 1.4.5, Docker 28.2 and Charliecloud 0.38 print about an option that is
# not theirs.
UNKNOWN = {
    """Error for command "exec": unknown flag: --foo

Options for exec command:
""": "Run 'apptainer --help' for more detailed usage information.",
    """unknown flag: --foo

Usage:  docker run [OPTIONS] IMAGE [COMMAND] [ARG...]
""": "Run 'docker run --help' for more information",
    """/usr/bin/ch-run: unrecognized option '--foo'
""": "Try `ch-run --help' or `ch-run --usage' for more information.",
}

NAMES = ("deaf", "listen", "kill_each", "pass_on", "sent")


def function(name: str, script: str = "guard.sh") -> str:
    text = wrapper(script)
    start = text.index(f"\n{name}() {{")
    end = text.index("\n", start + 1) if name == "deaf" else text.index("\n}\n", start) + 2
    return text[start:end]


@pytest.mark.parametrize("made", ['/bin/mkdir "$@"', "false"])
def test_a_term_as_the_directory_is_made(sh: Shell, tmp_path: Path, made: str) -> None:
    """It stayed, if the signal came before bash was ready to remove it. The lease under pdsh goes with it."""
    script = f"""mkdir bin job.lease; cat >bin/mkdir <<'EOF'; chmod 700 bin/mkdir
#!/bin/sh
{made}; code=$?
kill -TERM $PPID $$
exit "$code"
EOF
    PATH=$PWD/bin:$PATH bash -p -c "$1" "$PWD/job" </dev/null >/dev/null; echo $?"""
    assert sh(script, wrapper("boot.sh"), shell="bash") == b"143\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("job")] == []


def test_an_undertaker_that_cannot_start(sh: Shell, tmp_path: Path) -> None:
    """Its reason, and no directory is left."""
    text = wrapper("guard.sh")
    block = text[text.index("\ntrap '' PIPE\nif ! ") : text.index("\ntrap - PIPE\n")]
    script = f"""set -euo pipefail
mkdir job; cd job; mnrun_here=$PWD mnrun_node=n1
exec {{mnrun_life}}> >(exec true)
wait $!
{block}"""
    said = sh(script, shell="bash", code=1).decode()
    assert said.startswith("fail n1 setsid of this node has no --fork"), said
    assert not (tmp_path / "job").exists()


def test_a_lease_that_is_silent_after_a_signal(sh: Shell) -> None:
    """The signal goes on to the ranks, and the limit of the silence counts all the same."""
    functions = "".join(map(function, NAMES)).replace("-t 5", "-t 0.3")
    assert "-t 0.3" in functions
    script = f"""set -euo pipefail
{functions}
declare -A mnrun_heard=()
mnrun_went=1 mnrun_connect=ssh mnrun_shell='' mnrun_silence=5
say() {{ echo "$1"; }}
sleep 60 & rank=$!
outer() {{ REPLY=$rank; }}
echo "7 7" >pid.0
trap 'sent TERM' TERM
mkfifo lease; exec <>lease
(sleep 0.1; kill -TERM $$) &
while listen; do :; done
echo silent
wait "$rank" || echo "$?" """
    lost = "lost it heard nothing from mnrun for 5 s, as where mnrun is stopped"
    assert sh(script, shell="bash").decode().splitlines() == [lost, "silent", "143"]


def test_a_line_that_is_torn_at_a_blank(sh: Shell) -> None:
    """The blank belongs to the line, though the time of a read ran out there."""
    script = f"""set -euo pipefail
{function("listen").replace("-t 5", "-t 0.2")}
mnrun_silence=60
mkfifo lease; exec <>lease
(printf 'file x :a '; sleep 0.5; printf ' b'; sleep 0.5; echo ' c:') >lease &
listen; echo "$mnrun_word $mnrun_name $mnrun_data" """
    assert sh(script, shell="bash") == b"file x :a  b c:\n"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (":", "made"),
        ("ulimit -f 0", "/dev/shm is full, or not writable"),
        (": >shm", "another user has made it"),
        ("ln -s none shm", "another user has made it"),
    ],
    ids=["room", "full", "another's", "a link"],
)
def test_the_jobs_directory_in_shared_memory(sh: Shell, tmp_path: Path, before: str, said: str) -> None:
    """A full /dev/shm may have room for a directory, and none for a file. A limit plays it."""
    own(tmp_path)
    script = f"""set -euo pipefail
trap '' XFSZ; {before}
say() {{ echo "$*"; }}
{function("beside", "sweep.sh")}{function("shared_memory")}
mnrun_shm=$PWD/shm
if shared_memory; then echo made; fi"""
    why = "" if said == "made" else f"fail cannot make {tmp_path}/shm on this node: "
    assert sh(script, shell="bash").decode() == f"{why}{said}\n"
    assert said != "made" or (tmp_path / "shm/own").read_text() == f"{tmp_path}/shm node01 1 0 {BOOT}\n"


@pytest.mark.parametrize(
    ("filtering", "said"),
    [
        ("mnrun_filter=$(sleep 60 >/dev/null & echo $!)", "bye "),
        ("sleep 60 & mnrun_filter=$!", "bye "),
        ("(exit 2) & mnrun_filter=$!; while [[ -d /proc/$! ]]; do sleep 0.01; done", "fail cannot write to"),
    ],
    ids=["forgotten", "lives", "full"],
)
def test_the_end_of_the_filter(sh: Shell, filtering: str, said: str) -> None:
    """A filter that has ended by itself found no room. bash up to 5.0 no longer knows of it, and that tells nothing."""
    stubs = "".join(f"{name}() {{ :; }}; " for name in ("forget_keys", "dismiss", "sweep_all", "used", "wipe"))
    script = f"""set -euo pipefail
{stubs}
say() {{ echo "$*"; }}; memory_used_up() {{ return 1; }}
{function("finish")}
mnrun_here=$PWD mnrun_left='' mnrun_first=''
exec {{mnrun_life}}>/dev/null {{mnrun_mouth}}>/dev/null; : & mnrun_forwarder=$! mnrun_admitting=$!
{filtering}
finish"""
    assert sh(script, shell="bash").decode().startswith(said)


def test_memory_that_is_used_up_where_the_disk_is_full(sh: Shell) -> None:
    """Nobody hears of it then, and nothing else ends for it."""
    script = f"""set -euo pipefail
{wrapper("memory.sh")}
memory_group() {{ REPLY=x; }}; memory_kills() {{ REPLY=1; }}
trap '' XFSZ; ulimit -f 0
memory_note 2>&1; echo lives"""
    assert sh(script, shell="bash") == b"lives\n"


def last_words(sh: Shell, log: str) -> list[str]:
    """What the guard tells of a container whose output is this."""
    Path("serve.log").write_text(log)
    said = sh(f"set -euo pipefail; source {wrappers()['detach.sh']}; last_words", shell="bash").decode()
    return [line.removeprefix("log ") for line in said.splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("text", RUNTIMES, ids=lambda text: text.entry)
def test_the_error_of_a_runtime_comes_before_its_help(sh: Shell, text: Text) -> None:
    """The launcher shows three lines, and they have the cause."""
    said = last_words(sh, text.output + "\n" + "  --option   what it does\n" * 160)
    cause = diagnose(said[-3:], text.code)
    assert cause is not None, said
    assert cause.name == text.entry, said


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("begin", UNKNOWN)
def test_an_option_that_the_runtime_does_not_have(sh: Shell, begin: str) -> None:
    said = last_words(sh, begin + "      --option   what it does\n\n" * 80 + UNKNOWN[begin] + "\n")
    assert said == [begin.partition("\n")[0]]


@pytest.mark.usefixtures("here")
def test_a_container_that_names_no_error(sh: Shell) -> None:
    """The last lines of its output, without colours and empty lines."""
    assert last_words(sh, "") == []
    assert last_words(sh, "\x1b[91mone\x1b[0m\n\ntwo\n") == ["one", "two"]
    assert last_words(sh, "".join(f"{number}\n" for number in range(9))) == ["4", "5", "6", "7", "8"]


def test_what_a_node_waits_for(sh: Shell) -> None:
    """Of the job's processes the youngest without a child, with the place in the kernel where it waits.

    What runs in the job's directory or its `box` is a helper of mnrun's, so an older process elsewhere comes first.
    """
    script = f"""set -euo pipefail
mkdir box
{wrapper("processes.sh")}
{function("waits", "detach.sh")}
trap 'kill "$other" "$first" "$below" ${{helper-}}' EXIT
(cd / && exec sleep 60) >/dev/null & other=$!
until [[ /proc/$other/cwd -ef / ]]; do sleep 0.02; done
sleep 61 >/dev/null & first=$!
sleep 0.05
sh -c 'sleep 62; exit' >/dev/null & second=$!
until read -r below <"/proc/$second/task/$second/children" || [[ -n $below ]]; do sleep 0.02; done
alive() {{ mnrun_alive=("$first" "$below" "$second"); }}
waits
alive() {{ mnrun_alive=("$first" "$other" "$below"); }}
waits
(cd box && exec sleep 63) >/dev/null & helper=$!
until [[ /proc/$helper/cwd -ef box ]]; do sleep 0.02; done
alive() {{ mnrun_alive=("$other" "$helper"); }}
waits
alive() {{ mnrun_alive=(); }}
waits"""
    said, elsewhere, boxed, nothing = sh(script, shell="bash").decode().splitlines()
    assert said.startswith("waits sleep 62 (") and said.endswith(")"), said
    assert elsewhere.startswith("waits sleep 60 ("), elsewhere
    assert boxed.startswith("waits sleep 60 ("), boxed
    assert nothing == "waits "


def test_a_container_that_starts_after_the_sweep(sh: Shell) -> None:
    """Its box lives on, and nobody else would end it: the guard sweeps again."""
    script = f"""set -uo pipefail
remain() {{ [[ -d /proc/$1 ]]; }}
rest() {{ sleep 0.001; }}
sleep 60 >/dev/null & box=$!
sweep_all() {{ echo swept; kill "$box"; wait "$box"; }}
{wrapper("processes.sh")}
{function("outlast")}
outlast "$box"
outlast "$box"
echo done"""
    assert sh(script, shell="bash").decode().split() == ["swept", "done"]


def test_a_box_that_ends_while_the_guard_does(sh: Shell) -> None:
    """In a trap, bash reaps no child before `wait`: /proc still has it, as a zombie."""
    script = f"""{wrapper("processes.sh")}
{function("outlast")}
mkfifo lease
rest() {{ sleep 0.01; }}
sweep_all() {{ echo swept; }}
sleep 0.3 & box=$!
trap 'outlast "$box"; echo gone' EXIT
trap 'exit 0' HUP
(sleep 0.1; kill -HUP $$) &
read -rt 20 <>lease"""
    assert sh(script, shell="bash").decode().splitlines()[-1] == "gone"


@pytest.mark.parametrize("database", ["/etc/group", "/nowhere"])
def test_everybody_is_somebody_in_the_container(node: Node, database: str) -> None:
    """root, nobody and the user with /bin/sh: sshd refuses a shell that the image lacks."""
    node.fill(1)
    users = node.path / "users.sh"
    users.write_text(users.read_text().replace("/etc/group", database))
    script = f"cd {node.path}; set -euo pipefail; source ./names.sh; source ./users.sh; users"
    node.sh(script, shell="bash", environ={"HOME": "/home/alice"})
    entries = [line.split(":") for line in (node.path / "etc.passwd").read_text().splitlines()]
    assert [entry[0] for entry in entries[:2]] == ["root", "nobody"]
    assert entries[2][2:4] == [str(os.getuid()), str(os.getgid())]
    assert entries[2][5:] == ["/home/alice", "/bin/sh"]
    groups = {line.split(":")[2] for line in (node.path / "etc.group").read_text().splitlines()}
    assert {str(os.getgid()), "0", "65534"} <= groups


def test_a_word_that_comes_in_parts_is_heard_whole(sh: Shell) -> None:
    """However long a busy machine takes over it: the beat, which comes between, takes none of it away."""
    text = wrapper("guard.sh")
    forward = text[text.index("forward() {") :].partition("\n}\n")[0]
    script = f"""deaf() {{ :; }}; network() {{ :; }}; user_name() {{ :; }}; mnrun_node=n1 mnrun_beat=0.1
{forward}
}}
process() {{ :; }}
mkfifo up; exec {{mnrun_up}}<>up {{mnrun_address}}>address; forward >said &
printf 'ra' >&"$mnrun_up"; until grep -q alive said; do :; done
printf 'nk 3 8\nbye \n' >&"$mnrun_up"; wait; cat said"""
    said = sh(script, shell="bash").decode().splitlines()
    assert [line for line in said if line != "alive n1 "] == ["rank n1 3 8", "bye n1 "]


def test_facts_come_many_to_a_line(sh: Shell) -> None:
    """B3: each was a line of its own, of which a large job has hundreds of thousands. None is longer than what srun
    keeps together (pipe_frames.sh), and none is lost."""
    text = wrapper("guard.sh")
    network = text[text.index("network() {") :].partition("\n}\n")[0]
    facts = [f"gid mlx5_{number % 8} port=1 index={number} gid={'x' * (number % 60)}" for number in range(150)]
    script = f"""mnrun_node=n1
{network}
}}
printf '%s\\n' "$@" >facts; echo 'cat facts' >network_facts.sh; network"""
    said = sh(script, *facts, shell="bash").decode().splitlines()
    assert max(map(len, said)) < 1024
    assert len(said) < 12
    assert "\t".join(line.removeprefix("fact n1 ") for line in said).split("\t") == facts


def test_answers_in_a_trap(sh: Shell) -> None:
    """There, a `return` without a value has the exit code from before the trap (bash(1)): no memory passed for some."""
    script = f"""{wrapper("processes.sh")}
{wrapper("memory.sh")}
unset SLURM_JOB_ID
began $$
start=$REPLY
finish() {{
  if memory_used_up; then echo "memory $REPLY"; fi
  if outer $$ "$start" ""; then echo lives; fi
}}
mnrun_id=$MNRUN_JOB_ID
trap finish EXIT
exit"""
    environ = {"MNRUN_JOB_ID": "7-abcdef"}
    assert sh(script, shell="bash", environ=environ).decode() == "lives\n"
    assert sh(f"{script} 143", shell="bash", environ=environ, code=143).decode() == "lives\n"


def test_a_second_signal_does_not_end_the_guard(sh: Shell) -> None:
    """It may come before the shell that passes the first one on is deaf. The guard ended with 138, now and then."""
    text = wrapper("guard.sh")
    sent = text[text.index("sent() {") :].partition("\n}\n")[0]
    script = f"""set -euo pipefail; mnrun_went=1 mnrun_connect=pipe mnrun_shell=''; declare -A mnrun_heard=()
deaf() {{ [[ -e second ]] || {{ : >second; kill -s USR1 "$BASHPID"; }}; }}
pass_on() {{ echo "passed $1"; }}
{sent}
}}
sent USR1; sent USR1; echo lives"""
    assert sh(script, shell="bash").decode().splitlines() == ["passed USR1", "lives"]


@pytest.mark.parametrize("ranks", [1, 3, 200])
def test_each_rank_of_a_node_may_begin(sh: Shell, ranks: int) -> None:
    """Whether it waits already, or comes later."""
    script = f"""set -euo pipefail
{function("begin")}
mkfifo there; exec {{mnrun_there}}<>there
for _ in {{1..{ranks}}}; do (read -r line <there && echo begun) & done
begin
read -rt 9 line <there && echo begun
wait"""
    assert sh(script, shell="bash").decode().split() == ["begun"] * (ranks + 1)
