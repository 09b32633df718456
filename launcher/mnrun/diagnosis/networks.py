"""Messages of NCCL, UCX, Gloo, PyTorch's rendezvous and ssh."""

from __future__ import annotations

from mnrun.diagnosis.entry import Entry

ENTRIES = (
    Entry(
        name="nccl-interface",
        pattern=r"NCCL WARN Bootstrap ?: no socket interface found",
        cause="NCCL found no network with the name in NCCL_SOCKET_IFNAME",
        remedy="unset NCCL_SOCKET_IFNAME, and mnrun chooses a network",
        anchor="nccl-finds-no-network",
    ),
    Entry(
        name="nccl-connect",
        pattern=r"NCCL WARN socket\w+: Connect to (?P<address>[^ <]+)<\d+> failed",
        cause="NCCL could not connect to {address}",
        remedy="mnrun -v names the networks that it chose, and NCCL_SOCKET_IFNAME overrides them",
        anchor="nccl-finds-no-network",
        consequence=True,
    ),
    Entry(
        name="ucx-unreachable",
        pattern=r"UCX +ERROR +no active messages transport",
        cause="UCX found no network that leads to another rank",
        remedy="unset UCX_TLS and UCX_NET_DEVICES, and mnrun chooses the adapters",
        anchor="ucx-finds-no-adapter",
    ),
    Entry(
        name="locked-memory",
        pattern=r"UCX +ERROR +ibv_\w+\(.*failed: Cannot allocate memory",
        cause="the limit for locked memory is too small for InfiniBand",
        remedy="an administrator sets LimitMEMLOCK=infinity for slurmd",
        anchor="locked-memory",
    ),
    Entry(
        name="gloo-interface",
        pattern=r"gloo/transport/\w+/device\.cc:\d+\] ifa != nullptr\. Unable to find address for: (?P<interface>\S+)",
        cause="there is no network {interface} in GLOO_SOCKET_IFNAME on the node",
        remedy="unset GLOO_SOCKET_IFNAME, and mnrun chooses a network",
        anchor="gloo",
    ),
    Entry(
        name="torch-port",
        pattern=r"DistNetworkError: The server socket has failed to listen .* port: (?P<port>\d+),.* EADDRINUSE",
        cause="port {port} of PyTorch's rendezvous is taken by another process",
        remedy="choose another with -x MASTER_PORT=N",
        anchor="address-already-in-use",
    ),
    Entry(
        name="torch-client",
        pattern=r"DistNetworkError: The client socket has timed out after .* to \((?P<host>[^,]+), (?P<port>\d+)\)",
        cause="a rank could not reach PyTorch's rendezvous on {host}, port {port}",
        remedy="look whether rank 0 ended before, and whether a firewall blocks the port",
        anchor="pytorchs-rendezvous",
        consequence=True,
    ),
    Entry(
        name="torch-store",
        pattern=r"DistStoreError: Timed out after \d+ seconds waiting for clients\. (?P<count>\d+/\d+) clients joined",
        cause="only {count} ranks came to PyTorch's rendezvous",
        remedy="look why the others ended, and whether MASTER_ADDR and MASTER_PORT are the same",
        anchor="pytorchs-rendezvous",
        consequence=True,
    ),
    Entry(
        name="torch-environment",
        pattern=r"^ValueError: Error initializing torch\.distributed .* variable (?P<variable>\w+) expected",
        cause="PyTorch needs the variable {variable}, which is empty or not set, and mnrun sets it",
        remedy="let mnrun start each rank, and leave out lines of a script that set {variable}",
        anchor="pytorchs-rendezvous",
    ),
    Entry(
        name="ssh-host-key",
        pattern=r"^Host key verification failed\.",
        cause="ssh does not know the key of a node",
        remedy="mpirun needs no ssh of yours with --mode inside-out",
        anchor="ssh-between-nodes",
    ),
    Entry(
        name="ssh-full",
        pattern=r"^kex_exchange_identification: (?:read: )?Connection (?:reset by peer|closed by remote host)",
        cause="an sshd closed a connection before the login: it ends, or too many others wait there",
        remedy="start again, or use --connect pipe, which has no port",
        anchor="ssh-between-nodes",
        consequence=True,
    ),
    Entry(
        name="ssh-denied",
        pattern=r"^\S+@(?P<host>\S+): Permission denied \([a-z,-]+\)\.",
        cause="ssh may not log in to {host}",
        remedy="mpirun needs no ssh of yours with --mode inside-out",
        anchor="ssh-between-nodes",
    ),
    Entry(
        name="ssh-name",
        pattern=r"^ssh: Could not resolve hostname (?P<host>[^:]+): (?:Name|Temporary)",
        cause="the name {host} is not known on the node",
        remedy="look for a hostfile or a --host of your own in --mpi-args",
        anchor="names-of-hosts",
    ),
)
