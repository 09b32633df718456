"""Parse the lines that the nodes' guards send, and keep what is known of each node. Reads no file.

here NODE              the guard has begun, and waits for the kit
pulling NODE what      progress of pulling the image
image NODE ID WHERE    the image is there
unpulled NODE why      the image could not be pulled
fact NODE lines        the node's networks, adapters, GPUs and limits, with tabs between, before `ready`
ready NODE host=node01 address=10.0.0.1 step=1 port=22345
nossh NODE why         the node is ready for the pipe alone
fail NODE why          this node cannot take part
gone NODE CODE         its container has ended
log NODE line          a line of the container's own log
rank NODE RANK SIZE    a rank has started, with the number of ranks as it knows it
ended NODE RANK CODE [told]  a rank that srun started has ended, and `told`: after srun had sent it a TERM
warned NODE            the scheduler has sent a TERM there
lost NODE why          the connection to the node has gone: mnrun's own side says this
alone NODE RANK        that rank took itself for rank 0 of 1
memory NODE LIMIT HOW RANKS  the job's memory there, LIMIT bytes, was used up. HOW is `killed` if the kernel has killed
                       for it, and `reached` if it may have. RANKS ran there, with commas
used NODE WHAT         the way in which ranks there talked to other nodes (transport.py)
topology NODE :LINE    a line of `nvidia-smi topo -m` there
bye NODE PIDS          everything has ended there, except these processes
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun import nodeset
from mnrun.errors import DeadlineError, OutOfMemory
from mnrun.model import Culprit, Plan, Worker

LESS = "ask for more with --mem, or run fewer ranks a node"  # the remedy where memory is short
KILLED = 137  # the shell's exit code of a process that a SIGKILL has ended
SETTLES = ("ready", "image", "fail", "unpulled", "gone", "lost")  # words that say whether a node can take part


class Roster:
    """The state of the job's nodes, as far as their guards have told it."""

    def __init__(self, nodes: Sequence[str]) -> None:
        # A dictionary keeps the order, and finds one of thousands of nodes at once.
        self.nodes = dict.fromkeys(nodes)
        self.here: set[str] = set()
        self.pulling: dict[str, str] = {}
        self.unpulled = False  # the pull failed, not the node
        self.images: dict[str, tuple[str, str]] = {}  # node -> (digest or id, path or name)
        self.workers: dict[str, Worker] = {}
        self.facts: dict[str, list[str]] = {}
        self.without_ssh: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.gone: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        self.logs: dict[str, list[str]] = {}
        self.ranks: dict[str, dict[int, str]] = {}
        self.started = 0  # ranks, of all nodes
        self._spoken: set[str] = set()  # nodes that have said whether they can take part
        self.first_bad = 0  # the exit code of the first rank that failed by itself
        self.first_told = False  # srun told that rank to end because of another
        self.culprit: Culprit | None = None  # that rank
        self.warned = False
        self.alone: list[str] = []
        self.memory: dict[str, tuple[int, str]] = {}  # node -> (limit in bytes, ranks), if the memory was used up
        self.starved = False  # the kernel has killed a process for it
        self.killed: dict[str, list[int]] = {}  # node -> ranks that a SIGKILL has ended
        self.used: dict[str, list[str]] = {}
        self.topologies: dict[str, list[str]] = {}
        self.left: dict[str, str] = {}
        self.bye: set[str] = set()

    def hear(self, line: str) -> str:
        """Take in one line. Return its first word, or "" for a line of srun's or another program."""
        word, _, rest = line.partition(" ")
        node, _, said = rest.partition(" ")
        if node not in self.nodes:
            return ""
        try:
            taken = self._take(word, node, said)
        except (ValueError, IndexError):
            return ""
        if word in SETTLES:
            self._spoken.add(node)
        return word if taken else ""

    def _take(self, word: str, node: str, said: str) -> bool:
        if word == "here":
            self.here.add(node)
        elif word == "pulling":
            self.pulling[node] = said
        elif word == "unpulled":
            self.unpulled = True
            self.failed.setdefault(node, said)
        elif word == "image":
            digest, _, where = said.partition(" ")
            self.images[node] = (digest, where)
        elif word == "fact":
            self.facts.setdefault(node, []).append(said)
        elif word == "ready":
            self.workers[node] = _worker(node, said)
        elif word == "nossh":
            self.without_ssh[node] = said
        elif word == "fail":
            self.failed.setdefault(node, said)
        elif word == "gone":
            self.gone[node] = said
        elif word == "lost":
            self.lost[node] = said
        elif word == "log":
            self.logs.setdefault(node, []).append(said)
        elif word == "rank":
            number, _, size = said.partition(" ")
            rank = int(number)
            found = self.ranks.setdefault(node, {})
            self.started += rank not in found
            found[rank] = size
        elif word == "ended":
            rank, code, told = int(said.split()[0]), int(said.split()[1]), said.endswith(" told")
            if code == KILLED:
                self.killed.setdefault(node, []).append(rank)
            if code and (not self.first_bad or (self.first_told and not told)):
                self.first_bad, self.first_told, self.culprit = code, told, Culprit(rank, node)
        elif word == "warned":
            self.warned = True
        elif word == "alone":
            self.alone.append(said)
        elif word == "memory":
            limit, how, ranks = said.split(" ", 2)
            self.memory[node] = (int(limit), ranks)
            self.starved |= how == "killed"
        elif word == "used":
            self.used.setdefault(node, []).append(said)
        elif word == "topology":
            self.topologies.setdefault(node, []).append(said[1:])
        elif word == "bye":
            self.bye.add(node)
            if said.strip():
                self.left[node] = said.strip()
        else:
            return False
        return True

    @property
    def complete(self) -> bool:
        return len(self.workers) == len(self.nodes)

    @property
    def settled(self) -> bool:
        """Return whether every node has said if it can take part."""
        return len(self._spoken) >= len(self.nodes)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the nodes that keep the job from starting. If some cannot start, others may only wait for them."""
        unready = tuple(node for node in self.nodes if node not in self.workers or node in self.lost)
        refusing = {*self.failed, *self.gone, *self.lost, *(set(unready) - self.here)}
        return tuple(node for node in unready if node in refusing) or unready

    @property
    def images_apart(self) -> dict[str, str]:
        """Return node -> size and header of its image file, if they differ between nodes. Otherwise it is empty."""
        images = {node: worker.image.partition(".") for node, worker in self.workers.items()}
        said = {node: f"{size} bytes, header {total}" if dot else size for node, (size, dot, total) in images.items()}
        return said if len(set(said.values())) > 1 else {}

    @property
    def counts(self) -> dict[str, int]:
        """Return node -> the number of ranks that have started."""
        return {node: len(found) for node, found in self.ranks.items()}

    def in_order(self) -> tuple[Worker, ...]:
        """Return the workers in the order of the nodes, the head's first."""
        return tuple(self.workers[node] for node in self.nodes)

    def why(self, node: str, thoughts: dict[str, str]) -> str:
        """Return the reason that a node is not ready: its own, its container's log, or the scheduler's state of it."""
        if node in self.failed:
            return self.failed[node]
        log = "; ".join(self.logs.get(node, [])[-3:])
        if node in self.gone:
            return f"its container ended with {self.gone[node]}" + (f" ({log})" if log else "")
        if node in self.lost:
            return self.lost[node]
        said = f"not ready yet ({log})" if log else "not ready yet"
        word = said if node in self.here else "no word from it"
        return f"{word} (Slurm says {thoughts[node]})" if node in thoughts else word

    def out_of_memory(self, code: int) -> OutOfMemory | None:
        """Return the error for a program that ended with `code` after its nodes reported their memory as used up."""
        # srun exits with 1 if Slurm has noticed.
        if not (self.memory and (code == KILLED or (code == 1 and self.starved))):
            return None
        why = {}
        for node, (limit, ranks) in self.memory.items():
            named = ",".join(map(str, sorted(self.killed.get(node, [])))) or ranks
            who = f"rank {named} was killed" if named.isdecimal() else f"one of its ranks {named} was killed"
            if node in self.killed and not named.isdecimal():
                who = f"ranks {named} were killed"
            why[node] = f"{who}: the job has {_size(limit)} there, and has used it up"
        return OutOfMemory(f"out of memory on {nodeset.folded(why)}", LESS)

    def all_there(self, plan: Plan) -> bool:
        """Return whether every rank has started."""
        return self.started >= plan.layout.ntasks

    def not_started(self, plan: Plan) -> DeadlineError:
        """Return the error for ranks that should have started long ago: mpirun hangs, or is slow."""
        total = plan.layout.ntasks
        lacking = [n for n, asked in zip(plan.layout.nodes, plan.layout.ranks) if len(self.ranks.get(n, ())) < asked]
        count = total - self.started
        what = f"{count} of {total} ranks, of {nodeset.fold(lacking)}, have not started"
        return DeadlineError(
            f"{what} {plan.spec.start.timeout} s after all nodes were ready",
            "mpirun hangs, or --start-timeout gives it longer",
        )


def _size(count: int) -> str:
    """Return bytes as --mem takes them."""
    return f"{count / 2**30:.3g} GB" if count >= 2**30 else f"{count >> 20} MB"


def _worker(node: str, said: str) -> Worker:
    facts = dict(word.partition("=")[::2] for word in said.split())
    return Worker(
        name=node,
        host=facts.get("host") or node,
        address=facts.get("address", ""),
        port=int(facts.get("port") or 0),
        step=facts.get("step", ""),
        user=facts.get("user", ""),
        image=facts.get("image", ""),
    )
