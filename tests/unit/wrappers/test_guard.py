"""The wrappers of the guard (wrappers/guard/): its loop over the lease, its words, and the users of a container."""

from __future__ import annotations

import os
import signal as signals
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

SIGNALS = wrapper("signals.sh")


def function(name: str, script: str = "guard.sh") -> str:
    text = wrapper(script)
    start = text.index(f"\n{name}() {{")
    return text[start : text.index("\n}\n", start) + 2]


@pytest.mark.parametrize("made", ['/bin/mkdir "$@"', "false"])
def test_a_term_as_the_directory_is_made(sh: Shell, tmp_path: Path, made: str) -> None:
    script = f"""mkdir bin; cat >bin/mkdir <<'EOF'; chmod 700 bin/mkdir
#!/bin/sh
{made}; code=$?
kill -TERM $PPID $$
exit "$code"
EOF
    PATH=$PWD/bin:$PATH bash -p -c "$1" "$PWD/job" </dev/null >/dev/null; echo $?"""
    assert sh(script, wrapper("boot.sh"), shell="bash") == b"143\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("job")] == []


@pytest.mark.parametrize(
    ("signal", "late"), [("TERM", "exec sleep 60"), ("KILL", 'sleep 0.2; exec /usr/bin/setsid "$@"')]
)
def test_a_signal_to_a_step_whose_undertaker_is_late(sh: Shell, tmp_path: Path, signal: str, late: str) -> None:
    script = f"""mkdir bin; cat >bin/setsid <<'EOF'; chmod 700 bin/setsid
#!/bin/sh
echo $$ >"${{0%/*}}/late"
{late}
EOF
    mkfifo lease; exec 3<>lease
    PATH=$PWD/bin:$PATH bash -p -c "$1" "$PWD/job" <lease >/dev/null & boot=$!
    until [ -s bin/late ]; do sleep 0.01; done
    read undertaker <bin/late
    kill -TERM "$undertaker"; kill -{signal} "$boot"; wait "$boot"; echo $?
    for _ in $(seq 500); do [ -e job ] || break; sleep 0.01; done
    kill -KILL "$undertaker" 2>/dev/null || true"""
    assert sh(script, wrapper("boot.sh"), shell="bash") == f"{128 + signals.Signals[f'SIG{signal}']}\n".encode()
    assert not (tmp_path / "job").exists()


def test_an_undertaker_that_cannot_start(sh: Shell, tmp_path: Path) -> None:
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
    functions = function("listen").replace("-t 5", "-t 0.3")
    assert "-t 0.3" in functions
    script = f"""set -euo pipefail
{SIGNALS}{functions}
mnrun_went=1 mnrun_connect=ssh mnrun_shell='' mnrun_silence=5 mnrun_warnings=TERM
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


@pytest.mark.parametrize("signal", ["USR1", "TERM"])
def test_a_warning_reaches_all_ranks(sh: Shell, signal: str) -> None:
    script = f"""set -euo pipefail
{SIGNALS}
mnrun_went=1 mnrun_connect=ssh mnrun_shell='' mnrun_silence=''
say() {{ echo "$1"; }}
outer() {{ REPLY=$1; }}
sleep 60 & echo "$! 7" >pid.0
sleep 60 & echo "$! 7" >pid.1
trap 'warned {signal}' {signal}
kill -{signal} $$
for rank in 0 1; do read -r pid _ <pid.$rank && {{ wait "$pid" || echo ended; }}; done"""
    assert sh(script, shell="bash").decode().splitlines() == ["warned", "ended", "ended"]


def test_a_line_that_is_torn_at_a_blank(sh: Shell) -> None:
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
    own(tmp_path)
    script = f"""set -euo pipefail
trap '' XFSZ; {before}
say() {{ echo "$*"; }}
{function("is_our_directory", "sweep.sh")}{function("shared_memory")}
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
    script = f"""set -euo pipefail
{wrapper("memory.sh")}
memory_now() {{ mnrun_kills=1; }}
trap '' XFSZ; ulimit -f 0
memory_note 2>&1; echo lives"""
    assert sh(script, shell="bash") == b"lives\n"


def last_words(sh: Shell, log: str) -> list[str]:
    Path("serve.log").write_text(log)
    said = sh(f"set -euo pipefail; source {wrappers()['detach.sh']}; last_words", shell="bash").decode()
    return [line.removeprefix("log ") for line in said.splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("text", RUNTIMES, ids=lambda text: text.entry)
def test_the_error_of_a_runtime_comes_before_its_help(sh: Shell, text: Text) -> None:
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
    assert last_words(sh, "") == []
    assert last_words(sh, "\x1b[91mone\x1b[0m\n\ntwo\n") == ["one", "two"]
    assert last_words(sh, "".join(f"{number}\n" for number in range(9))) == ["4", "5", "6", "7", "8"]


def test_what_a_node_waits_for(sh: Shell) -> None:
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
until [[ $(tr '\\0' ' ' <"/proc/$below/cmdline") == "sleep 62 " ]]; do sleep 0.02; done
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
    said, elsewhere, helper, nothing = sh(script, shell="bash").decode().splitlines()
    assert said.startswith("waits sleep 62 (") and said.endswith(")"), said
    assert elsewhere.startswith("waits sleep 60 ("), elsewhere
    assert helper.startswith("waits sleep 60 ("), helper
    assert nothing == "waits "


def test_a_container_that_starts_after_the_sweep(sh: Shell) -> None:
    script = f"""set -uo pipefail
any_alive() {{ [[ -d /proc/$1 ]]; }}
pause_10ms() {{ sleep 0.001; }}
sleep 60 >/dev/null & inner=$!
sweep_all() {{ echo swept; kill "$inner"; wait "$inner"; }}
{wrapper("processes.sh")}
{function("outlast")}
outlast "$inner"
outlast "$inner"
echo done"""
    assert sh(script, shell="bash").decode().split() == ["swept", "done"]


def test_a_container_that_ends_while_the_guard_does(sh: Shell) -> None:
    script = f"""{wrapper("processes.sh")}
{function("outlast")}
mkfifo lease
pause_10ms() {{ sleep 0.01; }}
sweep_all() {{ echo swept; }}
sleep 0.3 & inner=$!
trap 'outlast "$inner"; echo gone' EXIT
trap 'exit 0' HUP
(sleep 0.1; kill -HUP $$) &
read -rt 20 <>lease"""
    assert sh(script, shell="bash").decode().splitlines()[-1] == "gone"


FINISH = f"""set -uo pipefail
{wrapper("processes.sh")}
{function("removed")}
{function("finish")}
pause_10ms() {{ read -rt 0.01 <>idle; }}; mkfifo idle
forget_keys() {{ :; }}; dismiss() {{ :; }}; memory_used_up() {{ return 1; }}; enclosed() {{ return 1; }}
used() {{ :; }}; say() {{ :; }}; wipe() {{ :; }}; sweep_all() {{ echo swept; }}
mnrun_mouth=1 mnrun_life=1 mnrun_left='' mnrun_joined=1
true & mnrun_admitting=$! mnrun_forwarder=$!
"""


@pytest.mark.parametrize(
    ("removing", "said"),
    [
        ("(sleep 0.3; echo removed) & mnrun_removing=$!", ["removed", "swept", "done"]),
        ("sleep 60 >/dev/null & mnrun_removing=$! SECONDS=0", ["swept", "done"]),
        ("", ["swept", "done"]),
    ],
)
def test_remains_are_removed_before_the_sweep(sh: Shell, removing: str, said: list[str]) -> None:
    """Without remains, the end starts no process. It waits for a removal that hangs for 3 s, and not longer."""
    script = f"{FINISH}{removing}\nfinish 2>/dev/null; ((SECONDS < 6)) || echo late; kill %% 2>/dev/null"
    assert [word for word in sh(f"{script}; true", shell="bash").decode().split() if word != "closed"] == said


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
    script = f"""set -euo pipefail; mnrun_went=1 mnrun_connect=pipe mnrun_shell='' mnrun_warnings=TERM
{SIGNALS}
deaf() {{ [[ -e second ]] || {{ : >second; kill -s USR1 "$BASHPID"; }}; }}
pass_on() {{ echo "passed $1"; }}
sent USR1; sent USR1; echo lives"""
    assert sh(script, shell="bash").decode().splitlines() == ["passed USR1", "lives"]


@pytest.mark.parametrize("ranks", [1, 3, 200])
def test_each_rank_of_a_node_may_begin(sh: Shell, ranks: int) -> None:
    script = f"""set -euo pipefail
{function("begin")}
mkfifo there; exec {{mnrun_there}}<>there
for _ in {{1..{ranks}}}; do (read -r line <there && echo begun) & done
begin "$mnrun_there"
read -rt 9 line <there && echo begun
wait"""
    assert sh(script, shell="bash").decode().split() == ["begun"] * (ranks + 1)
