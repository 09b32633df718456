"""Scripts that other tools have written for pyxis run as they are, on a cluster that has none."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mnrun.schedulers.slurm.pyxis import PYXIS

from .batch import end
from .cells import OMPI5, full, some
from .stage import LOGIN, Cluster, Desk, Result

RECORDED = Path(__file__).parents[1] / "unit/recorded/pyxis"
FOLDER = "exp/exp/exp_1/train"  # of NeMo-Run, in the desk
TORCH_SIF = "/images/torch.sif"  # the scripts of NeMo-Run name it
TRAIN = 'echo "$* $SLURM_PROCID of $SLURM_NTASKS on $(hostname) in $PWD: $DATASET, $(ls /data)"\n'
TORCH = """\
import torch, torch.distributed as d
d.init_process_group("gloo")
x = torch.ones(1) * d.get_rank(); d.all_reduce(x)
print("rank", d.get_rank(), "of", d.get_world_size(), "sum", int(x), flush=True)
"""
# In place of Ray, which the image lacks: it knows both nodes once the head's container has been written into.
RAY = """\
#!/bin/sh
case $1 in status) [ -f /launch-head.sh ] && echo " 0.0/16.0 worker_units" ;; start) exec sleep 600 ;; esac
"""
JQ = "#!/bin/sh\ncat >/dev/null; echo /\n"
# In place of those that dstack fetches from the network
CURL = """\
#!/bin/sh
while [ "$1" != --output ]; do shift; done
printf '#!/bin/sh\\nid -u; grep sshd /etc/passwd; echo "$@"; exit 7\\n' >$2
"""
APT = "#!/bin/sh\n"  # nodes of the rehearsal reach no archive
NAMED = f"""\
#!/bin/bash
#SBATCH -N2 --output=%x.out
srun --container-image={OMPI5} --container-mounts="$PWD:/w" --container-writable --container-name=box -n1 -w node02 \\
  sh -c 'touch /made; mkfifo /w/up /w/end; echo >/w/up; read x </w/end; exit 4' &
until [ -p up ]; do :; done
read x <up
srun --overlap --container-name=box --nodes=1 --ntasks=1 -w node02 -o entered.%j sh -c 'ls /made; hostname; exit 5'
echo "entered $?"
echo >end
wait $!
echo "made $?"
srun --container-name=box -n1 ls /made
echo "again $?"
srun hostname -s | sort
"""


def submitted(cluster: Cluster, desk: Desk, name: str, text: str, *variables: str) -> Result:
    """Hand a script in with the shim in front of PATH, and wait for its end. `sbatch --wait` would look seldom."""
    desk.put(name, text.replace("/home/alice", desk.path))
    line = f'eval "$(mnrun shim --directory shim)"; env {shlex.join(variables)} sbatch --parsable {name}'
    handed_in = cluster.alice(["sh", "-c", line], cwd=desk.path)
    assert handed_in.code == 0, handed_in
    result = end(cluster, desk, handed_in.out.strip())
    cluster.root(LOGIN, "rm", "-rf", "/home/alice/.mnrun/jobs")
    return result


def nemo(cluster: Cluster, desk: Desk, name: str, image: str = OMPI5, **files: str) -> list[str]:
    """Return what its ranks said, sorted."""
    cluster.alice(["mkdir", "-p", f"{FOLDER}/code", "data/wiki"], cwd=desk.path)
    for file, text in files.items():
        desk.put(f"{FOLDER}/code/{file.replace('_', '.')}", text)
    result = submitted(cluster, desk, name, (RECORDED / name).read_text().replace(TORCH_SIF, image))
    assert result.code == 0, (result, cluster.alice(["sh", "-c", f"cat {FOLDER}/*.out"], cwd=desk.path))
    logs = cluster.alice(["sh", "-c", f"cat {FOLDER}/log-*.out"], cwd=desk.path)
    return sorted(line for line in logs.out.splitlines() if "[W" not in line)


def test_nemo_run(cluster: Cluster, desk: Desk) -> None:
    said = nemo(cluster, desk, "nemo_plain", train_sh=TRAIN)
    where = ["node01", "node01", "node02", "node02"]
    ranks = [f"--steps 10 {rank} of 4 on {node} in /nemo_run/code: wiki, wiki" for rank, node in enumerate(where)]
    assert said == ranks


def test_nemo_run_with_several_commands(cluster: Cluster, desk: Desk) -> None:
    """One waits for the other, and a loop of the script watches both."""
    serve = "until [ -f /nemo_run/asked ]; do sleep 0.1; done; echo served\n"
    said = nemo(cluster, desk, "nemo_group", serve_sh=serve, ask_sh="touch /nemo_run/asked; echo asked\n")
    assert said == ["asked"] * 4 + ["served"] * 4


@pytest.mark.skipif(not full(), reason="PyTorch starts slowly")
def test_nemo_run_with_torchrun(cluster: Cluster, desk: Desk) -> None:
    cluster.tool("images", "torch")
    said = nemo(cluster, desk, "nemo_torchrun", TORCH_SIF, train_py=TORCH)
    assert [line[line.index("rank") :] for line in said if "sum" in line] == [
        *(f"rank {rank} of 4 sum 6" for rank in (0, 2, 1, 3)),
    ]


@pytest.mark.skipif(not full(), reason="its script sleeps for seconds")
def test_nemo_run_with_ray(cluster: Cluster, desk: Desk) -> None:
    """The head's container is entered by its name, again and again, and last by the driver, which sees its files."""
    for folder in (f"{FOLDER}/code", "data", "exp/ray/logs", "bin"):
        cluster.alice(["mkdir", "-p", folder], cwd=desk.path)
    ray = desk.put("ray", RAY, 0o755)
    desk.put("bin/jq", JQ, 0o755)
    driver = "COMMAND=ls -d /launch-head.sh; pwd; hostname"
    around = (f"PATH={desk.path}/bin:{desk.path}/shim:/usr/local/bin:/usr/bin:/bin", "CPUS_PER_WORKER=1")
    given = ("PYXIS_CONTAINER_WRITABLE=1", f"MNRUN_BIND={ray}:/usr/local/bin/ray", driver, *around)
    text = (RECORDED / "nemo_ray").read_text().replace(TORCH_SIF, OMPI5)
    result = submitted(cluster, desk, "nemo_ray", text, *given)
    said = desk.read("exp/ray/logs/ray-job.log").decode()
    assert (result.code, said) == (0, "/launch-head.sh\n/nemo_run/code\nnode01\n"), result


def test_a_name_enters_the_container_that_runs(cluster: Cluster, desk: Desk) -> None:
    result = submitted(cluster, desk, "named", NAMED)
    said = desk.read("named.out").decode()
    lines = [line for line in said.splitlines() if not line.startswith("mnrun: ")]
    assert (result.code, lines) == (0, ["entered 5", "made 4", "again 122", "node01", "node02"]), (result, said)
    (entered,) = (desk.read(name).decode() for name in desk.names() if name.startswith("entered."))
    assert entered == "/made\nnode02\n"


def test_a_script_within_a_container(cluster: Cluster, desk: Desk) -> None:
    head = f"#!/bin/bash\n#SBATCH -N1 -o inside.out\n#SBATCH --container-image {OMPI5}\n"
    result = submitted(cluster, desk, "inside", f"{head}ls -d /opt/mpi\necho $SLURM_JOB_NAME\nexit 3\n")
    said = [line for line in desk.read("inside.out").decode().splitlines() if not line.startswith("mnrun: ")]
    assert (result.code, said) == (3, ["/opt/mpi", "inside"]), result


def test_skypilot(cluster: Cluster, desk: Desk) -> None:
    """Its commands enter the container from the login node, and its driver does with a HOME of its own."""
    cluster.alice(["mkdir", ".sky_provision"], cwd=desk.path)
    apt = desk.put("apt-get", APT, 0o755)
    text = (RECORDED / "skypilot").read_text().replace("/home/alice/ompi5.sqsh", OMPI5)
    desk.put("sky", text.replace("/home/alice", desk.path))
    enter = "srun --unbuffered --quiet --overlap -N1 -n1 --container-remap-root --container-name=demo-abcd:exec"
    line = f"""\
        eval "$(mnrun shim --directory shim)"
        srun --help | grep -q '[[]pyxis[]]' || exit 1
        id=$(MNRUN_BIND={apt}:/usr/bin/apt-get sbatch --parsable -w node[01-02] sky)
        ready=.sky_clusters/demo-abcd/.sky_sbatch_ready
        until [ -e $ready ]; do squeue -h -j $id | grep -q . || exit 2; sleep 0.1; done
        {enter} --jobid=$id --nodelist=node02 bash -c 'hostname; grep -c sudo /root/.bashrc; id -u'
        HOME=$PWD {enter} --jobid=$id --nodelist=node01 sh -c 'cat; exit 4' <sky | cmp - sky; echo ${{PIPESTATUS[0]}}
        scancel $id
        echo $id"""
    result = cluster.alice(["bash", "-c", line], cwd=desk.path)
    logs = cluster.alice(["sh", "-c", "cat .sky_provision/*.out"], cwd=desk.path).out
    *said, job = result.out.split()
    assert said == ["node02", "1", "0", "4"], (result, logs)
    end(cluster, desk, job)
    for node in cluster.nodes[:2]:
        cluster.root(node, "sh", "-c", "rm -rf /tmp/demo-abcd /tmp/ccache_1500")


# Each option of pyxis 0.24's help, what the container then says, and the exit code. 122 is a refusal. Those that are
# not needed change nothing.
OPTIONS = {
    f"--container-image={OMPI5}": ("ls -d /opt/mpi", "/opt/mpi"),
    "--container-mounts=$PWD/data:/data:ro": ("cat /data/it; ! touch /data/new 2>/dev/null", "mounted"),
    "--container-workdir=/opt": ("pwd", "/opt"),
    "--container-name=box": ("echo named", "named"),
    "--container-save=$PWD/saved": ("echo never", 122),
    "--container-mount-home": ("ls -d $PWD/data", "data"),
    "--no-container-mount-home": ("[ ! -e ~/.bashrc ] && echo none", "none"),
    "--container-remap-root": ("id -u", "0"),
    "--no-container-remap-root": ("id -u", "1500"),
    "--container-entrypoint": ("echo never", 122),
    "--no-container-entrypoint": ("echo plain", "plain"),
    "--container-entrypoint-log": ("echo plain", "plain"),
    "--container-writable": ("touch /made && ls /made", "/made"),
    "--container-readonly": ("touch /made 2>/dev/null || echo none", "none"),
    "--container-env=GIVEN": ("echo $GIVEN", "by me"),
    "--container-unshare=net": ("echo never", 122),
}


@pytest.mark.skipif(not full(), reason="a launch for each option; tests/unit/schedulers/slurm has their words")
def test_each_option_of_pyxis(cluster: Cluster, desk: Desk) -> None:
    assert [shlex.split(word.replace("=", " "))[0][2:] for word in OPTIONS] == [*PYXIS]
    cluster.alice(["mkdir", "data"], cwd=desk.path)
    desk.put("data/it", "mounted\n")
    lines = ["#!/bin/bash", "#SBATCH -N1 -o options.out", "export GIVEN='by me'"]
    for option, (command, _) in OPTIONS.items():
        image = "" if "container-image" in option else f"--container-image={OMPI5}"
        lines.append(f"srun -n1 --mpi=none {image} {option} sh -c {shlex.quote(command)}; echo = $?")
    result = submitted(cluster, desk, "options", "\n".join(lines) + "\n")
    said = [line for line in desk.read("options.out").decode().splitlines() if not line.startswith("mnrun: ")]
    expected = []
    for _, told in OPTIONS.values():
        expected += ["=", str(told)] if told == 122 else [*str(told).split(), "=", "0"]
    words = " ".join(said).replace(f"{desk.path}/", "").split()
    assert words == expected, (result, said)


@pytest.mark.parametrize("runtime", some(["apptainer", "podman"], ["apptainer"]))
def test_dstack(cluster: Cluster, desk: Desk, runtime: str) -> None:
    """Its line changes /etc/passwd of the image, as root."""
    curl = desk.put("curl", CURL, 0o755)
    image = OMPI5 if runtime == "apptainer" else "localhost/ompi5"
    text = (RECORDED / "dstack").read_text().replace("library/ubuntu:24.04", image).replace("/dev/null\n", "%x.out\n")
    result = submitted(cluster, desk, "dstack", text, f"MNRUN_BIND={curl}:/usr/bin/curl", f"MNRUN_RUNTIME={runtime}")
    (out,) = (desk.read(name).decode() for name in desk.names() if name.endswith(".out"))
    root, sshd, words = (line for line in out.splitlines() if not line.startswith("mnrun: "))
    assert (result.code, root, sshd) == (7, "0", "sshd:x:0:0:privsep:/dev/null:/sbin/nologin"), result
    assert words.endswith("dstack")
