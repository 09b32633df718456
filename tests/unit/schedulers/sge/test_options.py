"""A job in the options of qsub."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun.config import jobfile, layers, profiles
from mnrun.planning import spec
from mnrun.planning.layout import lay_out
from mnrun.planning.values import Surroundings
from mnrun.schedulers.sge import OPTION, options
from unit.cases import Cases, given
from unit.samples import build
from unit.schedulers.sge.test_parallel import PES

DOCS = Path(__file__).parents[4] / "docs"


def test_lines_of_the_script(cases: Cases) -> None:
    """A word of the profile and of the job file is written once."""

    def lines(words: str) -> str:
        spec = build("./app", **{"nodes": "2", "ntasks_per_node": "2", **given(words)})
        found = [line.removeprefix("#$ ") for line, _ in options.lines(spec, lay_out(spec, None), PES)]
        return "; ".join(found)

    cases(lines)


def test_the_admins_page_shows_what_comes_of_its_profile() -> None:
    page = (DOCS / "admin/grid-engine.md").read_text(encoding="utf-8")
    text = page.partition("toml title=")[2].partition("\n")[2].partition("```")[0]
    content = profiles.parse(profiles.sheet("cluster1", "", jobfile.TomlFile("cluster1.toml", text, "/", {})))
    typed = {"nodes": "2", "ntasks_per_node": "2", "time": "1:00:00", "mem": "4G", "gpus_per_node": "1"}
    asked = layers.from_command_line({**typed, "account": "physics", "exclusive": True, "image": "app.sif"})
    around = Surroundings("/", "/home/alice", {}, {}, site=profiles.own([content]))
    job = spec.build(layers.merge(layers.builtin(), content.settings, asked), ["./app"], around)
    shown = re.findall(r"^(#\$ .*?) +# ", page, re.MULTILINE)
    assert [line for line, _ in options.lines(job, lay_out(job, None), PES)] == shown
    reference = (DOCS / "reference/profile.md").read_text(encoding="utf-8").partition("| key of `[sge]` |")[2]
    reference = reference.partition("| key of")[0]
    assert re.findall(r"^\| `(\w+)` \| `.*`", reference, re.MULTILINE) == list(OPTION.site)
