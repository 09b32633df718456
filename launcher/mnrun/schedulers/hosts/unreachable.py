"""Return one error for all hosts that cannot be reached, with each reason and its fix, or on which a command failed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mnrun import nodeset
from mnrun.errors import NodeError

# Errors of ssh, paramiko and the system about a host, their meaning, and the fix.
_REASONS = (
    (  # first, since ssh says it of an unknown key, too
        r"identification has changed|does not match",
        "its host key has CHANGED",
        "ask its admin whether it was installed again; `ssh {host}` then names the line of known_hosts to remove",
    ),
    (
        r"host key verification failed|not found in known_hosts|no acceptable host key",
        "its host key is not known here",
        "`ssh {host}` once and compare it, or ssh-keyscan {host} >>~/.ssh/known_hosts",
    ),
    (
        r"known by a CA only",
        "only a CA signs its host key",
        "use --rsh ssh, or ssh-keyscan {host} >>~/.ssh/known_hosts",
    ),
    (r"passphrase|encrypted", "the key for it has a passphrase", "ssh-add it to an agent first"),
    (
        r"permission denied|authentication|no existing session",
        "the login was refused",
        "see --ssh-user; `ssh {host} true` must work without a password",
    ),
    (
        r"could not resolve|name or service|no address associated|name resolution",
        "there is no host of that name",
        "check the spelling",
    ),
    (r"refused|unable to connect", "no ssh server answers", "see --ssh-port"),
    (r"timed out|timeout", "it does not answer", "it is down, or a firewall is in between"),
    (r"no route|unreachable", "there is no route to it", "it is down, or not on this network"),
)


def error(reasons: Mapping[str, str], count: int) -> NodeError:
    """Return one error for all hosts that cannot be reached, of `count`: one line, with the fix."""
    alike: dict[tuple[str, str], list[str]] = {}
    for host, reason in reasons.items():
        meanings = ((why, fix) for pattern, why, fix in _REASONS if re.search(pattern, reason, re.IGNORECASE))
        alike.setdefault(next(meanings, (reason, "")), []).append(host)
    parts = []
    for (why, fix), hosts in alike.items():
        parts.append(f"{nodeset.fold(hosts)}: {why}" + (f" ({fix.format(host=hosts[0])})" if fix else ""))
    return NodeError(f"{len(reasons)} of {nodeset.counted(count, 'host')} cannot be reached: {'; '.join(parts)}")


def failed(reasons: Mapping[str, str], count: int) -> NodeError:
    """Return one error for all hosts on which a command failed, of `count`."""
    return NodeError(f"failed on {len(reasons)} of {nodeset.counted(count, 'host')}: {nodeset.folded(reasons)}")
