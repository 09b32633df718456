"""Every way the rehearsal cluster can fail, each with its exit code."""

from __future__ import annotations


class ClusterError(Exception):
    """Something went wrong while building or running; the text is for people."""

    code = 1


class Unable(ClusterError):
    """This machine or this request cannot be served as it is; the text says what to do."""

    code = 2
