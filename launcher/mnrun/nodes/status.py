"""Who has said what: the lines that the nodes' guards send up, understood. Pure.

here NODE              it has begun, and waits for the kit
pulling NODE what      what pulling the image is at there
image NODE ID WHERE    the image is there
unpulled NODE why      it could not be had
fact NODE lines        of its networks, adapters, GPUs and limits, with tabs between, before it is ready
ready NODE host=node01 address=10.0.0.1 step=1 port=22345
nossh NODE why         it is ready for the pipe alone
fail NODE why          this node cannot take part
gone NODE CODE         its container has ended
log NODE line          of the container's own log
rank NODE RANK SIZE    a rank has started there, and how many it thinks there are
ended NODE RANK CODE [told]  how a rank that srun started has ended; told: once srun had sent it a TERM
warned NODE            the scheduler has sent a TERM there
lost NODE why          the connection to it has gone, says the launcher's own side
alone NODE RANK        that rank took itself for rank 0 of 1
memory NODE LIMIT HOW RANKS  the job's memory there, in bytes, was used up, and the kernel has killed for it (killed) or
                       may have (reached); which ranks ran there, with commas
used NODE WHAT         what ranks there talked to other nodes by (transport.py)
topology NODE :LINE    of what `nvidia-smi topo -m` says there
bye NODE PIDS          everything has ended there, but for these
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun import nodeset
from mnrun.errors import DeadlineError, OutOfMemory
from mnrun.model import Plan, Worker

LESS = "ask for more with --mem, or run fewer ranks a node"  # where memory is short
KILLED = 137  # how a process ends that a SIGKILL has ended, as shells tell it
SETTLES = ("ready", "image", "fail", "unpulled", "gone", "lost")  # whether a node can take part


class Roster:
    """What is known of the job's nodes."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = dict.fromkeys(nodes)  # in their order; and one of thousands is found at once
        self.here: set[str] = set()
        self.pulling: dict[str, str] = {}
        self.unpulled = False  # what failed is the pull, not the node
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
        self.first_told = False  # that one was told to end, as srun does because of another
        self.warned = False
        self.alone: list[str] = []
        self.memory: dict[str, tuple[int, str]] = {}  # node -> (limit, ranks), where it was used up
        self.starved = False  # the kernel has killed for it
        self.killed: dict[str, list[int]] = {}  # node -> ranks that are known to have ended by a SIGKILL
        self.used: dict[str, list[str]] = {}
        self.topologies: dict[str, list[str]] = {}
        self.left: dict[str, str] = {}
        self.bye: set[str] = set()

    def hear(self, line: str) -> str:
        """Take in one line; its first word, or "" if it is none of ours (srun's own words come here too)."""
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
                self.first_bad, self.first_told = code, told
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
        """Every node has said whether it can take part."""
        return len(self._spoken) >= len(self.nodes)

    @property
    def missing(self) -> tuple[str, ...]:
        """The nodes that keep the job from starting: where some cannot, others may only wait for them."""
        unready = tuple(node for node in self.nodes if node not in self.workers or node in self.lost)
        refusing = {*self.failed, *self.gone, *self.lost, *(set(unready) - self.here)}
        return tuple(node for node in unready if node in refusing) or unready

    @property
    def images_apart(self) -> dict[str, str]:
        """What each node says of its image file, where they are not all the same."""
        images = {node: worker.image.partition(".") for node, worker in self.workers.items()}
        said = {node: f"{size} bytes, header {total}" if dot else size for node, (size, dot, total) in images.items()}
        return said if len(set(said.values())) > 1 else {}

    @property
    def counts(self) -> dict[str, int]:
        """How many ranks have started, by node."""
        return {node: len(found) for node, found in self.ranks.items()}

    def in_order(self) -> tuple[Worker, ...]:
        """The workers in the order of the nodes, the head's first."""
        return tuple(self.workers[node] for node in self.nodes)

    def why(self, node: str, thoughts: dict[str, str]) -> str:
        """The reason that a node is not ready: its own, its container's log, the scheduler's thoughts."""
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
        """What to say of a program that ended with `code`, where its nodes say that their memory was used up."""
        # 1 is what srun leaves with where Slurm has noticed
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
        """Whether every rank has been heard of."""
        return self.started >= plan.layout.ntasks

    def not_started(self, plan: Plan) -> DeadlineError:
        """Ranks that should long be there are not: mpirun hangs, or is slow."""
        total = plan.layout.ntasks
        lacking = [n for n, asked in zip(plan.layout.nodes, plan.layout.ranks) if len(self.ranks.get(n, ())) < asked]
        count = total - self.started
        what = f"{count} of {total} ranks, of {nodeset.fold(lacking)}, have not started"
        return DeadlineError(
            f"{what} {plan.spec.start_timeout} s after all nodes were ready",
            "mpirun hangs, or --start-timeout gives it longer",
        )


def _size(count: int) -> str:
    """Bytes as --mem is given them."""
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
