"""verify_image.sh: an image's digest and its signature. The runtime is played."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mnrun.facts import by_node, parse
from mnrun.images import inspection
from mnrun.nodes import kit
from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell
from unit.wrappers.node import executable


@pytest.mark.parametrize(
    ("script", "signature"),
    [
        ("echo verified", "valid"),
        ("echo 'FATAL:   Failed to verify container: signature not found'; exit 255", "signature not found"),
        ("", "apptainer has not answered in"),
    ],
)
def test_a_signature(sh: Shell, tmp_path: Path, script: str, signature: str) -> None:
    image = tmp_path / "app.sif"
    image.write_bytes(b"image")
    executable(tmp_path / "bin/apptainer", script)
    if not script:
        executable(tmp_path / "bin/timeout", "exit 124")
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SLURMD_NODENAME": "node01"}
    said = sh(
        'exec bash -p -c "$@"',
        kit.probe("verify_image.sh", slurm.ON_NODE),
        "node01",
        "",
        str(image),
        "",
        "apptainer",
        shell="bash",
        environ=environ,
    )
    (copy,) = inspection.copies(by_node(parse(said.decode())), ["node01"])
    assert copy.digest == f"sha256:{hashlib.sha256(b'image').hexdigest()}" and copy.signature.startswith(signature)
    assert copy.unsigned == (signature == "signature not found") and copy.signed == (signature == "valid")


def test_an_image_of_a_cache_of_others(sh: Shell, tmp_path: Path) -> None:
    """(S3) It is not read."""
    image = tmp_path / "open/app.sif"
    image.parent.mkdir()
    image.write_bytes(b"image")
    image.parent.chmod(0o777)
    words = (kit.probe("verify_image.sh", slurm.ON_NODE), "node01", str(image.parent), str(image), "", "apptainer")
    said = sh('exec bash -p -c "$@"', *words, shell="bash")
    (copy,) = inspection.copies(by_node(parse(said.decode())), [os.uname().nodename])
    assert (copy.digest, copy.missing) == ("", f"other users may write to {image.parent} (chmod go-w)")
