"""Parse the lines that the nodes' guards send, and keep the state of each node. Reads no file.

wrappers/PROTOCOL.toml has the words (`up`), with their arguments and senders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mnrun import nodeset
from mnrun.errors import DeadlineError, NodeError, OutOfMemory
from mnrun.facts import Fact, parse
from mnrun.model import Culprit, Plan, Unwell, Worker

LESS = "ask for more with --mem, or run fewer ranks on a node"  # the remedy where memory is short
KILLED = 137  # the shell's exit code of a process that a SIGKILL has ended
# Words that say whether a node can take part. The `fail` of a lost node may come later, on another stream.
SETTLES = ("ready", "image", "lacks", "fail", "unpulled", "gone")
ANSWERS = ("waits", "fail", "unpulled", "gone", "lost", "bye")  # words of nodes that have answered `log`, or never will
UNSAID = "it failed without a reason"  # for `fail` and `lost` without words


class Roster:
    """The state of the job's nodes, by the lines of their guards."""

    def __init__(self, nodes: Sequence[str]) -> None:
        # A dictionary keeps the order, and finds one of thousands of nodes at once.
        self.nodes = dict.fromkeys(nodes)
        self.here: set[str] = set()
        self.pulling: dict[str, str] = {}
        self.pulled: dict[str, int] = {}  # node -> MB that have come
        self.unpulled = False  # the pull failed, not the node
        self.lacking: dict[str, str] = {}  # node -> the step by which the image file can reach it
        self.images: dict[str, tuple[str, str]] = {}  # node -> (digest or id, path or name)
        self.workers: dict[str, Worker] = {}
        self.facts: dict[str, list[Fact]] = {}
        self.failed: dict[str, str] = {}
        self.gone: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        self.logs: dict[str, list[str]] = {}
        self.asked = False  # whether the nodes were asked what they wait for
        self.waits: dict[str, str] = {}  # their answers
        self.answered: set[str] = set()  # nodes that have answered, or will send no answer
        self.ranks: dict[str, dict[int, str]] = {}  # node -> rank -> the number of ranks as it knows it
        self.started = 0  # ranks, of all nodes
        self.world = 0  # how many there are, by their own words
        self._settled: set[str] = set()  # nodes of which it is clear whether they can take part
        self.first_bad = 0  # the exit code of the first rank that failed by itself
        self.first_after_term = False  # that rank had got a TERM because of another
        self.culprit: Culprit | None = None  # that rank
        self.daemons: list[str] = []  # lines of the client that started mpirun's daemons, if it failed
        self.warned = False
        self.foretold: set[str] = set()  # the nodes that were warned at any time
        self.starter = ""  # the starter that the head has chosen, if the plan left it open
        self.alone: list[str] = []  # ranks that took themselves for the only one
        self.memory: dict[str, tuple[int, str]] = {}  # node -> (limit in bytes, ranks), if the memory was used up
        self.starved = False  # the kernel has killed a process for it
        self.killed: dict[str, list[int]] = {}  # node -> ranks that a SIGKILL has ended
        self.sampled: set[str] = set()  # nodes that have said what the job uses there
        self.used: dict[str, list[str]] = {}
        self.busy: list[str] = []  # what others, or jobs that have ended, use on nodes
        self.topologies: dict[str, list[str]] = {}
        self.service = ""  # the state of the service: waits, ready, idle, or over with the job around it
        self.serves = ""  # the last answer of its probe
        self.survivors: dict[str, str] = {}  # node -> processes that could not be ended
        self.bye: set[str] = set()

    def hear(self, line: str) -> str:
        """Take in one line. Return its first word, or "" for a line of srun's or another program."""
        word, _, rest = line.partition(" ")
        node, _, text = rest.partition(" ")
        if node not in self.nodes:
            return ""
        try:
            ours = self._start(word, node, text) or self._rank(word, node, text) or self._end(word, node, text)
        except (ValueError, IndexError):
            return ""
        if word in SETTLES:
            self._settled.add(node)
        if word in ANSWERS:
            self.answered.add(node)
        return word if ours else ""

    @property
    def come(self) -> str:
        """Return how much of the image has come to the nodes that pull it, in words."""
        sizes = [size for node, size in self.pulled.items() if node not in self.images]
        if not sizes:
            return ""
        return f", {min(sizes)} MB" if min(sizes) == max(sizes) else f", {min(sizes)} to {max(sizes)} MB"

    def take_warning(self) -> bool:
        """Return whether a node was warned of the end since the last call."""
        warned, self.warned = self.warned, False
        return warned

    def lose(self, nodes: Iterable[str], why: str) -> None:
        """Take in nodes that will send no more."""
        for node in self.nodes.keys() & set(nodes):
            self.lost[node] = why
            self.answered.add(node)

    def _start(self, word: str, node: str, text: str) -> bool:
        """Take in a word that comes before the ranks start. Return whether it is one."""
        if word == "here":
            self.here.add(node)
        elif word == "pulling":
            self.pulling[node] = text
        elif word == "pulled":
            self.pulled[node] = int(text)
        elif word == "unpulled":
            self.unpulled = True
            self.failed.setdefault(node, text or UNSAID)
        elif word == "image":
            digest, _, name = text.partition(" ")
            self.images[node] = (digest, name)
            self.lacking.pop(node, None)
        elif word == "lacks":
            self.lacking[node] = text
            self.pulling[node] = "waits for its copy"
        elif word == "fact":
            self.facts.setdefault(node, []).extend(parse(f"fact {node} {text}"))
        elif word == "ready":
            self.workers[node] = _worker(node, text)
        elif word == "fail":
            self.failed.setdefault(node, text or UNSAID)
        elif word == "waits":
            self.waits[node] = " ".join(text.split())  # a program may pad its name (setproctitle)
        elif word == "starter":
            self.starter = text
        elif word == "service":
            self.service, _, self.serves = text.partition(" ")
        else:
            return False
        return True

    def _rank(self, word: str, node: str, text: str) -> bool:
        """Take in a word about ranks. Return whether it is one."""
        if word == "rank":
            number, _, size = text.partition(" ")
            rank, self.world = int(number), int(size)
            ranks = self.ranks.setdefault(node, {})
            self.started += rank not in ranks
            ranks[rank] = size
        elif word == "ended":
            rank, code, after_term = int(text.split()[0]), int(text.split()[1]), text.endswith(" told")
            if code == KILLED:
                self.killed.setdefault(node, []).append(rank)
            if code and (not self.first_bad or (self.first_after_term and not after_term)):
                self.first_bad, self.first_after_term, self.culprit = code, after_term, Culprit(rank, node)
        elif word == "sample":
            self.sampled.add(node)
        elif word == "alone":
            self.alone.append(text)
        elif word == "memory":
            limit, how, numbers = text.split(" ", 2)
            self.memory[node] = (int(limit), numbers)
            self.starved |= how == "killed"
        elif word == "used":
            _, _, _ = text.split(" ", 2)  # transport.py relies on it
            self.used.setdefault(node, []).append(text)
        else:
            return False
        return True

    def _end(self, word: str, node: str, text: str) -> bool:
        """Take in a word about the node itself, or its end. Return whether it is one."""
        if word == "gone":
            self.gone[node] = text
        elif word == "daemons":
            self.daemons.append(text)
        elif word == "lost":
            self.lost[node] = text or UNSAID
        elif word == "log":
            self.logs.setdefault(node, []).append(text)
        elif word == "warned":
            self.warned = True
            self.foretold.add(node)
        elif word == "busy":
            self.busy.append(f"{node}: not free: {text}")
        elif word == "topology":
            self.topologies.setdefault(node, []).append(text[1:])
        elif word == "bye":
            self.bye.add(node)
            if text.strip():
                self.survivors[node] = text.strip()
        else:
            return False
        return True

    @property
    def complete(self) -> bool:
        return len(self.workers) == len(self.nodes)

    @property
    def settled(self) -> bool:
        """Return whether every node has said if it can take part."""
        return len(self._settled) >= len(self.nodes)

    @property
    def silent(self) -> tuple[str, ...]:
        """Return the nodes that have begun and sent no bye. A node that failed as it began has removed its files."""
        begun = self.here | self.workers.keys()
        return tuple(node for node in self.nodes if node in begun and node not in self.bye and node not in self.failed)

    @property
    def clean(self) -> bool:
        """Return whether every node has said that everything has ended there."""
        return self.bye >= set(self.nodes) and not self.survivors

    @property
    def unready(self) -> tuple[str, ...]:
        return tuple(node for node in self.nodes if node not in self.workers or node in self.lost)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the nodes that keep the job from starting. If some cannot start, others may only wait for them."""
        unready = self.unready
        refusing = {*self.failed, *self.gone, *self.lost, *(set(unready) - self.here)}
        return tuple(node for node in unready if node in refusing) or unready

    def check_images(self, plan: Plan) -> None:
        """Raise NodeError if size or header of the image file differ between nodes."""
        images = {node: worker.image.partition(".") for node, worker in self.workers.items()}
        texts = {node: f"{size} bytes, header {total}" if dot else size for node, (size, dot, total) in images.items()}
        if len(set(texts.values())) > 1:
            problem = f"{plan.spec.container.image} is not the same on all nodes: {nodeset.folded(texts)}"
            raise NodeError(problem, "copy one of them to all, or name one that all nodes see")

    @property
    def together(self) -> bool:
        """Return whether all ranks have started, by their own count. Arguments of mpirun may change the plan's."""
        return 0 < self.world <= self.started

    @property
    def counts(self) -> dict[str, int]:
        """Return node -> the number of ranks that have started."""
        return {node: len(ranks) for node, ranks in self.ranks.items()}

    @property
    def node_of_rank(self) -> dict[int, str]:
        """Return rank -> node of the ranks that have started."""
        return {rank: node for node, ranks in self.ranks.items() for rank in ranks}

    def in_order(self) -> tuple[Worker, ...]:
        """Return the workers in the order of the nodes, the head's first."""
        return tuple(self.workers[node] for node in self.nodes)

    def why(self, node: str, unwell: Mapping[str, Unwell]) -> str:
        """Return the reason that a node is not ready: its own, its container's log, or its state by the scheduler."""
        if node in self.failed:
            return self.failed[node]
        log = "; ".join(self.logs.get(node, [])[-3:])
        if node in self.gone:
            return f"its container ended with {self.gone[node]}" + (f" ({log})" if log else "")
        if node in self.lost:
            return self.lost[node]
        state = "not ready yet" + (f" ({log})" if log else "") + self._waits(node)
        if node in self.here and node in unwell and unwell[node].dead:
            state = "no answer from it any more"
        word = state if node in self.here else "no answer from it"
        return f"{word} ({unwell[node].words})" if node in unwell else word

    def _waits(self, node: str) -> str:
        if self.asked and node not in self.waits:
            return ", and its guard does not answer, as where a file system hangs"
        return f", waits for {self.waits[node]}" if self.waits.get(node) else ""

    @property
    def phase(self) -> str:
        """Return the phase of the timeline (jobs/timeline.py) in which the missing nodes are."""
        return "container" if self.here.issuperset(self.missing) else "reach"

    def out_of_memory(self, code: int) -> OutOfMemory | None:
        """Return the error for a program that ended with `code` after its nodes reported their memory as used up."""
        # srun exits with 1 if Slurm has noticed.
        if not (self.memory and (code == KILLED or (code == 1 and self.starved))):
            return None
        why = {}
        for node, (limit, ranks) in self.memory.items():
            numbers = ",".join(map(str, sorted(self.killed.get(node, [])))) or ranks
            subject = f"rank {numbers} was killed" if numbers.isdecimal() else f"one of its ranks {numbers} was killed"
            if node in self.killed and not numbers.isdecimal():
                subject = f"ranks {numbers} were killed"
            why[node] = f"{subject}: the job has {_size(limit)} there, and has used it up"
        return OutOfMemory(f"out of memory on {nodeset.folded(why)}", LESS)

    def all_there(self, plan: Plan) -> bool:
        """Return whether every rank has started."""
        return self.started >= plan.layout.ntasks

    def not_started(self, plan: Plan) -> DeadlineError:
        """Return the error for ranks that should have started long ago: mpirun hangs, or is slow."""
        total = plan.layout.ntasks
        lacking = [n for n, count in zip(plan.layout.nodes, plan.layout.ranks) if len(self.ranks.get(n, ())) < count]
        problem = f"{total - self.started} of {nodeset.counted(total, 'rank')}, of {nodeset.fold(lacking)}, not started"
        waits = {node: f"waits for {self.waits[node]}" for node in self.nodes if self.waits.get(node)}
        why = f": {nodeset.folded(waits)}" if waits else ""
        starter = "Ray" if plan.starter == "ray" else "mpirun"
        return DeadlineError(
            f"{problem} {plan.spec.start.timeout} s after all nodes were ready{why}",
            f"{starter} may hang; --start-timeout allows more time for the phase ranks",
        )


def _size(count: int) -> str:
    """Return bytes as --mem takes them."""
    return f"{count / 2**30:.3g} GB" if count >= 2**30 else f"{count >> 20} MB"


def _worker(node: str, text: str) -> Worker:
    pairs = dict(word.partition("=")[::2] for word in text.split())
    return Worker(
        name=node,
        host=pairs.get("host") or node,
        address=pairs.get("address", ""),
        port=int(pairs.get("port") or 0),
        step=pairs.get("step", ""),
        user=pairs.get("user", ""),
        image=pairs.get("image", ""),
        master=int(pairs.get("master") or 0),
        service=int(pairs.get("service") or 0),
    )
