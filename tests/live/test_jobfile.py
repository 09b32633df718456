"""Job files, profiles and layers of settings, as a user and a site's admin type them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from published import checked

from .batch import forget, of_the_site
from .cells import HELLO, OMPI5
from .reports import Rank, check, errors, mine
from .stage import LOGIN, TOP, Cluster, Desk, Result

JOB = f"""\
command = ["{HELLO}", "two words", "$HOME"]
[container]
image = "${{IMAGES}}/ompi5.sif"
bind  = ["data:/data:ro"]
[resources]
nodes = 2
ntasks_per_node = 2
time = "10:00"
[env]
GREETING = "it's = a test"
TOKEN = true
PYTHONNOUSERSITE = false
"""
ENV = {"IMAGES": "/images", "TOKEN": "very-secret"}


@pytest.fixture
def job(desk: Desk) -> str:
    desk.cluster.root(LOGIN, "install", "-d", "-o", "alice", f"{desk.path}/data")
    return desk.put("job.toml", JOB)


def test_a_job_file_runs(cluster: Cluster, job: str) -> None:
    """`salloc … mnrun job.toml`, from another directory than the file's; nothing secret is said."""
    result = cluster.mnrun(job, nodes=2, env=ENV)
    check(result, "node01", "node02")
    assert "very-secret" not in result.err, result
    assert any("--time: no effect here" in line for line in mine(result)), result


def test_its_variables_arrive(cluster: Cluster, job: str) -> None:
    words = ["sh", "-c", 'echo "$GREETING|$TOKEN|${PYTHONNOUSERSITE-none}|$(ls -d /data)"']
    result = cluster.mnrun(job, "-n", "1", "-N", "1", "-Q", "--", *words, nodes=1, tasks=0, env=ENV)
    assert (result.code, result.out) == (0, "it's = a test|very-secret|none|/data\n"), result


def test_every_layer_above_the_file(cluster: Cluster, job: str) -> None:
    env = {
        **ENV,
        "MNRUN_NTASKS_PER_NODE": "3",
        "MNRUN_TIME": "1:00",
        "SBATCH_TIMELIMIT": "2:00",
        "SBATCH_QOS": "normal",
    }
    line = ["env", *(f"{n}={v}" for n, v in env.items()), "mnrun", "plan", job, "-N", "3"]
    shown = cluster.alice(line)
    assert shown.code == 0, shown
    for wanted in (
        "nodes = 3    # command line\n",
        "ntasks_per_node = 3    # MNRUN_NTASKS_PER_NODE\n",
        "time = 2:00    # SBATCH_TIMELIMIT\n",
        "qos = normal    # SBATCH_QOS\n",
        f"image = {OMPI5}    # {job} line 3\n",
        f"bind = {job[: -len('/job.toml')]}/data:/data:ro    # {job} line 4\n",
        "env = GREETING TOKEN    # ",
    ):
        assert wanted in shown.out, (wanted, shown)
    assert "very-secret" not in shown.out + shown.err, shown
    as_json = cluster.alice([*line, "--format", "json"])
    assert checked("plan", as_json.out)["values"]["time"] == {"value": "2:00", "origin": "SBATCH_TIMELIMIT"}, as_json


def test_the_script_has_the_same_origins(cluster: Cluster, job: str) -> None:
    """`submit --dry-run` of the same file; Slurm would take it."""
    env = {**ENV, "SBATCH_JOB_NAME": "mine"}
    line = ["env", *(f"{n}={v}" for n, v in env.items()), "mnrun", "submit", "--dry-run", job]
    made = cluster.alice(line)
    assert made.code == 0, made
    assert "very-secret" not in made.out + made.err, made
    directives = {
        words.split()[0]: why
        for words, _, why in (d[8:].partition("# ") for d in made.out.splitlines() if d[:8] == "#SBATCH ")
    }
    assert directives["--time=10:00"] == f"{job} line 8", made
    assert directives["--job-name=mine"] == "SBATCH_JOB_NAME", made
    assert cluster.alice(["sbatch", "--test-only"], made.raw).code == 0, made


@pytest.mark.parametrize("mode", ["inside-out", "outside-in"])
def test_a_variable_is_taken_away_in_both_walks(cluster: Cluster, desk: Desk, mode: str) -> None:
    words = 'echo "$OMPI_COMM_WORLD_RANK $A|${GONE-away}|$TOKEN"'
    path = desk.put(
        "job.toml",
        f"command = ['sh', '-c', '{words}']\nimage = '{OMPI5}'\nmode = '{mode}'\nntasks_per_node = 1\nnodes = 2\n"
        "quiet = true\noutput = 'out'\n[env]\nA = 'a b'\nGONE = false\nTOKEN = true\n",
    )
    env = {"GONE": "still there", "TOKEN": "very-secret"}
    live = cluster.mnrun(path, nodes=2, tasks=1, env=env)
    assert sorted(live.out.splitlines()) == ["0 a b|away|very-secret", "1 a b|away|very-secret"], live
    submitted = cluster.alice(
        ["env", *(f"{n}={v}" for n, v in env.items()), "mnrun", "submit", "--wait", path], cwd=desk.path
    )
    try:
        assert submitted.code == 0, (submitted, desk.read("out"))
        assert sorted(line for line in desk.read("out").decode().splitlines() if "|" in line) == sorted(
            live.out.splitlines()
        )
    finally:
        cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")


def test_a_profile_of_the_site(cluster: Cluster, site: str, job: str) -> None:
    name = cluster.root(LOGIN, "sh", "-c", "scontrol show config | sed -n 's/^ClusterName *= *//p'").strip()
    of_the_site(
        cluster,
        "profiles/here.toml",
        f'match.cluster = "{name}"\nresources.partition = "main"\nbind = ["/usr:/site-usr:ro"]\n'
        'policy.no_home = "home is where it must be"\n'
        '[partition.main]\nenv.FABRIC = { value = "ib0", why = "carries the route" }\n'
        '[partition.other]\nenv.FABRIC = "eth0"\n',
    )
    run = cluster.mnrun(
        *(job, "-N", "1", "-n", "1", "-Q", "--", "sh", "-c", 'echo "$FABRIC" "$(ls -d /site-usr)"'),
        nodes=1,
        tasks=0,
        env=ENV,
    )
    assert (run.code, run.out, errors(run)) == (0, "ib0 /site-usr\n", ""), run
    line = ["env", *(f"{n}={v}" for n, v in ENV.items()), "mnrun", "plan", job]
    shown = cluster.alice(line)
    assert "partition = main    # profile here\n" in shown.out, shown
    assert "profile = here    # its match fits this place\n" in shown.out, shown
    refused = cluster.alice([*line, "--no-home"])
    assert refused.code == 122, refused
    assert mine(refused)[0].startswith("--no-home (command line) is refused by profile here: home is where it must be")
    listed = cluster.alice(["mnrun", "profile", "list"])
    assert listed.out == f"*  here  /etc/mnrun/profiles/here.toml  cluster={name}\n", listed
    assert "partition = main    # profile here\n" in cluster.alice(["mnrun", "profile", "show"]).out


def test_records_where_the_site_has_them(cluster: Cluster, site: str, desk: Desk) -> None:
    of_the_site(cluster, "profiles/here.toml", f'match.hostname = "login*"\nsite.jobs = "{desk.path}/records/jobs"')
    words = ["mnrun", "submit", "--wait", "-N", "1", "-n", "1", "--runtime", "host", "--", "echo", "hello there"]
    submitted = cluster.alice(words, cwd=desk.path)
    assert submitted.code == 0, submitted
    number = submitted.out.strip()
    assert "hello there" in cluster.alice(["mnrun", "logs", number]).out
    assert number in cluster.alice(["mnrun", "status", number]).out
    records = [entry.name for entry in cluster.path(f"{desk.path}/records/jobs").iterdir()]
    assert any(name.startswith(number) for name in records), records


@pytest.mark.parametrize(("mode", "owner"), [("666", "root"), ("664", "root:proj"), ("644", "alice")])
def test_what_is_not_the_sites_is_ignored(cluster: Cluster, site: str, mode: str, owner: str) -> None:
    of_the_site(cluster, "profiles/here.toml", 'match.hostname = "*"\nmode = "outside-in"\nkeep = true', mode, owner)
    result = cluster.mnrun("--image", OMPI5, "--", HELLO, nodes=1, tasks=1)
    check(result, "node01", tasks=1)
    assert [line for line in mine(result) if line.startswith("warning: /etc/mnrun/profiles/here.toml is ignored: ")]
    assert "keep" not in cluster.alice(["mnrun", "profile", "show"]).out


def test_two_profiles_that_match(cluster: Cluster, site: str, desk: Desk) -> None:
    for name in ("one", "two"):
        of_the_site(
            cluster, f"profiles/{name}.toml", f'match.hostname = "login*"\nsite.jobs = "{desk.path}/{name}/jobs"'
        )
    result = cluster.alice(["mnrun", "plan", "--image", OMPI5, "--", HELLO])
    assert (result.code, result.out) == (2, ""), result
    assert "one (/etc/mnrun/profiles/one.toml) and two (/etc/mnrun/profiles/two.toml); name one" in result.err, result
    words = ["mnrun", "submit", "--profile", "two", "-N", "1", "-n", "1", "--runtime", "host", "--", "sh", "-c"]
    handed = cluster.alice([*words, "echo hello there; exit 3"], cwd=desk.path)
    number = handed.out.strip()
    assert handed.code == 0, handed
    assert cluster.alice(["mnrun", "wait", number]).code == 3
    assert "hello there\n" in cluster.alice(["mnrun", "logs", number]).out
    (seen,) = checked("status", cluster.alice(["mnrun", "status", "--json", number]).out)["jobs"]
    assert (seen["id"], seen["code"]) == (number, 3), seen
    assert f"{desk.path}/two/jobs" in cluster.alice(["mnrun", "clean"]).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\nnodez = 2\n", "line 3: unknown key nodez; did you mean nodes (a number)?"),
        ('[resources]\nnodes = "two"\n', 'line 2: nodes = "two" is not a number; write nodes = 4'),
        ('image = "app.sif\nnodes = 2\n', "line 1: a quote is missing; strings stand in quotes, lists in []"),
        ("\ufeffnodes = 2\n", "line 1: it begins with a byte order mark; save it as UTF-8 without one"),
        ('image = "${NOWHERE}/app.sif"', "line 1: ${NOWHERE} is not set; set it, or write $${NOWHERE} for the text"),
        ("nodes = 2\nnodes = 3\n", "line 2: cannot overwrite a value; "),
    ],
)
def test_a_wrong_job_file(cluster: Cluster, desk: Desk, text: str, said: str) -> None:
    path = desk.put("job.toml", text.encode())
    result = cluster.alice(["mnrun", "plan", path])
    assert (result.code, result.out) == (2, ""), result
    assert result.err.startswith(f"mnrun: {path} {said}"), result
    assert result.err.count("\n") == 1, result


def test_tabs_are_blanks(cluster: Cluster, desk: Desk) -> None:
    path = desk.put("job.toml", f'[a]\n\timage\t=\t"{OMPI5}"\t# tabs\n\tcommand = ["{HELLO}"]\n')
    assert cluster.alice(["mnrun", "plan", path]).code == 0
    path = desk.put("job.toml", 'name = "a\tb"\n')
    result = cluster.alice(["mnrun", "plan", path])
    assert result.code == 2, result
    assert "contains a tab, a newline or another control character" in result.err, result


def test_init_and_then_run(cluster: Cluster, desk: Desk) -> None:
    made = cluster.alice(["mnrun", "init"], cwd=desk.path)
    assert (made.code, made.out) == (0, "job.toml\n"), made
    before = desk.read("job.toml")
    again = cluster.alice(["mnrun", "init"], cwd=desk.path)
    assert (again.code, again.out) == (2, ""), again
    assert desk.read("job.toml") == before
    assert cluster.alice(["mnrun", "init", "mine.toml", "-n1", "--image", OMPI5, "--", HELLO], cwd=desk.path).code == 0
    check(cluster.mnrun("mine.toml", nodes=1, tasks=1, cwd=desk.path), "node01", tasks=1)
    result = cluster.mnrun("job.toml", "--image", OMPI5, "--", HELLO, nodes=1, tasks=1, cwd=desk.path)
    check(result, "node01", tasks=1)


def test_completion(cluster: Cluster) -> None:
    script = (
        'eval "$(mnrun completion bash)"; COMP_WORDS=(mnrun run --ntasks-p) COMP_CWORD=2; '
        '_mnrun_completion mnrun --ntasks-p run; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = cluster.alice(["bash", "-c", script])
    assert "--ntasks-per-node" in result.out.split(), result


ANYWHERE = TOP / "tests/unit/schedulers/anywhere.toml"  # anywhere.md has it in the words of each scheduler


def check_anywhere(result: Result) -> None:
    """All ranks of the file spoke, two on each node, in whatever order a scheduler has the nodes."""
    assert result.code == 0, result
    ours = b"".join(line for line in result.raw.splitlines(True) if line.startswith(b"rank "))
    said = [replace(rank, host="") for rank in check(replace(result, raw=ours), "node01", "node02")]
    assert said == [Rank(rank, 4, "", 10, "good morning", "") for rank in range(4)], result


@pytest.mark.xdist_group("grid-engine")
def test_one_file_in_three_systems(cluster: Cluster, grid: Cluster) -> None:
    """Its tables of other schedulers are passed over."""
    for where, option in ((cluster, "-w"), (grid, "-w"), (cluster, "--hosts")):
        with where.desk() as desk:
            words = [desk.put("job.toml", ANYWHERE.read_bytes()), option, "node[01-02]"]
            check_anywhere(where.alice(["mnrun", *words], cwd=desk.path))
    forget(grid)
    assert grid.wait_clean(60) == []
