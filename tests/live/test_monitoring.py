"""Dashboards and rules with a real Prometheus and node_exporter, of Debian's packages: no query of a panel is empty.

`scripts/test --full monitoring` runs this module. It needs no cluster. dcgm-exporter is a page in its form.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mnrun.watching import exporter, metrics
from mnrun.watching.samples import read
from rehearsal.shell import beside, locked
from rehearsal.trees import cache
from unit.monitoring.test_monitoring import BOARDS, PLACE, exprs

from .cells import full

pytestmark = pytest.mark.skipif(not full(), reason="it fetches Prometheus: --full")
JOB = metrics.Job("271", "alice", "train", ("n1", "n2"))
CONFIG = """
global: {{scrape_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: mnrun
    static_configs: [{{targets: ["127.0.0.1:{top}"]}}]
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{node}"], labels: {{instance: "n1:9100"}}}}]
  - job_name: dcgm
    static_configs: [{{targets: ["127.0.0.1:{dcgm}"]}}]
"""
DCGM = {"GPU_UTIL": 97, "FB_USED": 4096, "FB_FREE": 77824, "GPU_TEMP": 61, "POWER_USAGE": 412.3}
LABELS = 'gpu="0",UUID="GPU-604ac76c",device="nvidia0",modelName="NVIDIA H100",Hostname="n1",hpc_job="271"'


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """There is no cluster, on which something could be left."""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The programs of Debian's packages, unpacked in the cache: Prometheus needs nothing of its other files here."""
    place = cache() / "trees/prometheus"
    with locked(place.with_name("prometheus.lock")):
        if not place.exists():
            own = ["promtool"] if subprocess.run(["apt-cache", "show", "promtool"], capture_output=True).stdout else []
            with beside(place) as folder:
                words = ["apt-get", "-q", "download", "prometheus", "prometheus-node-exporter", *own]
                subprocess.run(words, cwd=folder, check=True)
                for package in folder.glob("*.deb"):
                    subprocess.run(["dpkg-deb", "-x", package, folder / "tree"], check=True)
                (folder / "tree").rename(place)
    return place / "usr/bin"


def tool(programs: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([programs / "promtool", *words], cwd=PLACE, input=stdin, capture_output=True, text=True)


def samples(tick: int) -> list[str]:
    """Two nodes, of which the second has no GPU. One of two GPUs idles."""
    now = time.time()
    first = f"cpu {tick * 3.5} 8\tmemory 5000000000 16000000000\tnet eth0 {tick * 1000} {tick * 500}"
    gpus = f"gpu 0 97 1073741824 85899345920 61 412.35 {tick * 412}\tgpu 1 2 1073741824 85899345920 31 70 {tick * 70}"
    return [
        f"sample n1 {now:.2f} {first}\tib mlx5_0:1 {tick * 4096} {tick * 8192}\t{gpus}",
        f"sample n1 {now:.2f} rank 0 4711 {tick * 0.9} 2048\trank 1 4712 {tick * 0.8} 2048",
        f"sample n2 {now:.2f} {first}\trank 2 99 {tick * 0.7} 4096",
    ]


def used(tick: int) -> list[metrics.Family]:
    return metrics.used(JOB, [sample for line in samples(tick) for sample in read(line)])


def ports(count: int) -> list[int]:
    found = [socket.socket() for _ in range(count)]
    try:
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
    finally:
        for one in found:
            one.close()


@contextmanager
def running(*words: str | Path) -> Iterator[None]:
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(words, stdout=said, stderr=said)
        try:
            yield
            assert child.poll() is None, os.pread(said.fileno(), 4000, 0).decode()
        finally:
            child.terminate()
            child.wait()


@contextmanager
def page(port: int) -> Iterator[None]:
    text = "".join(f"# TYPE DCGM_FI_DEV_{n} gauge\nDCGM_FI_DEV_{n}{{{LABELS}}} {v}\n" for n, v in DCGM.items())

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def asked(port: int, query: str) -> list[object]:
    words = urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}") as answer:
            return list(json.load(answer)["data"]["result"])
    except urllib.error.HTTPError as error:
        pytest.fail(f"{query}: {error.read().decode()}")
    except OSError:  # it has not begun
        return []


def test_every_panel_shows_something(programs: Path, tmp_path: Path) -> None:
    own, top, node, dcgm = ports(4)
    (tmp_path / "texts").mkdir()
    with exporter.given(f"{tmp_path}/texts/jobs.prom", stays=True) as give:
        give([metrics.jobs([JOB, JOB._replace(id="272", nodes=("n3",))])])  # as `mnrun status --metrics` does
    (tmp_path / "config.yml").write_text(CONFIG.format(rules=PLACE / "rules.yml", top=top, node=node, dcgm=dcgm))
    options = [f"--config.file={tmp_path}/config.yml", f"--storage.tsdb.path={tmp_path}/data"]
    collectors = ["--collector.disable-defaults", "--collector.meminfo", "--collector.textfile"]
    queries = {
        expr.replace("$hpc_job", "271").replace("$node", "n1").replace("$__rate_interval", "10s")
        for board in BOARDS.values()
        for _, expr in exprs(board)
    }
    with (
        exporter.given(f"127.0.0.1:{top}") as give,
        page(dcgm),
        running(
            programs / "prometheus-node-exporter",
            *collectors,
            f"--collector.textfile.directory={tmp_path}/texts",
            f"--web.listen-address=127.0.0.1:{node}",
        ),
        running(programs / "prometheus", *options, f"--web.listen-address=127.0.0.1:{own}"),
    ):
        empty, deadline = queries, time.monotonic() + 60
        for tick in range(1000):
            give(used(tick))
            if not (empty := {query for query in empty if not asked(own, query)}) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        assert empty == set()
        assert {one["metric"]["hpc_job"] for one in asked(own, "mnrun_job_info")} == {"271", "272"}  # type: ignore[index]
        (idle,) = asked(own, "mnrun_gpu_utilization_ratio < 0.05")
        assert idle["metric"]["gpu"] == "1"  # type: ignore[index]
    shutil.rmtree(tmp_path / "data")


def test_rules(programs: Path) -> None:
    for words in (("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")):
        done = tool(programs, *words)
        assert (done.returncode, "SUCCESS" in done.stdout) == (0, True), done


def test_rules_that_are_wrong_are_noticed(programs: Path, tmp_path: Path) -> None:
    """The ten cases judge: each alert with another threshold fails one."""
    rules, cases = (PLACE / "rules.yml").read_text(), (PLACE / "rules_test.yml").read_text()
    (tmp_path / "rules_test.yml").write_text(cases)
    for old, new in ((">", "<"), ("> 85", "> 84"), ("== 0", "<= 1"), ("> 60", "> 600"), ("> 0.95", "> 0.85")):
        assert old in rules
        (tmp_path / "rules.yml").write_text(rules.replace(old, new))
        assert tool(programs, "test", "rules", f"{tmp_path}/rules_test.yml").returncode == 1, (old, new)


def test_names_are_as_prometheus_has_them(programs: Path, tmp_path: Path) -> None:
    with exporter.given(f"{tmp_path}/m.prom", stays=True) as give:
        give(used(1))
    done = tool(programs, "check", "metrics", stdin=(tmp_path / "m.prom").read_text())
    assert (done.returncode, done.stderr) == (0, ""), done
