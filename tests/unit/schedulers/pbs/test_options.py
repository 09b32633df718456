"""A job in the options of qsub, in both dialects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnrun.config import jobfile, layers, profiles
from mnrun.jobspec import JobSpec
from mnrun.planning import spec
from mnrun.planning.layout import lay_out, share_gpus
from mnrun.planning.values import Surroundings
from mnrun.schedulers.pbs import OPTION, answers, options
from unit.cases import Cases, given
from unit.conftest import Shell
from unit.samples import build, changed

DOCS = Path(__file__).parents[4] / "docs"
USUAL = ("-S /bin/bash", "-j oe", "-k doe", "-r n", "-N app", "-l place=scatter")
HERE = "# mnrun submit writes these variables here: ALL", 'cd -- "$PBS_O_WORKDIR" || exit 122'


def job(words: str, **site: str) -> JobSpec:
    asked = {"nodes": "2", "ntasks_per_node": "2"} if "ntasks=" not in words else {}
    built = build("./app", **{**asked, **given(words)})
    return changed(share_gpus(built), site={"pbs": site} if site else {})


def script(asked: JobSpec, dialect: str) -> list[str]:
    awaited = {name: answers.theirs(name) for name in ("7", "8_2")} | {"58": "58[]"}
    return [line for line, _ in options.lines(asked, lay_out(asked, None), dialect, awaited)]


def lines(words: str, dialect: str, **site: str) -> str:
    """Return the lines that are not the same for every job."""
    found = [line.removeprefix("#PBS ") for line in script(job(words, **site), dialect)]
    return "; ".join(line for line in found if line not in (*USUAL, *HERE))


def test_lines_of_openpbs(cases: Cases) -> None:
    cases(lambda words: lines(words, "openpbs"))


def test_lines_of_torque(cases: Cases) -> None:
    cases(lambda words: lines(words, "torque"))


def test_what_a_site_says(cases: Cases) -> None:
    cases(lambda words, site: lines(words, "openpbs", **{k: str(v) for k, v in given(site).items()}))


def test_every_job_has_these_lines() -> None:
    """Several chunks may come to one node without a place, and a job starts again by default (seen, 23.06)."""
    found = [line.removeprefix("#PBS ") for line in script(job(""), "openpbs")]
    assert set(USUAL) | set(HERE) <= set(found)


def test_a_job_that_waits_for_others() -> None:
    """PBS would end it at once if one is forgotten, or has another end. So mnrun looks in the job."""
    asked = job("dependency=afterok:7:99")
    text = "\n".join(script(asked, "openpbs"))
    assert "depend=afterany:7\n" in text
    assert "MNRUN_JOB_AFTER=afterok:7:99" in text
    assert "depend" not in "\n".join(script(job("dependency=afterany:99"), "openpbs"))


def test_the_file_of_the_output(cases: Cases) -> None:
    cases(lambda words, dialect: options.output(job(words), dialect))


@pytest.mark.parametrize(
    ("pattern", "environ", "file"),
    [
        ("%x-%j.out", {"PBS_JOBID": "57.login"}, "app-57.out"),
        ("%A_%a.out", {"PBS_JOBID": "58[3].login", "PBS_ARRAY_INDEX": "3"}, "58_3.out"),
        ("%A_%a.out", {"PBS_JOBID": "12[3].srv", "PBS_ARRAYID": "3"}, "12_3.out"),
        ("%N %u.out", {"HOSTNAME": "node03", "LOGNAME": "alice"}, "node03 alice.out"),
        ('it\'s $HOME `x` "100%%" a:b %j', {"PBS_JOBID": "5.s"}, 'it\'s $HOME `x` "100%" a:b 5'),
    ],
)
def test_the_script_opens_files_that_pbs_cannot_name(
    tmp_path: Path, sh: Shell, pattern: str, environ: dict[str, str], file: str
) -> None:
    """PBS fills in no patterns, and reads a colon as the end of a host's name (seen, 23.06)."""
    asked = changed(job(""), options={"output": pattern})
    (line,) = [line for line in script(asked, "openpbs") if line.startswith("exec ")]
    sh(f"{line}\necho text", shell="bash", environ=environ)
    assert (tmp_path / file).read_text() == "text\n"


def test_the_admins_page_shows_what_comes_of_its_profile() -> None:
    page = (DOCS / "admin/pbs.md").read_text(encoding="utf-8")
    text = page.partition("toml title=")[2].partition("\n")[2].partition("```")[0]
    content = profiles.parse(profiles.sheet("cluster1", "", jobfile.TomlFile("cluster1.toml", text, "/", {})))
    typed = {"nodes": "2", "ntasks_per_node": "2", "time": "1:00:00", "mem": "4G", "gpus_per_node": "a100:1"}
    asked = layers.from_command_line({**typed, "account": "physics", "exclusive": True, "image": "app.sif"})
    around = Surroundings("/", "/home/alice", {}, {}, site=profiles.own([content]))
    whole = spec.build(layers.merge(layers.builtin(), content.settings, asked), ["./app"], around)
    shown = re.findall(r"^(#PBS .*)$", page, re.MULTILINE)
    assert [line for line in script(whole, "openpbs") if line.startswith("#PBS")] == shown
    reference = (DOCS / "reference/profile.md").read_text(encoding="utf-8").partition("| key of `[pbs]` |")[2]
    reference = reference.partition("| key of")[0]
    assert re.findall(r"^\| `(\w+)` \| `.*`", reference, re.MULTILINE) == list(OPTION.site)
