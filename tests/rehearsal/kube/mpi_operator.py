"""`python3 -m kube.mpi_operator SERVER TOKEN`: a stand-in of the MPI operator 0.8, for MPIJobs v2beta1.

It makes what the operator makes, by its names and labels: a Secret with a key for ssh, a ConfigMap with the hostfile, a
headless Service, the worker pods and the launcher's Job; and it keeps the MPIJob's conditions. It looks twice a second.
It has no suspend, no gangs and no runLauncherAsWorker.
"""

from __future__ import annotations

import base64
import copy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import HTTPError

from .api import Api, Object

GROUP = "/apis/kubeflow.org/v2beta1"
JOB, ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
ROOTS = "/root/.ssh"
TRIES = "-o ConnectionAttempts=10"
# For each MPI: a line of the hostfile, and the launcher's variables. Open MPI 5 reads none of those of Open MPI.
HOSTFILE = {"OpenMPI": "{host} slots={slots}\n", "Intel": "{host}:{slots}\n", "MPICH": "{host}:{slots}\n"}
VARIABLES = {
    "OpenMPI": {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": TRIES,
        "OMPI_MCA_orte_set_default_slots": "{slots}",
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": TRIES,
        "I_MPI_PERHOST": "{slots}",
    },
    "MPICH": {"HYDRA_HOST_FILE": "/etc/mpi/hostfile", "HYDRA_LAUNCH_EXTRA_ARGS": TRIES},
}


def key_pair() -> dict[str, str]:
    """Return the data of the Secret."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", place], check=True)
        private, public = (base64.b64encode(Path(folder, name).read_bytes()).decode() for name in ("key", "key.pub"))
    return {"ssh-privatekey": private, "ssh-publickey": public}


class Job:
    """An MPIJob, and what is made of it. What it leaves out has the values that the CRD gives it."""

    def __init__(self, job: Object) -> None:
        self.job, self.meta, self.spec = job, job["metadata"], job["spec"]
        self.name, self.space = self.meta["name"], self.meta["namespace"]
        self.slots = self.spec.get("slotsPerWorker", 1)
        self.mpi = self.spec.get("mpiImplementation", "OpenMPI")
        self.policy = self.spec.get("runPolicy", {})
        self.keys = self.spec.get("sshAuthMountPath", ROOTS)
        self.worker, self.launcher = (self.spec["mpiReplicaSpecs"][role] for role in ("Worker", "Launcher"))
        self.hosts = [f"{self.name}-worker-{number}" for number in range(self.worker.get("replicas", 1))]

    def owned(self, kind: str, name: str, body: Object, version: str = "v1", **labels: str) -> Object:
        labels = {JOB: self.name, "training.kubeflow.org/operator-name": "mpi-operator", **labels}
        owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": self.name, "uid": self.meta["uid"]}
        meta = {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        return {"apiVersion": version, "kind": kind, "metadata": meta, **body}

    def secret(self) -> Object:
        return self.owned("Secret", f"{self.name}-ssh", {"type": "kubernetes.io/ssh-auth", "data": key_pair()})

    def config(self) -> Object:
        line = HOSTFILE[self.mpi]
        lines = [line.format(host=f"{host}.{self.name}.{self.space}.svc", slots=self.slots) for host in self.hosts]
        data = {"hostfile": "".join(lines), "discover_hosts.sh": "#!/bin/sh\n"}
        return self.owned("ConfigMap", f"{self.name}-config", {"data": data})

    def service(self) -> Object:
        return self.owned("Service", self.name, {"spec": {"clusterIP": "None", "selector": {JOB: self.name}}})

    def _template(self, replica: Object, role: str, host: str, env: list[Object]) -> tuple[Object, Object]:
        """Return labels and spec of a pod. Its first container alone is changed."""
        template = copy.deepcopy(replica["template"])
        spec: Object = template["spec"]
        spec |= {"hostname": host, "subdomain": self.name, "restartPolicy": replica.get("restartPolicy", "Never")}
        if spec.get("hostNetwork"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        parts = {"ssh-privatekey": "id_rsa", "ssh-publickey": "id_rsa.pub"}
        items = [{"key": key, "path": path} for key, path in parts.items()]
        items.append({"key": "ssh-publickey", "path": "authorized_keys"})
        secret: Object = {"secretName": f"{self.name}-ssh", "items": items}
        if self.keys == ROOTS:
            secret["defaultMode"] = 0o600
        spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
        first = spec["containers"][0]
        first.setdefault("volumeMounts", []).append({"name": "ssh-auth", "mountPath": self.keys})
        first.setdefault("env", []).extend([{"name": "K_MPI_JOB_ROLE", "value": role}, *env])
        return {**template.get("metadata", {}).get("labels", {}), ROLE: role}, spec

    def pod(self, number: int) -> Object:
        host = self.hosts[number]
        labels, spec = self._template(self.worker, "worker", host, [])
        spec.setdefault("dnsConfig", {}).setdefault("searches", []).append(
            f"{self.name}.{self.space}.svc.cluster.local"
        )
        first = spec["containers"][0]
        if not first.get("command") and not first.get("args"):
            first["command"] = ["/usr/sbin/sshd", "-De"]
        labels["training.kubeflow.org/replica-index"] = str(number)
        return self.owned("Pod", host, {"spec": spec}, **labels)

    def start(self) -> Object:
        """Return the launcher's Job."""
        given = VARIABLES[self.mpi].items()
        env: list[Object] = [{"name": name, "value": value.format(slots=self.slots)} for name, value in given]
        env += [{"name": "NVIDIA_VISIBLE_DEVICES"}, {"name": "NVIDIA_DRIVER_CAPABILITIES"}]
        labels, spec = self._template(self.launcher, "launcher", f"{self.name}-launcher", env)
        modes = {"hostfile": 0o444, "discover_hosts.sh": 0o555}
        items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
        spec["volumes"].append({"name": "mpi-job-config", "configMap": {"name": f"{self.name}-config", "items": items}})
        spec["containers"][0]["volumeMounts"].append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
        taken = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
        template = {"metadata": {"labels": {**labels, JOB: self.name}}, "spec": spec}
        body = {**{name: self.policy[name] for name in taken if name in self.policy}, "template": template}
        return self.owned("Job", f"{self.name}-launcher", {"spec": body}, "batch/v1", **labels)


class Operator:
    """The loop."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def look(self) -> None:
        for job in self.api.items(f"{GROUP}/mpijobs"):
            if "deletionTimestamp" not in job["metadata"]:
                try:
                    self.step(Job(job))
                except HTTPError as refusal:
                    print(job["metadata"]["name"], refusal.read().decode(), flush=True)

    def step(self, job: Job) -> None:
        """Make what lacks, and write the conditions."""
        core, batch = f"/api/v1/namespaces/{job.space}", f"/apis/batch/v1/namespaces/{job.space}"
        conditions = {each["type"]: each for each in job.job.get("status", {}).get("conditions", ())}
        if not conditions:
            for kind, thing in (("secrets", job.secret()), ("configmaps", job.config()), ("services", job.service())):
                self.create(f"{core}/{kind}", thing)
            for number in range(len(job.hosts)):
                self.create(f"{core}/pods", job.pod(number))
            self.tell(job, conditions, "Created", "MPIJobCreated", "MPIJob is created.")
        if {"Succeeded", "Failed"} & set(conditions):
            return
        pods = self.api.items(f"{core}/pods?labelSelector={JOB}%3D{job.name}%2C{ROLE}%3Dworker")
        launchers = self.api.items(f"{batch}/jobs?labelSelector={JOB}%3D{job.name}")
        waits = job.spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
        if not launchers and (not waits or sum(map(ready, pods)) == len(job.hosts)):
            self.create(f"{batch}/jobs", job.start())
        for launcher in launchers:
            self.follow(job, conditions, launcher, pods)

    def follow(self, job: Job, conditions: Object, launcher: Object, pods: list[Object]) -> None:
        """Write what becomes of the launcher; at its end the workers go, as the policy says."""
        ends = [each for each in launcher["status"].get("conditions") or () if each["type"] in ("Complete", "Failed")]
        if ends:
            kind = "Succeeded" if ends[0]["type"] == "Complete" else "Failed"
            reason = "MPIJobSucceeded" if kind == "Succeeded" else ends[0].get("reason", "MPIJobFailed")
            self.tell(job, conditions, kind, reason, ends[0].get("message", f"MPIJob {job.name} {kind.lower()}."))
            for pod in pods:
                policy = job.policy.get("cleanPodPolicy", "None")
                if policy == "All" or (policy == "Running" and pod["status"]["phase"] in ("Running", "Pending")):
                    self.api.ask("DELETE", f"/api/v1/namespaces/{job.space}/pods/{pod['metadata']['name']}")
        elif (
            launcher["status"].get("active") and sum(map(ready, pods)) == len(job.hosts) and "Running" not in conditions
        ):
            self.tell(job, conditions, "Running", "MPIJobRunning", f"MPIJob {job.name} is running.")

    def create(self, path: str, thing: Object) -> None:
        try:
            self.api.ask("POST", path, thing)
        except HTTPError as refusal:
            if refusal.code != 409:  # it is there already
                raise

    def tell(self, job: Job, conditions: Object, kind: str, reason: str, message: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        new = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        conditions[kind] = {**new, "lastUpdateTime": now}
        path = f"{GROUP}/namespaces/{job.space}/mpijobs/{job.name}/status"
        self.api.ask("PATCH", path, {"status": {"conditions": list(conditions.values())}})


def ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def main(server: str, token: str) -> None:
    operator = Operator(Api(server, token))
    while True:
        try:
            operator.look()
        except OSError as problem:
            print(problem, flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
