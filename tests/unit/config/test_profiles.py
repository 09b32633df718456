"""Profiles: which one is chosen, what it may say, and how all layers become one."""

from __future__ import annotations

import pytest

from mnrun.config import layers, profiles
from mnrun.config.jobfile import TomlFile
from mnrun.config.profiles import Content, ProfileFile
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import Layer
from mnrun.schedulers import OWN
from mnrun.schedulers.vocabulary import OwnOption
from unit.samples import setting
from unit.texts import Refused

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


def sheet(text: str, name: str = "here") -> ProfileFile:
    path = f"/etc/mnrun/profiles/{name}.toml"
    page = TomlFile(f"profile {name}", text, "/etc/mnrun/profiles", {"SCRATCH": "/scratch/alice"}, layer=Layer.PROFILE)
    return profiles.sheet(name, path, page)


def chosen(*sheets: ProfileFile, name: str = "", cluster: str = "", host: str = "login1") -> str:
    found = profiles.choose(sheets, name, lambda: cluster, host)
    return found.name if found else ""


def test_a_whole_profile() -> None:
    content = profiles.parse(sheet(SITE))
    assert {name: setting.value for name, setting in content.settings.items()} == {
        "module": ("apptainer/1.3.4",),
        "job_dir": "/scratch/alice/.mnrun",
        "ports": "41000-41999",
        "poll": 60,
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
    one, two = sheet('match.cluster = "one"', "one"), sheet('match.hostname = ["gw*", "login[12]"]', "two")
    assert chosen(one, two, cluster="one", host="node7") == "one"
    assert chosen(one, two, host="gw-a") == "two"
    assert chosen(one, two, host="login2") == "two"
    assert chosen(one, two, cluster="three", host="login3") == ""
    assert chosen() == ""


def test_what_matches_nothing_is_chosen_by_name_alone() -> None:
    assert chosen(sheet("keep = true", "debug")) == ""
    assert chosen(sheet("keep = true", "debug"), sheet('match.cluster = "one"', "one"), name="debug") == "debug"


def test_both_conditions_must_hold() -> None:
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


def test_two_that_match_are_refused(refused: Refused) -> None:
    one, two = sheet('match.cluster = "one"', "one"), sheet('match.hostname = "login*"', "two")
    with refused(UsageError):
        chosen(one, two, cluster="one")


def test_a_users_own_goes_before_the_sites_of_that_name() -> None:
    site, own = sheet('match.cluster = "one"', "x"), sheet('match.cluster = "one"\nkeep = true', "x")
    assert profiles.choose((site, own), "", lambda: "one", "") is own
    assert profiles.choose((site, own), "x", lambda: "", "") is own


def test_a_name_that_is_none(refused: Refused) -> None:
    with refused(UsageError):
        chosen(sheet("", "b"), sheet("", "a"), name="z")
    with refused(UsageError):
        chosen(name="z")


@pytest.mark.parametrize("key", ["partition", "resources.partition"])
def test_a_default_partition_is_written_as_in_a_job_file(key: str) -> None:
    content = profiles.parse(sheet(f"{key} = 'main'", "here"))
    assert content.settings["partition"].value == "main"
    assert not content.partitions


@pytest.mark.parametrize(
    "text",
    [
        *("match.host = 'x'", "match.cluster = 7", "match.hostname = []", "match = 'x'", "partition.gpu = 'x'"),
        *("[partition.gpu]\nnodez = 1", "site.module = ['x']", "keep = true\nsite.modules = 'x'", "site.ports = ''"),
        *("policy.keep = false", "profile = 'y'", "command = ['x']", "nodes = "),
    ],
)
def test_what_is_refused(refused: Refused, text: str) -> None:
    with refused(UsageError):
        profiles.parse(sheet(text))


def test_only_a_profile_is_matched(refused: Refused) -> None:
    with refused(UsageError):
        sheet("match.cluster = 'x'", "")


@pytest.mark.parametrize(("value", "wrong"), [(True, True), ("x", True), (False, False)])
def test_policy(refused: Refused, value: object, wrong: bool) -> None:
    assert isinstance(value, (bool, str))
    asked = {"no_home": setting(value, "job.toml line 3")}
    if not wrong:
        profiles.refuse_unwanted(asked, {"no_home": "home is small"}, "profile here")
        return
    with refused(Impossible):
        profiles.refuse_unwanted(asked, {"no_home": "home is small"}, "profile here")


def test_a_schedulers_table_has_settings_of_the_site(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"pe": "a name, or a table of names by ranks on each node", "memory": "a complex"}
    monkeypatch.setitem(OWN, "other", OwnOption("other", lambda word, _: word, lambda key, _: key, site=site))
    below = profiles.parse(sheet('[other]\npe = "mpi"\nmemory = "h_vmem"'))
    above = profiles.parse(sheet('other.pe = { "1" = "smp", "*" = "mpi" }'))
    assert (below.settings, above.settings) == ({}, {})
    assert profiles.own([below, Content(), above]) == {"other": {"pe": {"1": "smp", "*": "mpi"}, "memory": "h_vmem"}}
    with refused(UsageError):
        profiles.parse(sheet("[other]\npe = [1]"))
