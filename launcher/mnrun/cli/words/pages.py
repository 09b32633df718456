"""Find the pages of the documentation, which ship with mnrun, by their topics."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mnrun.cli.words.verbs import VERBS
from mnrun.record import Record

if TYPE_CHECKING:
    from pathlib import Path

# The folders of docs/, with their titles. A topic is the name of a page in the first of them, unless a verb has it.
FOLDERS = {
    "": "in general",
    "tutorials": "tutorials",
    "howto": "how to",
    "reference": "reference",
    "explanation": "explanation",
    "admin": "for admins",
    "internals": "internals",
}
# A section of a page, or a whole page, and the words under which people look for it.
SUBJECTS = {
    "tutorials/batch.md#Be told of its end": "notify notification mail email alert webhook slack",
    "tutorials/batch.md": "job batch-job",
    "tutorials/first-mpi-job.md": "mpi openmpi mpich intel-mpi mpirun mpiexec",
    "tutorials/pytorch.md": "ddp torchrun torch",
    "howto/batch.md#Arrays": "array job-array sweep",
    "howto/batch.md#Dependencies": "dependency chain afterok pipeline",
    "howto/batch.md#Save and start again": "checkpoint requeue restart resume preemption",
    "howto/batch.md#A warning before the time limit": "time timeout limit walltime time-limit signal",
    "howto/batch.md#Setup lines": "setup prolog venv virtualenv conda",
    "howto/batch.md#Keep each rank's output": "output split-output label stdout stderr",
    "howto/debug.md": "hang stuck deadlock gdb py-spy stack debugger",
    "howto/follow.md": "log queue",
    "howto/follow.md#Records": "record history",
    "howto/follow.md#Run a job once more": "again retry resubmit",
    "howto/frameworks.md": "lightning accelerate deepspeed megatron jax huggingface nemo",
    "howto/gpus.md": "cuda rocm amd mig affinity binding cpu core",
    "howto/images.md": "container docker podman apptainer singularity charliecloud",
    "howto/images.md#Pull from a registry": "pull registry download cache",
    "howto/images.md#Log in to a private registry": "login password credential ngc",
    "howto/images.md#Build an image from a recipe": "build dockerfile recipe definition",
    "howto/images.md#Read a large image from the nodes' own disks": "stage nfs lustre slow",
    "howto/jobfiles.md": "config configuration toml job-file",
    "howto/mounts.md#Files": "bind volume directory data path home",
    "howto/mounts.md#Variables": "env variable environment-variable",
    "howto/mounts.md#Modules": "module lmod",
    "howto/migrate.md": "enroot shifter podman-hpc",
    "howto/networks.md": "infiniband ib nccl roce ucx interconnect bandwidth",
    "howto/serve.md": "jupyter tensorboard vllm notebook service web",
    "howto/shell.md": "interactive prompt",
    "howto/ssh.md": "scp rsync sftp",
    "howto/ssh.md#From your laptop": "tunnel port forward port-forward vscode vs-code remote laptop",
    "howto/watch.md": "use usage utilization efficiency seff monitor power energy",
    "howto/watch.md#The whole job": "memory ram",
    "admin/install.md": "pip pipx uv upgrade uninstall update",
    "admin/install.md#Spack": "spack",
    "security.md": "secret token root permission",
    "troubleshooting.md": "error message oom failure fail problem faq",
    "reference/exit-codes.md": "code exit exit-code",
}
ABOUT = 5  # so often has a page a word that it is about
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FIRST = ("", "howto", "reference")  # the others come after them
_NOTE = re.compile(r'^!!! \w+ "(.*)"\n((?:(?:    .*)?\n)*)', re.MULTILINE)  # an admonition, which only the site knows
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")


class Section(Record):
    """A part of a page: its heading, its text, and the text at the begin of its chapter."""

    heading: str
    body: str
    chapter: str


def _top() -> Path:
    from mnrun.files import folder  # late: the names of options are completed without it

    return folder("docs")


def topics() -> dict[str, str]:
    """Return topic -> the page's path below docs/. `howto/shell` is the page for which another thing has the name."""
    found: dict[str, str] = {}
    top = _top()
    for name in (*_FIRST, *(name for name in FOLDERS if name not in _FIRST)):
        place = os.path.join(top, name)
        pages = sorted(os.listdir(place)) if os.path.isdir(place) else ()
        for page, dot, kind in (page.rpartition(".") for page in pages):
            if dot and kind == "md":
                path = f"{name}/{page}" if name else page
                found[path if page in found or page in VERBS or page == "index" else page] = f"{path}.md"
    return found


def about(word: str, known: Mapping[str, str]) -> str:
    """Return the page, or `PAGE#HEADING`, that people look for under a word, or "" for a word that is not known. `gpu`
    means the page gpus."""
    for form in (word, word.removesuffix("s")):
        for place, words in SUBJECTS.items():
            if form in words.split():
                return place
    return known.get(f"{word}s", "")


def with_word(word: str, known: Mapping[str, str], most: int = 3) -> list[str]:
    """Return the topics whose pages are about a word: those with most of it first. A heading counts as ten."""
    found = {}
    for topic, path in known.items():
        if not path.startswith("internals/"):
            page = _FENCED.sub("", text(path)).lower()
            found[topic] = page.count(word.lower()) + 9 * len(re.findall(f"(?im)^#.*{re.escape(word)}", page))
    return sorted((topic for topic in found if found[topic] >= ABOUT), key=lambda topic: -found[topic])[:most]


def text(path: str) -> str:
    """Return the text of a page."""
    return (_top() / path).read_text(encoding="utf-8")


def title(path: str) -> str:
    """Return the heading of a page."""
    with open(_top() / path, encoding="utf-8") as page:
        return page.readline().lstrip("# ").rstrip()


def sections(path: str) -> list[Section]:
    """Return the parts of a page below its title. A line of a listing is no heading."""
    found: list[Section] = []
    heading, lines, chapter, listing = "", [""], "", False
    for line in (*text(path).splitlines(), "## "):
        listing ^= line.startswith("```")
        depth = len(line) - len(line.lstrip("#"))
        if listing or depth not in (2, 3) or line[depth : depth + 1] != " ":
            lines.append(line)
            continue
        body = "\n".join(lines).strip()
        chapter = body if lines[0] == "##" else chapter
        if heading:
            found.append(Section(heading, body.removeprefix("##").strip(), chapter))
        heading, lines = line[depth:].strip(" †"), ["##" if depth == 2 else ""]
    return found


def section(path: str, heading: str) -> str:
    """Return a part of a page, and the way to the rest."""
    (part,) = (part for part in sections(path) if part.heading == heading)
    return f"# {heading}\n\n{part.body}\n\nThe whole page: `mnrun help {path.removesuffix('.md')}`\n"


def plain(page: str, path: str, known: dict[str, str]) -> str:
    """Return a page for a terminal: without links and pictures. The pages behind the links are named at its end."""
    import textwrap

    by_path = {other: topic for topic, other in known.items()}
    named: dict[str, None] = {}

    def word(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(path), link[2].partition("#")[0]))
        if target in by_path and target != path:
            named[by_path[target]] = None
        return "" if link[0].startswith("!") else link[1]

    noted = _NOTE.sub(lambda note: f"**{note[1]}**\n\n{textwrap.dedent(note[2])}", page)
    words = _LINK.sub(word, noted)
    return words + (f"\n\nPages: `mnrun help` {', '.join(named)}\n" if named else "")


def listed(known: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the title of each folder, with its topics."""
    for name, titled in FOLDERS.items():
        of_folder = [topic for topic, path in known.items() if os.path.dirname(path) == name]
        if of_folder:
            yield titled, of_folder
