"""Turn Slurm's states of jobs and nodes into mnrun's."""

from __future__ import annotations

from mnrun.schedulers.vocabulary import JobState, NodeState

# squeue(1), JOB STATE CODES, as far as mnrun has another word, or none of its own
_JOBS = {
    "STOPPED": JobState.SUSPENDED,
    "SIGNALING": JobState.RUNNING,  # Slurm sends it a signal
    "RESIZING": JobState.RUNNING,
    "STAGE_OUT": JobState.COMPLETING,
    "REQUEUE_HOLD": JobState.PENDING,  # a held job has not ended
    "REQUEUE_FED": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "EXPEDITING": JobState.PENDING,
    "DEADLINE": JobState.TIMEOUT,
    "BOOT_FAIL": JobState.NODE_FAIL,
    "REVOKED": JobState.CANCELLED,
}
_JOBS.update({state.value: state for state in JobState})


def job_state(word: str) -> JobState:
    """Return the state of a job for Slurm's word. A word of a later Slurm is UNKNOWN."""
    return _JOBS.get(word, JobState.UNKNOWN)


# sinfo(1), NODE STATE CODES. Nodes in other states take no jobs.
_NODES = {
    "idle": NodeState.FREE,
    "mixed": NodeState.PARTLY,
    "allocated": NodeState.BUSY,
    "completing": NodeState.BUSY,
    "planned": NodeState.PLANNED,
}
_OUT = {"*": "does not answer", "$": "", "@": "", "!": ""}  # marks of nodes that take no jobs


def node_state(word: str, mark: str, reason: str) -> tuple[NodeState, str]:
    """Return the state of a node for sinfo's word and its mark, and why it takes no jobs, or "" if it does."""
    state = NodeState.OUT if mark in _OUT else _NODES.get(word, NodeState.OUT)
    if state == NodeState.OUT:
        why = _OUT.get(mark) or word
        return state, f"{why}: {reason}" if reason else why
    return NodeState.PLANNED if state == NodeState.FREE and mark == "-" else state, ""
