"""List the long options of other tools.

Sources: sbatch(1), srun(1) and salloc(1) of Slurm 26.11, mpirun(1) of Open MPI 4.1 and 5.0, mpiexec(1) of MPICH 4 and
Intel MPI 2021, the tables of options in Apptainer 1.4, docker-run(1), podman-run(1), the README of pyxis, torchrun(1).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tool:
    """A tool's long options: those that take a value, and flags."""

    name: str
    values: frozenset[str]
    flags: frozenset[str]

    def has(self, name: str) -> bool:
        return name in self.values or name in self.flags


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _tool(name: str, values: str, flags: str = "") -> Tool:
    return Tool(name, _words(values), _words(flags))


TOOLS = (
    _tool(
        "sbatch",
        """
        account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container
        container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency
        distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node
        gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses mail-type
        mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update mincpus network nodefile nodelist nodes
        ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output
        partition power prefer priority profile qos reservation resources runtime segment signal sockets-per-node
        switches thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap
        """,
        """
        consolidate-segments contiguous exclusive get-user-env help hold ignore-pbs nice no-kill no-requeue
        oom-kill-step overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports spread-job
        spread-segments stepmgr test-only usage use-min-nodes verbose version wait
        """,
    ),
    _tool(
        "srun",
        """
        accel-bind bcast-exclude cpu-bind cpu_bind epilog het-group ignore-signals jobid mem_bind mpi msg-timeout prolog
        relative slurmd-debug task-epilog task-prolog threads treewidth
        """,
        """
        async bcast bell compress disable-status exact external-launcher immediate kill-command kill-on-bad-exit label
        multi-prog no-allocate no-bell no-shell overlap preserve-env pty quit-on-interrupt send-libs unbuffered
        wait-for-children x11
        """,
    ),
    _tool(
        "Open MPI",
        """
        am amca app append-env arch bind-to bindto cartofile cf cpu-list cpu-set cpus-per-proc cpus-per-rank debugger
        default-hostfile display display-topo dvm file forward-signals gmca gomca hnp host hostfile initial-errhandler
        launch-agent machinefile map-by mapby max-restarts max-vm-size mca memory-alloc-kinds np npernode npersocket
        omca ompi-server output output-directory output-filename path personality pmixmca ppr prefix preload-files
        prepend-env prtemca pset rank-by rankby rankfile report-events report-pid report-uri rf rtos set-env
        spawn-timeout sstore-load stdin stream-buffering timeout tmpdir tune unset-env wd wdir with-ft xml-file xterm
        """,
        """
        allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous crdebug debug debug-daemons
        debug-daemons-file debug-devel disable-recovery display-allocation display-comm display-comm-finalize
        display-devel-allocation display-devel-map display-diffable-map display-map do-not-launch do-not-resolve
        enable-instant-on-support enable-recovery fwd-environment fwd-mpirun-port get-stack-traces gpu-support help
        hetero-nodes index-argv-by-rank leave-session-attached merge-stderr-to-stdout no-aggregate-help nolocal
        nooversubscribe noprefix novm output-proctable oversubscribe parsable parseable pernode preload-binary quiet
        report-bindings report-child-jobs-separately report-state-on-timeout set-cwd-to-session-dir show-progress soft
        stop-in-app stop-in-init stop-on-exec tag-output timestamp-output tv uniform-nodes use-hwthread-cpus use-regexp
        verbose version xml
        """,
    ),
    _tool(
        "MPICH",
        """
        bind-to binding bootstrap bootstrap-exec configfile demux env envlist errfile errfile-pattern genv genvlist
        gpu-subdevs-per-proc gpus-per-proc gtool gtoolfile host hostfile hostlist hosts hybrid-hosts iface launcher
        launcher-exec localhost localuser machine machinefile machinelist machines map-by membind memory-alloc-kinds
        nameserver np order-nodes outfile outfile-pattern output-from perhost pmi-port pmi_args ppn prepend-pattern
        profile rankmap rmk tmpdir topolib tune usize wdir
        """,
        """
        check_mpi debug disable-auto-cleanup disable-hostname-propagation disable-x enable-auto-cleanup
        enable-hostname-propagation enable-x envall envnone genvall genvnone grr help ilp64 info localroot
        ordered-output prepend-rank print-all-exitcodes print-rank-map report-bindings rr skip-launch-node trace verbose
        version
        """,
    ),
    _tool(
        "apptainer",
        """
        add-caps app apply-cgroups arch authfile blkio-weight blkio-weight-device cdi-dirs containlibs cpu-shares cpus
        cpuset-cpus cpuset-mems cwd device dmtcp-launch dmtcp-restart dns docker-host docker-password docker-username
        drop-caps env env-file fusemount home hostname memory memory-reservation memory-swap mount netns-path network
        network-args no-env no-mount overlay pem-path pids-limit pwd runscript-timeout scratch security shell tmpdir
        workdir
        """,
        """
        allow-setuid boot cleanenv compat compat32 contain containall disable-cache docker-login fakeroot
        ignore-fakeroot-command ignore-subuid ignore-userns intel-hpu ipc keep-layers keep-privs net no-compat no-eval
        no-home no-https no-init no-nv no-oci no-pid no-privs no-rocm no-setgroups no-tmp-sandbox no-umask nohttps nv
        nvccli oci oom-kill-disable passphrase pid rocm sharens tmp-sandbox underlay unsquash userns uts writable
        writable-tmpfs
        """,
    ),
    _tool(
        "docker",
        """
        add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns cidfile
        cpu-count cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems
        detach-keys device device-cgroup-rule device-read-bps device-read-iops device-write-bps device-write-iops dns
        dns-option dns-search domainname entrypoint env env-file expose gpus group-add health-cmd health-interval
        health-retries health-start-interval health-start-period health-timeout hostname io-maxbandwidth io-maxiops ip
        ip6 ipc isolation label label-file link link-local-ip log-driver log-opt mac-address memory memory-reservation
        memory-swap memory-swappiness mount name network network-alias oom-score-adj pid pids-limit platform publish
        pull restart runtime security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user userns
        uts volume volume-driver volumes-from workdir
        """,
        """
        detach help init interactive no-healthcheck oom-kill-disable privileged publish-all quiet read-only rm sig-proxy
        tty use-api-socket
        """,
    ),
    _tool(
        "podman",
        """
        add-host arch attach authfile blkio-weight blkio-weight-device cap-add cap-drop cert-dir cgroup-conf
        cgroup-parent cgroupns cgroups chrootdirs conmon-pidfile cpu-period cpu-quota cpu-rt-period cpu-rt-runtime
        cpu-shares cpuset-cpus cpuset-mems creds decryption-key detach-keys device device-cgroup-rule device-read-bps
        device-read-iops device-write-bps device-write-iops dns entrypoint env env-file env-merge expose gpus group-add
        group-entry health-cmd health-interval health-log-destination health-max-log-count health-max-log-size
        health-on-failure health-retries health-start-period health-startup-cmd health-startup-interval
        health-startup-retries health-startup-success health-startup-timeout health-timeout hosts-file hostuser
        image-volume init-path ip ipc label label-file link-local-ip log-driver log-opt mac-address memory
        memory-reservation memory-swap memory-swappiness mount network network-alias oom-score-adj os passwd-entry
        personality pidfile pids-limit platform preserve-fd preserve-fds publish pull rdt-class requires restart retry
        retry-delay sdnotify seccomp-policy secret security-opt shm-size shm-size-systemd stop-signal stop-timeout
        subgidname subuidname sysctl systemd timeout tmpfs tz ulimit umask unsetenv user uts volume volumes-from workdir
        """,
        """
        detach disable-content-trust env-host help http-proxy init interactive net no-healthcheck no-hostname no-hosts
        oom-kill-disable passwd permissive privileged publish-all quiet read-only read-only-tmpfs replace rm rmi rootfs
        sig-proxy tls-verify tty unsetenv-all
        """,
    ),
    _tool(
        "pyxis",
        """
        container-entrypoint-log container-env container-image container-mounts container-name container-save
        container-unshare container-workdir environment edf
        """,
        """
        container-entrypoint container-mount-home container-readonly container-remap-root container-writable
        no-container-entrypoint no-container-mount-home no-container-remap-root
        """,
    ),
    _tool(
        "torchrun",
        """
        event-log-handler local-addr local-ranks-filter log-dir logs-specs master-addr master-port max-restarts
        monitor-interval nnodes node-rank nproc-per-node numa-binding rdzv-backend rdzv-conf rdzv-endpoint rdzv-id
        redirects role signals-to-handle start-method tee
        """,
        "no-python run-path standalone use-env",
    ),
    _tool(
        "the older scripts",
        """
        container datamnts dockopts envlist iname script singopts slots_per_node sshconfigdir sshdport workingdir
        """,
    ),
    _tool("torchx and SkyPilot", "num-nodes", "dry-run dryrun"),
)
# enroot start, of enroot 3.5. Only its own line has these words.
ENROOT = _tool("enroot", "conf env mount rc", "root rw")
# shifter(1), of Shifter 18.03. Only its own line has these words.
SHIFTER = _tool("shifter", "image volume workdir env env-file module", "clearenv entrypoint verbose")
# Options of sbatch that salloc(1) lacks.
NOT_OF_SALLOC = _words(
    """
    array batch error export export-file get-user-env gid ignore-pbs input kill-on-invalid-dep no-requeue open-mode
    output parsable propagate requeue test-only uid wait wrap
    """
)
