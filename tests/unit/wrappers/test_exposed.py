"""exposed.sh: who else could give a directory's name to another one (S5)."""

from __future__ import annotations

from pathlib import Path

from mnrun.files import wrappers
from unit.conftest import Shell


def test_the_directories_behind_a_link_count(sh: Shell, tmp_path: Path) -> None:
    def exposed(path: Path) -> str:
        script = 'source "$1" && if exposed "$2" 2>&1; then echo "$REPLY"; fi'
        return sh(script, str(wrappers()["exposed.sh"]), str(path), shell="bash").decode().strip()

    assert [exposed(Path(name)) for name in ("/", "/none/at/all", ".", "..", "a/a/b")] == [""] * 5
    everybodys, link = tmp_path / "everybodys", tmp_path / "link"
    (everybodys / "inner").mkdir(parents=True)
    link.symlink_to(everybodys / "inner")
    assert exposed(link / "cache") == exposed(link) == ""
    everybodys.chmod(0o777)
    assert exposed(link / "cache") == exposed(link) == str(everybodys)
    first, ring = tmp_path / "first", tmp_path / "ring"
    (everybodys / "second").symlink_to("../own/cache")
    (tmp_path / "own").mkdir()
    first.symlink_to(everybodys / "second")  # whoever changes the second link changes what the first one leads to
    ring.symlink_to(ring)
    assert exposed(first) == exposed(first / "cache") == exposed(tmp_path / "own/../first") == str(everybodys)
    assert exposed(tmp_path / "own/cache") == exposed(ring) == ""
    everybodys.chmod(0o1777)
    assert exposed(link / "cache") == exposed(link) == exposed(first) == ""
