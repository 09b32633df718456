"""Linux namespaces by their system calls: make them for a node, and step into a node's.

The `os` module has these only from Python 3.12 on.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable
from typing import NoReturn

from .door import NEWIPC, NEWNET, NEWNS, NEWPID, NEWUTS, call
from .errors import ClusterError

GET_MNTNS_ID = 0x8008B705


def first_process(netns: str, become: Callable[[], NoReturn]) -> int:
    """Start pid 1 of new mount, pid, uts and ipc namespaces in a named network; return its pid.

    It belongs to nobody (its parent has ended), so it outlives the caller.
    """
    reader, writer = os.pipe()
    everywhere = os.sched_getaffinity(0)
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            with open(f"/run/netns/{netns}", "rb") as file:
                call("setns", file.fileno(), NEWNET)
            _onto_the_oldest_cpu()
            call("unshare", NEWNS | NEWUTS | NEWIPC | NEWPID)
            os.sched_setaffinity(0, everywhere)
            first = os.fork()
            if first == 0:
                become()
            os.write(writer, str(first).encode())
        except OSError as error:
            os.write(writer, f"{netns}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(middle, 0)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    if not text.isdigit():
        raise ClusterError(f"a node's first process did not start: {text.decode()}")
    return int(text)


def _onto_the_oldest_cpu() -> None:
    """Go where mount namespaces get the lowest numbers.

    Slurm keeps a job's namespace by mounting it, which the kernel allows for those of a higher number than one's own
    (no ring could come of it). Since 6.18 each CPU numbers on its own, thousands apart: a node that began on the
    wrong one could keep no namespace of a job that began on the other.
    """
    numbers = {}
    for cpu in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {cpu})
        call("unshare", NEWNS)
        with open("/proc/self/ns/mnt", "rb") as file:
            try:
                numbers[cpu] = struct.unpack("Q", fcntl.ioctl(file.fileno(), GET_MNTNS_ID, bytes(8)))[0]
            except OSError:  # an older kernel, which has one row of numbers
                return
    os.sched_setaffinity(0, {min(numbers, key=lambda cpu: numbers[cpu])})


def nsenter(pid: int) -> list[str]:
    """The words before a command that is to run beside a process, in all its namespaces."""
    return ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-C"]
