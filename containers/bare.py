# Python, and no MPI: for programs that mnrun starts by itself.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   packages=             more packages, separated by commas

more = list(filter(None, USERARG["packages"].split(",")))
Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
Stage0 += packages(apt=["python3", *more])
