"""Profiles: which one is chosen, what it may say, and how all layers become one."""

from __future__ import annotations

import pytest

from mnrun.config import layers, profiles
from mnrun.config.jobfile import Page
from mnrun.config.profiles import Content, Sheet
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import Layer
from unit.samples import setting

SITE = """\
match.cluster = "cluster1"
site.modules  = ["apptainer/1.3.4"]
site.jobs     = "${SCRATCH}/.mnrun"
site.ports    = "41000-41999"
site.slurm_poll = "1m"
site.cache    = "/cache"
resources.partition = "gpu"
policy.privileged = "ask hpc-help"
policy.no_home = "home is small here"
bind = ["/datasets:/data:ro"]
[partition.gpu]
gpus_per_node = 8
env.NCCL_SOCKET_IFNAME = { value = "ib0", why = "carries the route between the nodes" }
[partition.cpu]
env.NCCL_SOCKET_IFNAME = { value = "eth0", why = "there is no other" }
exclusive = true
"""


def sheet(text: str, name: str = "here") -> Sheet:
    path = f"/etc/mnrun/profiles/{name}.toml"
    page = Page(f"profile {name}", text, "/etc/mnrun/profiles", {"SCRATCH": "/scratch/alice"}, layer=Layer.PROFILE)
    return profiles.sheet(name, path, page)


def chosen(*sheets: Sheet, name: str = "", cluster: str = "", host: str = "login1") -> str:
    found = profiles.choose(sheets, name, lambda: cluster, host)
    return found.name if found else ""


def test_a_whole_profile() -> None:
    """The site's own words are options too; a policy is of an option that may not be there yet."""
    content = profiles.parse(sheet(SITE))
    assert {name: setting.value for name, setting in content.settings.items()} == {
        "module": ("apptainer/1.3.4",),
        "job_dir": "/scratch/alice/.mnrun",
        "ports": "41000-41999",
        "slurm_poll": 60,
        "image_cache": "/cache",
        "partition": "gpu",
        "bind": ("/datasets:/data:ro",),
    }
    assert {str(setting.origin) for setting in content.settings.values()} == {"profile here"}
    assert content.policy == {"privileged": "ask hpc-help", "no_home": "home is small here"}
    assert {name: set(part) for name, part in content.partitions.items()} == {
        "gpu": {"gpus_per_node", "env"},
        "cpu": {"exclusive", "env"},
    }


def test_a_partitions_values_hold_in_that_partition() -> None:
    """Whoever named it; and a variable's reason is that of its own value."""
    content = (profiles.parse(sheet(SITE)),)
    merged, partition = profiles.merged(layers.builtin(), content, ())
    assert (partition, merged["gpus_per_node"].value) == ("gpu", "8")
    assert merged["env"].value == ("NCCL_SOCKET_IFNAME=ib0",)
    assert profiles.whys(content, "gpu") == {"NCCL_SOCKET_IFNAME=ib0": "carries the route between the nodes"}
    merged, partition = profiles.merged(layers.builtin(), content, ({"partition": setting("cpu", "command line")},))
    assert (partition, merged["exclusive"].value) == ("cpu", True)
    assert "gpus_per_node" not in merged
    assert profiles.whys(content, partition) == {"NCCL_SOCKET_IFNAME=eth0": "there is no other"}


def test_the_layers_in_their_order() -> None:
    """built-in < site < profile < user < the job's own; a sheet's partition goes right above that sheet."""
    site = Content(
        {"ports": setting("1-2", "site"), "mode": setting("auto", "site")}, {"p": {"mem": setting("1G", "site")}}
    )
    profile = Content({"partition": setting("p", "profile"), "mode": setting("inside-out", "profile")})
    user = Content({"account": setting("me", "user")}, {"p": {"account": setting("p-me", "user")}})
    merged, _ = profiles.merged(layers.builtin(), (site, profile, user), ({"mem": setting("2G", "job.toml line 1")},))
    found = {name: merged[name].value for name in ("ports", "mode", "partition", "account", "mem", "runtime")}
    assert found == {
        **{"ports": "1-2", "mode": "inside-out", "partition": "p", "account": "p-me", "mem": "2G"},
        "runtime": "auto",
    }


def test_the_one_of_this_place() -> None:
    """By Slurm's name of the cluster, by host name with a glob, or by a list of either."""
    one, two = sheet('match.cluster = "one"', "one"), sheet('match.hostname = ["gw*", "login[12]"]', "two")
    assert chosen(one, two, cluster="one", host="node7") == "one"
    assert chosen(one, two, host="gw-a") == "two"
    assert chosen(one, two, host="login2") == "two"
    assert chosen(one, two, cluster="three", host="login3") == ""
    assert chosen() == ""


def test_what_matches_nothing_is_chosen_by_name_alone() -> None:
    """A profile without match is one for a purpose."""
    assert chosen(sheet("keep = true", "debug")) == ""
    assert chosen(sheet("keep = true", "debug"), sheet('match.cluster = "one"', "one"), name="debug") == "debug"


def test_both_conditions_must_hold() -> None:
    """The login nodes of that one cluster."""
    both = sheet('match.cluster = "one"\nmatch.hostname = "login*"')
    assert chosen(both, cluster="one", host="login1") == "here"
    assert chosen(both, cluster="one", host="node1") == ""
    assert chosen(both, cluster="two", host="login1") == ""


def test_the_cluster_is_asked_only_where_it_matters() -> None:
    """A question to slurmctld for nothing is one too many."""

    def never() -> str:
        raise AssertionError("asked")

    named, by_host = sheet('match.cluster = "one"', "one"), sheet('match.hostname = "login*"', "two")
    found = profiles.choose((by_host,), "", never, "login1")
    assert found is by_host
    assert profiles.choose((named, by_host), "two", never, "login1") is by_host


def test_two_that_match_are_refused() -> None:
    """Never merged; both are named."""
    one, two = sheet('match.cluster = "one"', "one"), sheet('match.hostname = "login*"', "two")
    with pytest.raises(UsageError) as wrong:
        chosen(one, two, cluster="one")
    assert str(wrong.value) == (
        "two profiles match this place: one (/etc/mnrun/profiles/one.toml) and two (/etc/mnrun/profiles/two.toml); "
        "name one with --profile, or MNRUN_PROFILE"
    )


def test_a_users_own_goes_before_the_sites_of_that_name() -> None:
    """Found by name or by place, and no quarrel with the one that it replaces."""
    site, own = sheet('match.cluster = "one"', "x"), sheet('match.cluster = "one"\nkeep = true', "x")
    assert profiles.choose((site, own), "", lambda: "one", "") is own
    assert profiles.choose((site, own), "x", lambda: "", "") is own


def test_a_name_that_is_none() -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match=r"^there is no profile z; known profiles: a, b$"):
        chosen(sheet("", "b"), sheet("", "a"), name="z")
    with pytest.raises(UsageError, match=r"^there is no profile z; known profiles: none$"):
        chosen(name="z")


@pytest.mark.parametrize("key", ["partition", "resources.partition"])
def test_a_default_partition_is_written_as_in_a_job_file(key: str) -> None:
    content = profiles.parse(sheet(f"{key} = 'main'", "here"))
    assert content.settings["partition"].value == "main"
    assert not content.partitions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match.host = 'x'", "profile here line 1: match.host is not valid; write match.cluster"),
        ("match.cluster = 7", "profile here line 1: match.cluster is not valid; "),
        ("match.hostname = []", "profile here line 1: match.hostname is not valid; "),
        ("match = 'x'", "profile here line 1: match is a table here; "),
        ("partition.gpu = 'x'", "profile here line 1: partition.gpu is not a table; "),
        ("[partition.gpu]\nnodez = 1", "profile here line 2: unknown key nodez; did you mean nodes (a number)?"),
        ("site.module = ['x']", "profile here line 1: unknown key site.module; use one of modules, jobs, ports, "),
        ("keep = true\nsite.modules = 'x'", 'profile here line 2: modules = "x" is not a list of strings; write '),
        ("site.ports = ''", "--ports is empty (profile here line 1)"),
        ("policy.keep = false", "profile here line 1: policy.keep is not a string; write the reason that users read"),
        (
            "profile = 'y'",
            "profile here line 1: a profile cannot name another profile; remove this key: ",
        ),
        ("command = ['x']", "profile here line 1: command is allowed only in a job file; "),
        ("nodes = ", "profile here line 1: invalid value; "),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    """File and line, for whoever wrote it."""
    with pytest.raises(UsageError) as wrong:
        profiles.parse(sheet(text))
    assert str(wrong.value).startswith(message)


def test_only_a_profile_is_matched() -> None:
    """Site defaults hold everywhere."""
    with pytest.raises(UsageError, match="match is allowed only in a profile"):
        sheet("match.cluster = 'x'", "")


@pytest.mark.parametrize(("value", "wrong"), [(True, True), ("x", True), (False, False)])
def test_policy(value: object, wrong: bool) -> None:
    """The option, where it was asked for, and the site's words; a flag that is off is none."""
    assert isinstance(value, (bool, str))
    asked = {"no_home": setting(value, "job.toml line 3")}
    if not wrong:
        profiles.refuse_unwanted(asked, {"no_home": "home is small"}, "profile here")
        return
    with pytest.raises(Impossible) as refused:
        profiles.refuse_unwanted(asked, {"no_home": "home is small"}, "profile here")
    assert str(refused.value) == (
        "--no-home (job.toml line 3) is refused by profile here: home is small; --force overrides it"
    )
