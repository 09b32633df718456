"""exposed.sh: who else could give a directory's name to another one (S5)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mnrun.files import wrappers


def exposed(path: Path) -> str:
    """Return the directory that `exposed` names, or "". It may complain of nothing."""
    script = f'source "{wrappers()["exposed.sh"]}"; if exposed "$1"; then echo "$REPLY"; fi'
    done = subprocess.run(["bash", "-pc", script, "bash", str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == "", done
    return done.stdout.strip()


def test_the_directories_behind_a_link_count(tmp_path: Path) -> None:
    """They also count where the last directory is not there yet."""
    everybodys, link = tmp_path / "everybodys", tmp_path / "link"
    (everybodys / "inner").mkdir(parents=True)
    link.symlink_to(everybodys / "inner")
    assert exposed(link / "cache") == exposed(link) == ""
    everybodys.chmod(0o777)
    assert exposed(link / "cache") == exposed(link) == str(everybodys)
    everybodys.chmod(0o1777)
    assert exposed(link / "cache") == exposed(link) == ""
