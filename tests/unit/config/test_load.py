"""All layers of a job's settings as they are found: which files count, whose word is believed, what is warned of."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.config import load as gather
from mnrun.config.load import JobSettings
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.planning import spec
from mnrun.planning.values import Surroundings
from mnrun.schedulers.slurm import scheduler as slurm
from unit.texts import Refused, Says


class Place:
    """A site's directory, a home, and a current directory, all under tmp_path."""

    def __init__(self, root: Path) -> None:
        self.site, self.home, self.cwd = root / "etc", root / "home", root / "cwd"
        self.own = self.home / ".config/mnrun"
        for folder in (self.site / "profiles", self.own / "profiles", self.cwd):
            folder.mkdir(parents=True, mode=0o755)

    def gather(
        self, path: str = "", batch: bool = False, environ: dict[str, str] | None = None, **given: object
    ) -> JobSettings:
        sources = gather.read(given, path, environ or {}, str(self.cwd), str(self.home))
        return gather.gather(sources, environ or {}, batch=batch)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture) -> Place:
    found = Place(tmp_path)
    monkeypatch.setattr(gather, "SITE", found.site)
    monkeypatch.setattr(gather, "OWNER", os.getuid())
    mocker.patch.object(slurm, "name", return_value="cluster1")
    mocker.patch.object(platform, "node", return_value="login1")
    return found


def test_nothing_at_all(place: Place) -> None:
    found = place.gather()
    assert {str(setting.origin) for setting in found.settings.values()} == {"built-in"}
    assert (found.command, found.warnings, found.profile) == ((), (), "")


def test_every_layer_in_its_order(place: Place) -> None:
    layers = [
        (place.site / "config.toml", f"{place.site}/config.toml line 1"),
        (place.site / "profiles/here.toml", "profile here"),
        (place.own / "config.toml", f"{place.own}/config.toml line 1"),
        (place.cwd / "job.toml", "job.toml line 1"),
    ]
    assert place.gather("").settings["ports"].origin.text == "built-in"
    (place.cwd / "job.toml").write_text("")
    for number, (path, origin) in enumerate(layers):
        match = 'match.cluster = "cluster1"\n' if path.parent.name == "profiles" else ""
        write(path, f'account = "a{number}"\n{match}')
        found = place.gather("job.toml").settings["account"]
        assert (found.value, str(found.origin)) == (f"a{number}", origin)
    environ = {"MNRUN_ACCOUNT": "a4"}
    assert place.gather("job.toml", environ=environ).settings["account"].origin.text == "MNRUN_ACCOUNT"
    environ["SBATCH_ACCOUNT"] = "a5"
    assert place.gather("job.toml", environ=environ).settings["account"].origin.text == "SBATCH_ACCOUNT"
    assert place.gather("job.toml", environ=environ, account="a6").settings["account"].value == "a6"


def test_lists_add_up_over_all_layers(place: Place) -> None:
    write(place.site / "config.toml", 'bind = ["/site", "/datasets:/data:ro"]\nmodules = ["apptainer/1.3"]')
    write(place.own / "config.toml", 'bind = ["/mine"]\n[env]\nA = "1"\nB = "2"')
    (place.cwd / "job.toml").write_text(
        'bind = ["!/datasets", "here:/here"]\nmodules = ["!apptainer", "cuda"]\n[env]\nA = false\nC = true'
    )
    found = place.gather("job.toml", bind=("/last",)).settings
    assert found["bind"].value == ("/site", "/mine", f"{place.cwd}/here:/here", "/last")
    assert found["module"].value == ("cuda",)
    assert found["env"].value == ("B=2", "!A", "C")


def test_a_profile_is_shown_with_how_it_was_chosen(refused: Refused, place: Place) -> None:
    write(place.site / "profiles/here.toml", 'match.hostname = "login*"')
    write(place.own / "profiles/mine.toml", "keep = true")
    assert place.gather().settings["profile"].value == "here"
    assert place.gather().settings["profile"].origin.text == "its match fits this place"
    found = place.gather(profile="mine")
    assert (found.profile, str(found.settings["keep"].origin)) == ("mine", "profile mine")
    assert place.gather(environ={"MNRUN_PROFILE": "mine"}).settings["profile"].origin.text == "MNRUN_PROFILE"
    (place.cwd / "job.toml").write_text('profile = "mine"')
    assert place.gather("job.toml").profile == "mine"
    with refused(UsageError):
        place.gather(profile="other")


def test_the_current_directory_says_nothing(place: Place) -> None:
    for name in ("job.toml", "mnrun.toml", "config.toml"):
        (place.cwd / name).write_text("keep = true")
    assert "keep" not in place.gather().settings


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_sites_file_that_others_can_write_is_ignored(place: Place, mode: int, says: Says) -> None:
    write(place.site / "config.toml", "keep = true", mode)
    write(place.site / "profiles/here.toml", 'match.cluster = "cluster1"\nforce = true', mode)
    found = place.gather()
    assert not {"keep", "force", "profile"} & set(found.settings)
    assert len(found.warnings) == 2
    says(found.warnings[1])


def test_a_sites_file_of_somebody_else_is_ignored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place.site / "profiles/here.toml", 'match.cluster = "cluster1"\nkeep = true')
    monkeypatch.setattr(gather, "OWNER", os.getuid() + 1)
    found = place.gather()
    assert "keep" not in found.settings
    assert len(found.warnings) == 1


@pytest.mark.parametrize("folder", ["", "profiles"])
def test_a_directory_that_others_can_write_is_no_better(place: Place, folder: str) -> None:
    write(place.site / "profiles/here.toml", 'match.cluster = "cluster1"\nkeep = true')
    (place.site / folder).chmod(0o777)
    found = place.gather()
    assert "keep" not in found.settings
    assert len(found.warnings) == 1


def test_a_users_own_files_are_the_users_matter(place: Place) -> None:
    write(place.own / "config.toml", "keep = true", 0o664)
    assert place.gather().settings["keep"].value is True


def test_a_profile_that_is_not_chosen_need_not_make_sense_here(refused: Refused, place: Place) -> None:
    write(place.site / "profiles/other.toml", 'match.cluster = "other"\nsite.jobs = "${OTHERS_SCRATCH}/x"')
    assert place.gather().profile == ""
    with refused(UsageError):
        place.gather(profile="other")


def test_a_cluster_that_cannot_be_asked(refused: Refused, place: Place, mocker: MockerFixture) -> None:
    write(place.site / "profiles/here.toml", 'match.cluster = "cluster1"')
    mocker.patch.object(slurm, "name", side_effect=SchedulerError("scontrol did not answer"))
    with refused(SchedulerError):
        place.gather()
    assert place.gather(profile="here").profile == "here"


def test_policy_is_advice_and_no_lock(refused: Refused, place: Place) -> None:
    write(
        place.site / "profiles/here.toml",
        'match.cluster = "cluster1"\nno_home = true\n[policy]\nno_home = "why"\nmem = "use mem_per_cpu"',
    )
    assert place.gather().settings["no_home"].value is True
    with refused(Impossible):
        place.gather(environ={"MNRUN_MEM": "1G"})
    assert place.gather(mem="1G", force=True).settings["mem"].value == "1G"
    with pytest.raises(Impossible):
        place.gather(mem="1G", environ={"MNRUN_FORCE": "0"})


def test_why_a_variable_has_its_value(place: Place) -> None:
    write(
        place.site / "config.toml",
        '[partition.gpu]\nenv.X = { value = "1", why = "gpu" }\n[partition.cpu]\nenv.X = { value = "1", why = "cpu" }',
    )
    assert place.gather(partition="gpu").whys == {"X=1": "gpu"}
    assert place.gather().whys == {}


def test_a_job_that_runs_is_in_its_own_partition(place: Place) -> None:
    write(
        place.site / "config.toml",
        'resources.partition = "gpu"\n[partition.gpu]\ngpus_per_node = 8\nenv.X = "gpu"\n'
        '[partition.small]\ngres = "gpu:2,nvme:1"\nenv.X = "small"',
    )
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "small"}
    for environ, batch, env, gpus in (
        ({}, False, "X=gpu", "8"),
        (job, True, "X=gpu", "8"),
        (job, False, "X=small", None),
        ({**job, "SLURM_JOB_PARTITION": "other"}, False, None, None),
    ):
        found = place.gather(environ=environ, batch=batch).settings
        assert (found["env"].value if "env" in found else None) == ((env,) if env else None), environ
        assert {str(found[name].value) for name in ("gpus", "gpus_per_node") if name in found} == {gpus} - {None}
        assert ("gres" in found and found["gres"].value == "nvme:1") == (env == "X=small")
    assert place.gather(environ=job, gpus_per_node="4").settings["gpus_per_node"].value == "4"
    assert place.gather(environ={**job, "MNRUN_GPUS_PER_NODE": "4"}).settings["gpus_per_node"].value == "4"


def test_sbatchs_variables_mean_nothing_to_a_job_that_runs(place: Place) -> None:
    environ = {"SLURM_JOB_ID": "7", "SBATCH_GRES": "gpu:2"}
    assert "gres" not in place.gather(environ=environ).settings
    assert place.gather(environ=environ, batch=True).settings["gres"].origin.text == "SBATCH_GRES"


def test_the_commands_words(place: Place) -> None:
    (place.cwd / "job.toml").write_text('command = ["./app"]')
    assert place.gather("job.toml").command == ("./app",)
    assert place.gather("job.toml", script="x.sh").command == ()
    (place.cwd / "job.toml").write_text('script = "x.sh"\ncommand = ["one"]')
    assert place.gather("job.toml").command == ("one",)


def test_an_option_among_the_variables_is_told(place: Place, says: Says) -> None:
    (place.cwd / "job.toml").write_text('[env]\ntime = "10"\nTIME = "10"\n')
    found = place.gather("job.toml", env=("nodes=2",))
    assert {"time=10", "TIME=10", "nodes=2"} == {word for word, _ in found.settings["env"].words}
    (told,) = found.warnings
    says(told)


def test_a_job_file_elsewhere(place: Place, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/job.toml").write_text('image = "app.sif"')
    found = place.gather("../there/job.toml").settings["image"]
    assert (found.value, str(found.origin)) == (f"{tmp_path}/there/app.sif", "../there/job.toml line 1")


def test_a_job_file_that_cannot_be_read(refused: Refused, place: Place) -> None:
    (place.cwd / "odd.toml").write_bytes(b"name = '\xff'")
    for name in ("none.toml", ".", "odd.toml"):
        with refused(UsageError):
            place.gather(name)


def test_what_holds_before_any_job_is_named(place: Place, mocker: MockerFixture) -> None:
    """`mnrun logs` looks where the site has jobs' records; what is wrong with other variables is no matter."""
    write(
        place.site / "profiles/here.toml", 'match.cluster = "Cluster1"\nsite.jobs = "/scratch/jobs"\nslurm_poll = "1m"'
    )
    found = gather.standing(
        {"MNRUN_SLURM_POLL": "2m", "MNRUN_MODE": "x", "SBATCH_TIMELIMIT": ""}, str(place.home)
    ).settings
    assert (found["job_dir"].value, found["poll"].value) == ("/scratch/jobs", 120)
    found = gather.standing({"MNRUN_SLURM_POLL": "2m", "MNRUN_POLL": "3m"}, str(place.home)).settings
    assert (found["poll"].value, found["poll"].origin.text) == (180, "MNRUN_POLL")
    places = {"MNRUN_IMAGE_CACHE": "/scratch/cache", "MNRUN_PODMAN_ROOT": "/local/store"}
    found = gather.standing(places, str(place.home)).settings
    assert [found[name].value for name in ("image_cache", "podman_root")] == list(places.values())
    mocker.patch.object(slurm, "name", side_effect=SchedulerError("scontrol did not answer"))
    assert gather.standing({}, str(place.home)).settings["job_dir"].value == "~/.mnrun/jobs"


def test_what_holds_where_two_profiles_match(place: Place) -> None:
    for name in ("one", "two"):
        write(place.site / f"profiles/{name}.toml", f'match.hostname = "*"\nsite.jobs = "/{name}"')
    assert gather.standing({}, str(place.home)).settings["job_dir"].value == "~/.mnrun/jobs"


def test_a_closed_place_of_settings(refused: Refused, place: Place) -> None:
    with refused(UsageError):
        place.gather(environ={"XDG_CONFIG_HOME": "/" + "x" * 300})


@pytest.mark.parametrize(
    ("where", "mode"), [("", 0o755), ("", 0o1777), ("", 0o777), ("mnrun", 0o777), ("mnrun", 0o1777)]
)
def test_a_place_of_settings_where_others_may_write(place: Place, tmp_path: Path, where: str, mode: int) -> None:
    """A site may set the variable to a directory in /tmp, which another user can make first."""
    (tmp_path / "config/mnrun").mkdir(parents=True)
    write(tmp_path / "config/mnrun/config.toml", "keep = true")
    (tmp_path / "config" / where).chmod(mode)
    found = place.gather(environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    ignored = bool(where) or mode == 0o777
    assert ("keep" in found.settings, len(found.warnings)) == (not ignored, int(ignored))


def test_a_relative_place_of_settings_says_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place.own / "config.toml", "keep = true")
    (place.cwd / "own/mnrun").mkdir(parents=True)
    write(place.cwd / "own/mnrun/config.toml", "force = true")
    monkeypatch.chdir(place.cwd)
    found = place.gather(environ={"XDG_CONFIG_HOME": "own"}).settings
    assert ("keep" in found, "force" in found) == (True, False)


@pytest.mark.parametrize("image", ["ubuntu", "team/app", "0a1b2c3d4e5f"])
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_an_image_of_a_store_is_no_path(place: Place, image: str, runtime: str) -> None:
    (place.cwd / "jobs").mkdir()
    (place.cwd / "jobs/job.toml").write_text(f'image = "{image}"')
    around = Surroundings(str(place.cwd), str(place.home), {}, {})

    def named(runtime: str) -> str:
        found = place.gather("jobs/job.toml", runtime=runtime).settings
        return spec.build(found, ("./app",), around).container.image_name

    assert named(runtime) == image
    assert named("apptainer") == f"{place.cwd}/jobs/{image}"
