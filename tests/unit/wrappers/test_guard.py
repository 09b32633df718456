"""The guard's loop over the lease, with its own functions and no node."""

from __future__ import annotations

from mnrun.files import wrapper
from unit.conftest import Shell

NAMES = ("deaf", "listen", "kill_each", "pass_on", "sent")


def function(name: str) -> str:
    text = wrapper("guard.sh")
    start = text.index(f"\n{name}() {{")
    end = text.index("\n", start + 1) if name == "deaf" else text.index("\n}\n", start) + 2
    return text[start:end]


def test_a_lease_that_is_silent_after_a_signal(sh: Shell) -> None:
    """The signal goes on to the ranks, and the limit of the silence counts all the same."""
    functions = "".join(map(function, NAMES)).replace("-t 5", "-t 0.3")
    assert "-t 0.3" in functions
    script = f"""set -euo pipefail
{functions}
declare -A mnrun_heard=()
mnrun_went=1 mnrun_connect=ssh mnrun_shell='' mnrun_silence=5
sleep 60 & rank=$!
outer() {{ REPLY=$rank; }}
echo "7 7" >pid.0
trap 'sent TERM' TERM
mkfifo lease; exec <>lease
(sleep 0.1; kill -TERM $$) &
while listen; do :; done
echo silent
wait "$rank" || echo "$?" """
    assert sh(script, shell="bash").decode().split() == ["silent", "143"]
