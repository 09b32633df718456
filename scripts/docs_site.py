"""Adds to the site, besides docs/: the examples, the changes, the version, and pictures as text of their page.

mkdocs calls these functions by their names (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

TOP = Path(__file__).resolve().parent.parent
LANGUAGES = {
    ".py": "python",
    ".sh": "bash",
    ".sub": "bash",
    ".toml": "toml",
    ".R": "r",
    ".cu": "c++",
    "Snakefile": "python",
}


def on_config(config: MkDocsConfig) -> None:
    found = re.search(r'__version__ = "(.+)"', (TOP / "launcher/mnrun/__init__.py").read_text())
    assert found
    config.site_name = f"mnrun {found[1]}"
    assert config.nav
    section = next(entry["Examples"] for entry in config.nav if "Examples" in entry)
    section += [f"examples/{path.parent.name}/README.md" for path in sorted(TOP.glob("examples/*/README.md"))]


def on_files(files: Files, config: MkDocsConfig) -> None:
    for path in [TOP / "CHANGELOG.md", TOP / "examples/README.md", *TOP.glob("examples/*/README.md")]:
        name = str(path.relative_to(TOP))
        text = linked(path.read_text(), name) + (listed(path.parent) if name.count("/") == 2 else "")
        files.append(File.generated(config, site_name(name), content=text))
    for path in TOP.glob("examples/*/*.svg"):
        files.append(File.generated(config, str(path.relative_to(TOP)), abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    if page.file.generated_by is None:
        markdown = linked(markdown, f"docs/{page.file.src_uri}")
    if page.file.generated_by or page.file.src_uri == "troubleshooting.md":
        # Messages are found first, and examples and changes last.
        page.meta["search"] = {"boost": 0.3 if page.file.generated_by else 3}
    return "\n".join(unescaped(line) if line.startswith("|") else line for line in markdown.split("\n"))


def on_page_content(content: str, page: Any, **_: object) -> str:
    def picture(image: re.Match[str]) -> str:
        return (TOP / "docs" / PurePosixPath(page.file.src_uri).parent / image[1]).read_text()

    content = re.sub(r"(?s)<td.*?</td>", lambda cell: re.sub(r"(?s)<code>.*?</code>", whole_options, cell[0]), content)
    return re.sub(r'<img [^>]*src="([^"]*pictures/[^"]*\.svg)"[^>]*>', picture, content)


def whole_options(code: re.Match[str]) -> str:
    """Return code in which no option is broken at its hyphens."""
    return re.sub(r"\[--\]|(?<![\w-])--?\w[\w-]*", r'<span class="option">\g<0></span>', code[0])


def site_name(name: str) -> str:
    """Return where a file of the repository is on the site, or nothing if it is not there."""
    if (TOP / name).is_dir():
        name += "/README.md"
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return {"CHANGELOG.md": "changelog.md"}.get(name, name if name.startswith("examples/") else "")


def linked(markdown: str, name: str) -> str:
    """Return a page whose links are those of the site. A file of an example is a section of its page."""
    home = PurePosixPath(name).parent
    here = PurePosixPath(site_name(name)).parent

    def link(found: re.Match[str]) -> str:
        goal = os.path.normpath(home / found[1])
        if goal.startswith("examples/") and (TOP / goal).is_file() and Path(goal).suffix not in (".md", ".svg"):
            page = f"{Path(goal).parent}/README.md"
            return f"]({os.path.relpath(page, here)}#{Path(goal).name})"
        there = site_name(goal)
        return f"]({os.path.relpath(there, here)}{found[2]}" if there else found[0]

    return re.sub(r"\]\((?![a-z]+:)([^)#\s]+)([)#])", link, markdown)


def listed(directory: Path) -> str:
    """Return the files of an example as sections of its page."""
    sections = ["\n## Files\n"]
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".svg", ".csv", ".pyc"):
            language = LANGUAGES.get(path.suffix or path.name, "text")
            name = path.relative_to(directory)
            sections.append(f"### {name} {{ #{path.name} }}\n\n````{language}\n{path.read_text().rstrip()}\n````\n")
    return "\n".join(sections) if len(sections) > 1 else ""


def unescaped(row: str) -> str:
    """Return a row of a table whose code has `|` as it is: with Python's Markdown, a backslash before it stays."""

    def code(found: re.Match[str]) -> str:
        text = html.escape(found[2].replace("\\|", "|")).replace("|", "&#124;<wbr>")
        return f"<code>{text}</code>" if "\\|" in found[2] else found[0]

    return re.sub(r"(`+)(.+?)\1", code, row)
