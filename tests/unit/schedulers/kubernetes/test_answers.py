"""What kubectl prints, as a real server of 1.20 said it (recorded/kubernetes/), and as later versions say it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mnrun.schedulers.kubernetes import answers
from mnrun.schedulers.vocabulary import JobState

HERE = Path(__file__).parents[2] / "recorded/kubernetes"


def recorded(name: str) -> dict[str, Any]:
    entries = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))["items"]
    return {str(number) if name == "events" else one["metadata"]["name"]: one for number, one in enumerate(entries)}


PODS, EVENTS, JOBS = recorded("pods"), [*recorded("events").values()], recorded("jobs")


@pytest.mark.parametrize(
    ("name", "final", "words"),
    [
        ("unschedulable-gpu", False, "none of 2 nodes takes it: 2 have too little nvidia.com/gpu free"),
        ("unschedulable-cpu", False, "none of 2 nodes takes it: 2 have too little cpu free"),
        ("unschedulable-selector", False, "none of 2 nodes takes it: 2 didn't match Pod's node affinity"),
        ("unschedulable-claim", False, 'none of 2 nodes takes it: 2 persistentvolumeclaim "data" not found'),
        ("image-pull", True, "its image registry.example/none:1 cannot be pulled: "),
        ("image-never", True, "cannot be pulled: "),
        ("image-name", True, "its image Bad Name cannot be pulled: "),
        ("config-secret", True, 'its container cannot be made: secret "none" not found'),
        ("config-root", True, "its container cannot be made: container has runAsNonRoot and image will run as root"),
        ("mount-path", False, "FailedMount: MountVolume.SetUp failed"),
        ("no-program", True, "its image has no "),
        ("evicted", True, "its node has evicted it"),
    ],
)
def test_why_a_pod_does_not_start(name: str, final: bool, words: str) -> None:
    found = answers.wait(PODS[name], EVENTS)
    assert words in found.why
    assert found.final is final


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("completed", JobState.COMPLETED, ""),
        ("exit-3", JobState.FAILED, "its container ended with 3"),
        ("deadline", JobState.TIMEOUT, "its time limit of"),
        ("oom", JobState.OUT_OF_MEMORY, "out of memory: its limit is"),
        (
            "evicted",
            JobState.PREEMPTED,
            'its node has evicted it: Usage of EmptyDir volume "d" exceeds the limit "1Mi".',
        ),
        ("evicted-memory", JobState.OUT_OF_MEMORY, "its node has evicted it: The node was low on resource: memory."),
        ("running", JobState.RUNNING, ""),
        ("terminating", JobState.CANCELLED, "its pod was deleted"),
        ("drained", JobState.CANCELLED, "its pod was deleted"),
        ("unschedulable-cpu", JobState.PENDING, ""),
        ("lost", JobState.NODE_FAIL, "its node node"),
    ],
)
def test_how_a_pod_ends(name: str, state: JobState, words: str) -> None:
    found, why = answers.end(PODS[name])
    assert found == state
    assert words in why if words else why == ""


def later(reason: str, message: str = "") -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    spec = {"containers": [{"name": "main"}]}
    return {"metadata": {"name": "x"}, "spec": spec, "status": {"phase": "Failed", "conditions": [condition]}}


def test_words_of_later_versions() -> None:
    assert answers.end(later("PreemptionByScheduler"))[0] == JobState.PREEMPTED
    assert answers.end(later("DeletionByTaintManager"))[0] == JobState.NODE_FAIL
    preemption = "0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {gpu: yes}. "
    preemption += "preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": preemption}
    pod = {"metadata": {"name": "x"}, "spec": {"containers": []}, "status": {"conditions": [condition]}}
    words = "none of 5 nodes takes it: 3 have too little nvidia.com/gpu free, 2 had untolerated taint {gpu: yes}"
    assert answers.wait(pod).why == words


def refused() -> list[tuple[str, str]]:
    text = (HERE / "refused.txt").read_text(encoding="utf-8")
    return re.findall(r"^\$ (kubectl .*)\n((?:(?!\$ kubectl |\[exit code).*\n)+)\[exit code [1-9]", text, re.MULTILINE)


def why(*part: str) -> str:
    """Return the reason of the first recorded refusal with these words."""
    words = next(said for line, said in refused() if all(one in f"{line}\n{said}" for one in part))
    return answers.refusal(words, "kubectl", "lab")[0]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("exceeded quota", "the quota small allows limits.memory=1Gi, of which limits.memory=0 is used"),
        ("failed quota", "the quota small wants every pod to name limits.memory"),
        ('"carol" cannot create resource "pods/exec"', "carol may not create pods/exec in namespace lab"),
        ('"carol" cannot delete', "carol may not delete pods in namespace lab"),
        ('"bob" cannot list', "bob may not list pods in namespace lab"),
        ("Unauthorized", "kubectl is not logged in to the cluster"),
        ("connection refused", "kubectl reaches no cluster: The connection to the server"),
        ("Unable to connect", "kubectl reaches no cluster: Unable to connect"),
        ("--context none", "kubectl: Error in configuration: context was not found for specified context: none"),
        ("Bad_Name", 'kubectl: The Pod "Bad_Name" is invalid'),
        ("unknown field", 'unknown field "hostNetwrk"'),
        ("dialing backend", "error dialing backend: dial tcp 10.77.0.3:10250: connect: no route to host"),
    ],
)
def test_why_the_server_refuses(part: str, words: str) -> None:
    assert words in why(part)


def test_a_program_that_an_image_lacks() -> None:
    said = next(said for _, said in refused() if "stat /none" in said)
    assert answers.lacking(said) == "its image has no /none"
    assert answers.lacking("command terminated with exit code 126") == ""


def test_every_refusal_is_one_line() -> None:
    for _, said in refused():
        reason, _ = answers.refusal(said, "kubectl", "lab")
        assert reason
        assert "\n" not in reason


def test_a_server_without_indexes_of_jobs() -> None:
    said = 'error: error validating "STDIN": error validating data: ValidationError(Job.spec): unknown field '
    said += '"completionMode" in io.k8s.api.batch.v1.JobSpec; if you choose to ignore these errors, turn validation off'
    assert "1.24" in answers.refusal(said, "kubectl", "lab")[0]


def test_pod_security() -> None:
    said = 'Error from server (Forbidden): error when creating "STDIN": pods "x" is forbidden: violates PodSecurity '
    said += '"restricted:latest": allowPrivilegeEscalation != false (container "main" must set …)'
    reason, remedy = answers.refusal(said, "oc", "lab")
    assert reason.startswith("namespace lab has the Pod Security level restricted, which forbids: allowPrivilege")
    assert "--hardened" in remedy


def test_jobs_of_controllers() -> None:
    states = {name: answers.state_of(job, [])[0] for name, job in JOBS.items()}
    assert states == {
        "job-complete": JobState.COMPLETED,
        "job-failed": JobState.FAILED,
        "job-deadline": JobState.TIMEOUT,
    }


def test_the_job_of_several_pods() -> None:
    """A pod that somebody has deleted is a lost one, unless the job's owner has gone, too."""
    running, gone = PODS["running"], PODS["terminating"]
    assert answers.ending([running, gone], owned=True)[0] == JobState.FAILED
    assert answers.ending([gone], owned=False)[0] == JobState.CANCELLED
    assert answers.ending([], owned=False)[0] == JobState.CANCELLED
    for starved in ("oom", "evicted-memory"):
        assert answers.ending([running, PODS[starved]], owned=True)[0] == JobState.OUT_OF_MEMORY


def of_launcher(kind: str, name: str, role: str = "", status: Any = None) -> dict[str, Any]:
    labels = {answers.LABEL: "x-12345", answers.USER: "alice", **({answers.ROLE: role} if role else {})}
    return {
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": []},
        "status": status or {},
    }


def ended(code: int) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}


@pytest.mark.parametrize("indexed", (True, False))
def test_the_launchers_code_is_that_of_its_job(indexed: bool) -> None:
    """Its nodes end with another one. The nodes of the job are those of its ranks."""
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    found = [
        *([of_launcher("Job", "x-12345-node", "", failed)] if indexed else []),
        of_launcher("Pod", "x-12345-node-1", "node", ended(76)),
        of_launcher("Pod", "x-12345-node-0", "node", ended(76)),
        of_launcher("Job", "x-12345-launcher", "", failed),
        of_launcher("Pod", "x-12345-launcher-bcdfg", "launcher", ended(7)),
    ]
    (job,) = answers.jobs(found)
    assert (job.code, job.nodes, job.state) == (7, 2, JobState.FAILED)
    assert "7" in job.reason
    assert [answers.name_of(pod) for pod in answers.nodes(found[-4:-2])] == ["x-12345-node-0", "x-12345-node-1"]


def test_pods_that_wait_for_a_launcher_that_has_ended() -> None:
    """As where their image cannot be pulled."""
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    pods = [
        of_launcher("Pod", "x-12345-node-0", "node", {"phase": "Pending"}),
        of_launcher("Pod", "x-12345-node-1", "node", ended(76)),
        of_launcher("Pod", "x-12345-node-2", "node", {"phase": "Running"}),
    ]
    assert answers.stranded([*pods, of_launcher("Job", "x-12345-launcher", "", failed)]) == ["x-12345-node-0"]
    assert answers.stranded([*pods, of_launcher("Job", "x-12345-launcher")]) == []
    pods[0]["metadata"]["deletionTimestamp"] = "2026-11-28T05:00:00Z"
    assert answers.stranded([*pods, of_launcher("Job", "x-12345-launcher", "", failed)]) == []


def test_the_order_of_nodes() -> None:
    """Names of an Indexed Job end in letters, or in digits, of Kubernetes' choice."""
    pods = [of_launcher("Pod", f"x-{10 - index}-{index}2456", "node") for index in range(11)]
    for index, pod in enumerate(pods):
        pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(10 - index)}
    assert answers.nodes(pods) == pods[::-1]
