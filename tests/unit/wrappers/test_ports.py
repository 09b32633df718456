"""Which ports a node is given (wrappers/lib/ports.sh), by tables of the kernel as they were on a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnrun.files import wrapper
from unit.conftest import Shell
from unit.wrappers.node import SHELLS

TITLE = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
# A server at 30000 and a connection of its; one at 30001 that has ended, one at 30002 to port 6, and one that begins.
TCP = """\
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1500        0 37651 1 0000000000000000
   1: 0100007F:7530 0100007F:E0C8 06 00000000:00000000 03:00001671 00000000     0        0 0 3 0000000000000000
   2: 0100007F:7531 0100007F:E0C9 06 00000000:00000000 03:00001671 00000000     0        0 0 3 0000000000000000
   3: 0A00007F:7532 0100007F:0006 01 00000000:00000000 00:00000000 00000000     6        6 06 1 0000000000000000
   4: 0A00007F:7536 0100007F:0016 02 00000001:00000000 01:00000063 00000000     6        0 0 2 0000000000000000
"""
# Over IPv6, one at 30003 that has ended, and a server at 30004.
LOOP = "0" * 24 + "01000000"
TCP6 = f"""\
   0: {LOOP}:7533 {LOOP}:E0C9 06 00000000:00000000 03:00001671 00000000     0        0 0 3 0000000000000000
   1: {"0" * 32}:7534 {"0" * 32}:0000 0A 00000000:00000000 00:00000000 00000000  1500        0 3 1 0000000000000000
"""
# The lines of guard.sh by which bash reads the tables itself
(BY_BASH,) = re.findall(r"    for file in /proc/net/tcp.*?done .*?\n", wrapper("guard.sh"), re.DOTALL)
WAYS = [*((shell, "given=$(taken)") for shell in SHELLS), ("bash", f'part=\n{BY_BASH}given="$part "')]


@pytest.mark.parametrize(("shell", "reads"), WAYS, ids=[*SHELLS, "guard"])
def test_ports_of_ended_connections_come_last(sh: Shell, tmp_path: Path, shell: str, reads: str) -> None:
    for name, lines in {"tcp": TCP, "tcp6": TCP6}.items():
        (tmp_path / name).write_text(TITLE + lines)
    texts = "\n".join((wrapper("ports.sh"), reads)).replace("/proc/net/tcp", f"{tmp_path}/tcp")

    def given(count: int, last: int) -> list[int]:
        script = f'set -eu; mnrun_ports=30000-{last}\n{texts}\nports {count} "$given"\necho $mnrun_free'
        return [int(word) for word in sh(script, shell=shell).decode().split()]

    assert given(2, 30000) == []
    assert given(9, 30002) == [30001]
    assert given(1, 30005) == [30005]
    free, *ended = given(9, 30006)
    assert (free, sorted(ended)) == (30005, [30001, 30003])
