"""memory.sh: what the kernel says of a job's memory, where earlier steps of the job have left something there."""

from __future__ import annotations

import pytest

from mnrun.files import wrapper
from unit.conftest import Shell

# The job's control group is a directory here, of version 2 or 1.
GROUP = """
job_group() { REPLY=$PWD/group; }
mkdir group
two() { printf 'oom_kill %s\\n' "$1" >group/memory.events; echo 300 >group/memory.max; }
one() {
  printf 'oom_kill 0\\n' >group/memory.oom_control
  echo 300 >group/memory.limit_in_bytes
  echo "$1" >group/memory.max_usage_in_bytes
}
judge() { if memory_used_up; then echo "$REPLY"; else echo enough; fi; }
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("two 0; memory_before; two 1; judge", "300 killed"),
        ("two 1; memory_before; judge; two 2; judge", "enough\n300 killed"),
        ("one 200; memory_before; one 300; judge", "300 reached"),
        ("one 300; memory_before; judge", "enough"),
    ],
)
def test_an_earlier_launch_does_not_count(sh: Shell, script: str, said: str) -> None:
    whole = f"set -euo pipefail\n{wrapper('memory.sh')}{GROUP}{script}"
    assert sh(whole, shell="bash").decode() == f"{said}\n"
