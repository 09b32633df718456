"""Write objects of Kubernetes as YAML, with the origin of each value as a comment. The only module with ruamel.yaml."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mnrun import __version__
from mnrun.errors import Impossible, UsageError, one_line
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, Words
from mnrun.schedulers.kubernetes import imports, pods, texts
from mnrun.schedulers.kubernetes.pods import Said

if TYPE_CHECKING:
    from ruamel.yaml import YAML


def _yaml(kind: str) -> YAML:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        remedy = "pip install 'mnrun[kubernetes]', or pipx inject mnrun ruamel.yaml"
        raise Impossible("texts for Kubernetes need the Python package ruamel.yaml", remedy) from None
    return YAML(typ=kind)


def text(form: str, spec: JobSpec, layout: Layout, line: str, words: Words) -> str:
    """Return a job in one of FORMS of texts.py, with what may go wrong above it."""
    own = pods.settings(spec, f"{os.getuid()}:{os.getgid()}")
    objects = texts.write(form, texts.Asked(spec, layout, own, line, words, os.urandom(32).hex()))
    doubts = [] if form in ("rbac", "pv") else pods.doubts(spec, own)
    return dump(objects, (f"mnrun {__version__}: {line}", *(doubt.text for doubt in doubts)))


def job_file(text: str, source: str, build: Callable[[str], tuple[JobSpec, Layout]]) -> tuple[str, list[str]]:
    """Return the job file of a text, and the fields that it lacks. Raises UsageError."""
    try:
        job, left = imports.read(load(text), build)
    except ValueError as error:
        raise UsageError(f"{source} is not YAML: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise UsageError(f"{source} has other fields than Kubernetes", "name a file that a server takes") from None
    return imports.toml(job, left, source), left


def dump(objects: Sequence[Any], head: Sequence[str] = ()) -> str:
    """Return the objects as one YAML text."""
    yaml, out = _yaml("rt"), io.StringIO()
    yaml.width, yaml.explicit_start = 4096, len(objects) > 1
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump_all([_tree(one) for one in objects], out)
    return "".join(f"# {one_line(line)}\n" for line in head) + out.getvalue()


def load(text: str) -> list[Any]:
    """Return the objects of a YAML text. Raises ValueError with the place of an error."""
    yaml = _yaml("safe")
    from ruamel.yaml.error import YAMLError

    try:
        return [one for one in yaml.load_all(text) if one is not None]
    except YAMLError as error:
        place = getattr(error, "problem_mark", None)
        raise ValueError(f"line {place.line + 1 if place else 1}: {getattr(error, 'problem', error)}") from None


def _tree(tree: Any) -> Any:
    """Return a tree of ruamel.yaml's with the origins as comments."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import LiteralScalarString

    if isinstance(tree, Said):
        return _tree(tree.value)
    if isinstance(tree, str) and "\n" in tree:
        return LiteralScalarString(tree)
    if not isinstance(tree, (dict, list)):
        return tree
    made: Any = CommentedMap() if isinstance(tree, dict) else CommentedSeq([None] * len(tree))
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        made[key] = _tree(value)
        if isinstance(value, Said):
            made.yaml_add_eol_comment(one_line(value.why), key, 0)
    return made
