"""Say mnrun's own words for the options and verbs of other tools."""

from __future__ import annotations

from collections.abc import Mapping

_HOSTFILE = "use --nodelist NODES inside an allocation, else --hostfile FILE"
_SCRIPT = "use --script FILE, with a line of mpirun for all programs"
_EACH = "use -x NAME for each variable that ranks need"


def _by_word(answers: Mapping[str, str]) -> dict[str, str]:
    return {word: answer for answer, words in answers.items() for word in words.split()}


# Of the options of MPIs, containers, torchrun and the older scripts: an answer, and the options that get it. A word
# with a dash is the spelling with one dash alone. The options of a scheduler are in its package.
ANSWERS = _by_word(
    {
        "use mnrun plan, or mnrun submit --dry-run": "dry-run dryrun",
        "leave it out: containers use the node's network": "network expose net publish publish-all",
        "use mnrun --version": "version",
        "use --connect ssh, or --connect pipe": "-bootstrap -launcher",
        "use -x NAME=VALUE": "-env genv set-env",
        _HOSTFILE: "-hostfile default-hostfile hostfile machinefile machines",
        "use --nodelist NODES inside an allocation, else --hosts LIST": "-hosts host hostlist machine machinelist",
        "use --time TIME": "-time",
        f"{_SCRIPT}, or --container-args --app=NAME for Apptainer": "app",
        "use --bind-to UNIT": "bindto binding",
        "use --bind-to core": "bind-to-core",
        "use --bind-to socket": "bind-to-socket",
        _SCRIPT: "configfile",
        _EACH: "envall envnone fwd-environment genvall genvnone cleanenv env-host",
        "use -x NAME": "envlist genvlist",
        "use --mpi-args '--gmca KEY VALUE'": "gmca",
        "leave it out: mnrun knows its host": "localhost",
        "use --mpi-args '--mca KEY VALUE'": "mca",
        "use -n N": "np",
        "use --ntasks-per-node N": "npernode perhost nproc-per-node slots_per_node",
        "use --output FILE": "outfile",
        "use --split-output DIR": "outfile-pattern output-directory output-filename",
        "use --ntasks-per-node 1": "pernode",
        "use --mpi-args '--pmixmca KEY VALUE'": "pmixmca",
        "use --label": "prepend-rank tag-output",
        "use --mpi-args '--prtemca KEY VALUE'": "prtemca",
        "use --time TIME for the job, or --start-timeout TIME until all nodes are ready": "timeout",
        "use -x '!NAME'": "unset-env",
        "use --chdir DIR": "wd wdir cwd workingdir",
        "leave it out: mnrun chooses the namespaces": "cgroupns ipc no-pid pid uts",
        "use --cpus-per-task N": "cpus",
        "use mnrun submit": "detach",
        "leave it out: the image's entry point does not run, only the command": "entrypoint",
        "leave it out: containers have the node's name": "hostname",
        "leave it out: mnrun does it itself": "init",
        "use mnrun shell for a prompt": "interactive shell tty",
        "use --mem SIZE": "memory",
        "use --bind SRC:DST": "mount volume",
        "use --no-gpu": "no-nv",
        "use --requeue": "restart",
        "leave it out: mnrun removes its containers": "rm",
        "leave it out: containers use the node's /dev/shm": "shm-size",
        "leave it out: mnrun forwards signals": "sig-proxy",
        "leave it out: programs run as you": "user",
        "leave it out: mnrun sets it": "master-addr master-port node-rank rdzv-backend rdzv-endpoint rdzv-id",
        "write it after torchrun: mnrun --image torch.sif -- torchrun --max-restarts=N train.py": "max-restarts",
        "use --nodes N": "nnodes num-nodes",
        "use --local": "standalone",
        "use --image REF": "container",
        "use --bind DIR": "datamnts",
        "use --container-args WORDS": "dockopts singopts",
        "leave it out: mnrun finds the network itself": "iname",
        "leave it out: mnrun needs no keys of yours": "sshconfigdir",
        "leave it out: mnrun chooses among --ports": "sshdport",
    }
)
# An option of one letter, or several in one word that mnrun would read in another way -> its long name.
LETTERS = {
    "-f": "hostfile",
    "-i": "interactive",
    "-P": "publish-all",
    "-u": "user",
    **dict.fromkeys(("-it", "-ti"), "tty"),
    **dict.fromkeys(("-dit", "-itd", "-di", "-id"), "detach"),
}
# mnrun's option that passes on others -> their names, with = behind those that take a value.
PASSED = {
    "--mpi-args": """
    allow-run-as-root cpu-list= cpu-set= debug-daemons display-allocation display-map display-topo= display= errfile=
    forward-signals= iface= launch-agent= leave-session-attached map-by= mapby= membind= merge-stderr-to-stdout nolocal
    nooversubscribe order-nodes= path= pmi-port= ppr= prefix= print-all-exitcodes print-rank-map rank-by= rankby=
    rankfile= rankmap= report-bindings report-state-on-timeout rf= rmk= stdin= timestamp-output tmpdir= topolib= tune=
    use-hwthread-cpus xml xterm=
    """,
    "--container-args": """
    add-caps= add-host= allow-setuid annotation= apply-cgroups= cap-add= cap-drop= cdi-dirs= cgroups= compat contain
    containall device= dns= drop-caps= fakeroot fusemount= group-add= home= keep-privs memory-swap= network-args=
    no-compat no-eval no-init no-mount= no-umask nvccli oom-score-adj= overlay= pids-limit= platform= preserve-fds=
    read-only rocm rootfs scratch= secret= security-opt= security= sysctl= systemd= tmpfs= underlay unsquash userns
    volumes-from= writable writable-tmpfs
    """,
}
# An answer, and the verbs of other tools that get it.
VERBS = _by_word(
    {
        "use mnrun exec ID for a command in the job, or mnrun logs -f ID for its output": "attach",
        "use mnrun submit": "batch",
        "use mnrun image build RECIPE": "build",
        "use mnrun profile show": "config",
        "use mnrun cancel ID, or mnrun clean for old records": "delete remove",
        "use mnrun status ID": "describe",
        "use mnrun check": "doctor test",
        "use mnrun image ls for images, or mnrun clean --dry-run for old records": "du",
        "use --notify with mnrun run, submit or wait": "notify",
        "use mnrun cancel ID": "down kill stop",
        "use mnrun --image app.sif -- ./app": "execute",
        "use mnrun serve, or mnrun ssh-config for a port of a job": "forward port-forward tunnel",
        "write mnrun --image app.sif -- ./app inside an allocation": "alloc allocate",
        "use apptainer registry login, or docker login": "login logout",
        "use mnrun why ID": "debug errors",
        "use mnrun report ID": "seff stats usage",
        "use mnrun init": "configure new setup",
        "use what installed it, as pipx upgrade mnrun": "self-update update upgrade",
        "use what installed it, as pipx uninstall mnrun": "uninstall",
        "use the scheduler's own command": "hold pause release requeue resume suspend",
        "use mnrun status": "history job jobs list ps queue",
        "use mnrun image ls": "images",
        "use mnrun check for nodes, or mnrun status ID for a job": "info",
        "use mnrun plan for a job, or mnrun status ID": "inspect",
        "use mnrun run": "launch",
        "use mnrun logs ID": "log",
        "use mnrun status for jobs, or mnrun image ls": "ls",
        "use mnrun nodes": "hosts partition partitions",
        "use mnrun top ID": "monitor",
        "use mnrun profile list": "profiles",
        "use mnrun image pull REF; a run pulls what is missing": "pull",
        "use apptainer push": "push",
        "use mnrun exec ID for a command on a node of the job": "ssh",
        "use mnrun rerun ID": "again resubmit retry",
        "use mnrun run, or mnrun submit": "start",
        "use mnrun logs -f ID": "follow tail",
        "use mnrun plan": "validate",
        "use mnrun top ID, mnrun logs -f ID, or mnrun status -w": "watch",
    }
)
# Programs that start containers -> their verbs that do it, if they have verbs.
CONTAINERS = {
    "apptainer": ("exec", "run", "shell"),
    "singularity": ("exec", "run", "shell"),
    "docker": ("run", "exec"),
    "podman": ("run", "exec"),
    "podman-hpc": ("run", "shared-run", "exec"),
    "enroot": ("start", "exec"),
    "sarus": ("run",),
    "shifter": (),
    "ch-run": (),
}
# A verb of mnrun's own and an option or verb that it lacks -> the action to take.
OF_VERBS = {
    ("image", "gc"): "use mnrun clean --images",
    ("image", "list"): "use mnrun image ls",
    ("cancel", "--all"): "name the jobs: mnrun status lists them",
    ("clean", "--force"): "mnrun clean asks nothing",
    ("logs", "--tail"): "write -n N",
    ("logs", "--since"): "output has no times: write -n N for its last lines, or -f -n 0 for those to come",
    ("status", "--all"): "the scheduler's own tools show jobs of all users",
    ("status", "--user"): "the scheduler's own tools show jobs of other users",
    ("status", "-a"): "the scheduler's own tools show jobs of all users",
    ("status", "-u"): "the scheduler's own tools show jobs of other users",
    ("status", "--follow"): "write mnrun status -w, or mnrun logs -f ID",
}
