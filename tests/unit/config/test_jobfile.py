"""Job files: what each line means, and the one line that is said of a wrong one."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from mnrun.config import jobfile
from mnrun.config.jobfile import JobFile, Page
from mnrun.errors import UsageError
from mnrun.jobspec import Layer
from unit.samples import origin, setting

WHOLE = """\
# a job
name    = "resnet50"
command = ["python", "train.py", "--lr", "0.1", "two words", "$HOME"]
chdir   = "."
output  = "%x-%j.out"

[container]
image = "${SCRATCH}/img/pytorch.sif"
bind  = [
    "/datasets:/data:ro",   # a comment
    "in:/in",
]
container_args = ["--writable-tmpfs", "two words"]

[launch]
mode = "outside-in"
start_timeout = "5m"
keep = true

[resources]
nodes = 4
gpus_per_node = 8
time = "12:00:00"

[env]
TOKEN = true
GONE = false
OMP_NUM_THREADS = 4
GREETING = "it's = a test"

[setup]
modules = ["cuda/12.4", "hdf5"]
lines   = ["ulimit -s unlimited", "! false"]

[slurm]
switches = "1@30:00"
spread_job = true
dependency = "afterok:7"
"""


def page(text: str, environ: Mapping[str, str] = {}) -> Page:  # read only
    return Page(
        "job.toml",
        text,
        "/home/alice/run",
        {"SCRATCH": "/scratch/alice", "HOME": "/home/alice", "NAME": "alice", **environ},
    )


def read(text: str, environ: Mapping[str, str] = {}) -> JobFile:  # read only
    return jobfile.read(page(text, environ))


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as wrong:
        read(text)
    assert wrong.value.code == 2
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


def test_a_whole_job_file() -> None:
    """Every key with its value, and the very line that it stands in."""
    found = read(WHOLE)
    assert found.command == ("python", "train.py", "--lr", "0.1", "two words", "$HOME")
    assert found.settings == {
        "job_name": setting("resnet50", "job.toml line 2"),
        "chdir": setting("/home/alice/run", "job.toml line 4"),
        "output": setting("/home/alice/run/%x-%j.out", "job.toml line 5"),
        "image": setting("/scratch/alice/img/pytorch.sif", "job.toml line 8"),
        "bind": setting(("/datasets:/data:ro", "/home/alice/run/in:/in"), "job.toml line 9"),
        "container_args": setting(("--writable-tmpfs", "two words"), "job.toml line 13"),
        "mode": setting("outside-in", "job.toml line 16"),
        "start_timeout": setting(300, "job.toml line 17"),
        "keep": setting(True, "job.toml line 18"),
        "nodes": setting(4, "job.toml line 21"),
        "gpus_per_node": setting("8", "job.toml line 22"),
        "time": setting("12:00:00", "job.toml line 23"),
        "env": setting(("TOKEN", "!GONE", "OMP_NUM_THREADS=4", "GREETING=it's = a test"), "job.toml line 25"),
        "module": setting(("cuda/12.4", "hdf5"), "job.toml line 32"),
        "setup": setting(("ulimit -s unlimited", "! false"), "job.toml line 33"),
        "dependency": setting("afterok:7", "job.toml line 38"),
        "slurm": setting(("switches=1@30:00", "spread-job"), "job.toml line 35"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "nodes = 2",
        "[resources]\nnodes = 2",
        "[whatever.one.likes]\nnodes = 2",
        "resources.nodes = 2",
        "resources = { nodes = 2 }",
        '"nodes" = 2',
        "\tnodes\t=\t2\t# tabs between words are blanks",
        "nodes = 2\r\n",
        "[slurm]\nnodes = 2",
    ],
)
def test_sections_are_for_the_eye(text: str) -> None:
    """A key means the same wherever it stands, however it is written."""
    assert read(text).settings["nodes"].value == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nodes = 2", 1),
        ("\n\n# nodes = 3\nnodes = 2", 4),
        ('bind = [\n"/nodes = 1",\n]\n[env]\nnodes = "x"\n[a]\nnodes = 2', 7),
        ('lines = ["""\nnodes = 7\n"""]\nnodes = 2', 4),
        ("[a.b]\nkeep = true\n[c]\n'nodes' = 2", 4),
        ("[a]\nx.nodes = 2", 2),
        ("r = {keep = true, nodes = 2}", 1),
    ],
)
def test_the_line_of_a_key(text: str, line: int) -> None:
    """Not the first line that looks like it: strings, comments and variables do too."""
    assert read(text).settings["nodes"].origin.text == f"job.toml line {line}"


@pytest.mark.parametrize("text", ['command = ["./app"]', '[job]\ncommand = ["./app"]', 'job.command = ["./app"]'])
def test_the_command(text: str) -> None:
    """Words, in whatever section."""
    assert read(text) == JobFile({}, ("./app",))


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("image", "app.sif", "/home/alice/run/app.sif"),
        ("image", "../app.sif", "/home/alice/app.sif"),
        ("image", "/images/app.sif", "/images/app.sif"),
        ("image", "~/app.sif", "/home/alice/app.sif"),
        ("image", "${SCRATCH}/app.sif", "/scratch/alice/app.sif"),
        ("image", "$${SCRATCH}/app.sif", "/home/alice/run/${SCRATCH}/app.sif"),
        ("image", "$SCRATCH/app.sif", "/home/alice/run/$SCRATCH/app.sif"),
        ("image", "docker://ubuntu:24.04", "docker://ubuntu:24.04"),
        ("image", "nvcr.io/nvidia/pytorch:24.10-py3", "nvcr.io/nvidia/pytorch:24.10-py3"),
        ("chdir", "sub", "/home/alice/run/sub"),
        ("script", "job.sh", "/home/alice/run/job.sh"),
        ("templates", "mine", "/home/alice/run/mine"),
        ("job_dir", "~/records", "/home/alice/records"),
        ("stage_dir", "~/copies", "/home/alice/copies"),
        ("output", "${SCRATCH}/%j.out", "/scratch/alice/%j.out"),
        ("output", "%x-%j.out", "/home/alice/run/%x-%j.out"),
        ("hostfile", "hosts", "/home/alice/run/hosts"),
        ("podman_root", "/tmp/${NAME}", "/tmp/alice"),
        ("job_name", "${SCRATCH}", "${SCRATCH}"),
    ],
)
def test_paths(key: str, written: str, meant: str) -> None:
    """Relative to the file, `${X}` filled in; only what is a path is."""
    assert read(f'{key} = "{written}"').settings[key].value == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("in:/in:ro", "/home/alice/run/in:/in:ro"),
        ("${SCRATCH}:/data", "/scratch/alice:/data"),
        ("~/in:/in", "/home/alice/in:/in"),
        ("!/datasets", "!/datasets"),
        ("!in", "!/home/alice/run/in"),
    ],
)
def test_binds(written: str, meant: str) -> None:
    """The source is a path of the file's; what is taken away is named as it was given."""
    assert read(f'bind = ["{written}"]').settings["bind"].value == (meant,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodez = 2", "job.toml line 1: unknown key nodez; did you mean nodes (a number)?"),
        (
            "\n[launch]\nmod = 'x'",
            "job.toml line 3: unknown key mod; did you mean mode (auto, inside-out, outside-in)?",
        ),
        (
            "ntasks-per-node = 2",
            "job.toml line 1: unknown key ntasks-per-node; did you mean ntasks_per_node (a number)?",
        ),
        ("[a]\nzzz = 1", "job.toml line 2: unknown key zzz; the keys are the long options, with _ for -"),
        ("start_timout = 3", 'job.toml line 1: unknown key start_timout; did you mean start_timeout (a time: "120s")?'),
        ("comand = ['x']", "job.toml line 1: unknown key comand; did you mean command (a list of words)?"),
        ("[[bind]]\nx = 1", 'job.toml line 1: bind = [{"x": 1}] is not a list of strings; Path of the nodes '),
        ('nodes = "4"', 'job.toml line 1: nodes = "4" is not a number; write nodes = 4'),
        ("nodes = true", "job.toml line 1: nodes = true is not a number; write nodes = 4"),
        ("nodes = 4.0", "job.toml line 1: nodes = 4.0 is not a number; write nodes = 4"),
        ("nodes = 0", "--nodes '0' is not a positive number (job.toml line 1)"),
        ("time = 12:00:00", 'job.toml line 1: time = 12:00:00 is not a string; write time = "12:00:00"'),
        ("keep = 'yes'", 'job.toml line 1: keep = "yes" is not true or false; Keep the records of this run.'),
        ("bind = '/a'", 'job.toml line 1: bind = "/a" is not a list of strings; write bind = ["/a"]'),
        ("bind = [1]", "job.toml line 1: bind = [1] is not a list of strings; Path of the nodes "),
        (
            "mode = 'inside'",
            "--mode 'inside' is unknown (job.toml line 1); did you mean inside-out? "
            "use one of auto, inside-out, outside-in",
        ),
        ("command = 'python x'", "job.toml line 1: command is not a list of words; command = ["),
        ("command = ['x', 1]", "job.toml line 1: command is not a list of words; command = ["),
        ("env = 'A=1'", "job.toml line 1: env is not a table: [env]; "),
        ("image = '${NO}/a.sif'", "job.toml line 1: ${NO} is not set; set it, or write $${NO} for the text"),
        ("image = ''", "--image is empty (job.toml line 1)"),
        ("nodes = 1\n[a]\nnodes = 2", "job.toml line 3: nodes is given twice; also in job.toml line 1"),
        ("name = 'a'\njob_name = 'b'", "job.toml line 2: job_name is given twice; also in job.toml line 1"),
        (
            "match.cluster = 'x'",
            "job.toml line 1: match is a table for profiles; move it to a profile: mnrun profile list shows yours",
        ),
        ("[partition.gpu]\nnodes = 1", "job.toml line 1: partition is a table for profiles; move it to a profile"),
        (
            "name = 'a\tb'",
            "--job-name 'a\\tb' contains a tab, a newline or another control character (job.toml line 1)",
        ),
        ('name = "a\\nb"', "--job-name 'a\\nb' contains a tab, a newline or another control character "),
        (
            '[slurm]\ncomment = "a\\nb"',
            "--slurm 'comment=a\\nb' contains a tab, a newline or another control character ",
        ),
        ("[slurm]\ncomment = [1]", 'job.toml line 2: comment = [1] is not a string; write comment = "VALUE"'),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """File and line, what was found, what is right."""
    assert refusal(text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ufeffnodes = 2", "job.toml line 1: it begins with a byte order mark; save it as UTF-8 without one"),
        ('nodes = 1\nimage = "app.sif\nkeep = true', "job.toml line 2: a quote is missing; "),
        ("nodes = 1\nimage = 'app.sif", "job.toml line 2: "),
        ("nodes = 1\nimage = app.sif", "job.toml line 2: invalid value; "),
        ("keep = yes", "job.toml line 1: invalid value; "),
        ("nodes = 1\n\nbind = [\n  '/a',\n\nkeep = true", "job.toml line "),
        ('nodes = 1\nlines = ["""\nabc\n', "job.toml line 2: "),
        ("nodes = 1\nkeep = true\nnodes = 2\nforce = true", "job.toml line 3: cannot overwrite a value; "),
        ("[a]\nnodes = 1\n[b]\n[a]\nkeep = true", "job.toml line 4: cannot declare "),
        ("[a\nnodes = 1", "job.toml line 1: "),
        ("nodes 2", "job.toml line 1: "),
    ],
)
def test_what_is_no_toml(text: str, said: str) -> None:
    """The parser's own reason, with the line even where the parser says only that it came to the end."""
    assert refusal(text).startswith(said)


@pytest.mark.parametrize(
    "text",
    ["[env]\nTOKEN = ['very-secret']", "[env]\nTOKEN = { a = 'very-secret' }", "[env]\n'A-B' = 'very-secret'"],
)
def test_no_message_holds_a_variables_value(text: str) -> None:
    """It may be a secret."""
    said = refusal(text)
    assert said.startswith("job.toml line 2: ")
    assert "very-secret" not in said


@pytest.mark.parametrize(
    "text", ['image = "a\\u0000b"', 'command = ["\\u0000"]', '[env]\nA = "x\\u0000"', 'x.y = "\\u0000"']
)
def test_a_nul_is_nowhere_possible(text: str) -> None:
    """Neither a path, nor a word, nor a variable can hold one."""
    assert "contains a NUL character; remove it" in refusal(text)


def test_what_is_nested_too_deeply() -> None:
    """One line, and no traceback."""
    assert refusal("a = " + "[" * 3000 + "]" * 3000) == (
        "job.toml: tables or lists are nested too deeply; put the keys at the top level"
    )


def test_an_empty_table_says_nothing() -> None:
    """As init leaves one for variables."""
    assert read("[env]\n[container]\n[slurm]\n") == JobFile({})


def test_a_long_list_is_read_at_once() -> None:
    """A list over many lines costs no more than its length."""
    text = "bind = [\n" + "".join(f'  "/data/{n}:/data/{n}:ro",\n' for n in range(5000)) + "]\nnodes = 2\n"
    found = read(text).settings
    assert found["nodes"].origin.text == "job.toml line 5003"
    assert len(found["bind"].value) == 5000  # type: ignore[arg-type]


def test_any_text_is_answered() -> None:
    """Whatever stands in the file: settings, or one line of ours with the file's name."""
    parts = [
        "[",
        "]",
        "=",
        '"',
        "'",
        '"""',
        "\n",
        "a",
        "nodes",
        "1",
        ".",
        "env",
        "{",
        "}",
        ",",
        "#",
        "\t",
        "\\",
        "é",
        "\r",
        "\0",
    ]
    lots = random.Random(4)
    for _ in range(3000):
        text = "".join(lots.choices(parts, k=lots.randint(1, 14)))
        try:
            read(text)
        except UsageError as wrong:
            assert "job.toml" in str(wrong), text
            assert "\n" not in str(wrong), text


def test_a_profiles_origin_is_its_name_alone() -> None:
    """Scripts and plans say where a value came from; a message says the line too."""
    profile = Page("profile here", "nodes = 2\nkeep = 'x'", "/etc", {}, layer=Layer.PROFILE)
    assert jobfile.layer({"nodes": 2}, profile)["nodes"].origin.text == "profile here"
    with pytest.raises(UsageError, match=r"^profile here line 2: "):
        jobfile.layer({"keep": "x"}, profile)


def test_outputs_in_a_profile_begin_where_a_job_is_handed_in() -> None:
    """Nobody writes beside a site's files; what is read there is found there."""
    text = 'output = "logs/%j.out"\nerror = "~/%j.err"\nsplit_output = "apart"\nbind = ["data:/data"]'
    profile = Page("profile here", text, "/etc/mnrun/profiles", {"HOME": "/home/alice"}, layer=Layer.DEFAULTS)
    found = {name: said.value for name, said in jobfile.layer(jobfile.load(profile), profile).items()}
    assert found == {
        "output": "logs/%j.out",
        "error": "/home/alice/%j.err",
        "split_output": "apart",
        "bind": ("/etc/mnrun/profiles/data:/data",),
    }


def test_a_command_is_one_and_a_job_files() -> None:
    assert refusal('command = ["a"]\n[x]\ncommand = ["b"]') == (
        "job.toml line 2: command is given twice; one job runs one command"
    )
    profile = Page("/etc/config.toml", 'command = ["a"]', "/etc", {}, layer=Layer.DEFAULTS)
    with pytest.raises(UsageError) as wrong:
        jobfile.layer(jobfile.load(profile), profile)
    assert str(wrong.value) == ("/etc/config.toml line 1: command is allowed only in a job file; move it to a job file")


@pytest.mark.parametrize("table", ["", "[slurm]\n"])
def test_exclusive_in_slurms_words(table: str) -> None:
    """What the flag cannot say; beside others of sbatch's options."""
    more = "[slurm]\n" if not table else ""
    found = read(f'{table}exclusive = "user"\n{more}spread_job = true').settings
    assert found["slurm"].words == (
        ("exclusive=user", origin(f"job.toml line {2 if table else 1}")),
        ("spread-job", origin("job.toml line 3")),
    )
    assert 'exclusive = "x" is not true or false' in refusal('exclusive = "x"')
