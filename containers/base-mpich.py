# MPICH with its mpiexec, and sshd: the base of images with programs of MPICH, Intel MPI and MVAPICH.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   mpich=                a version to build from source, such as 4.2.3. Without it, MPICH is the base's package
#   packages=             more packages, separated by commas

runtime = {"image": USERARG["base"], "_bootstrap": USERARG["bootstrap"], "_docker_env": False, "_distro": "ubuntu24"}
ssh = ["openssh-client", "openssh-server"]
more = list(filter(None, USERARG["packages"].split(",")))

if USERARG["mpich"]:
    Stage0 += baseimage(_as="build", **runtime)
    Stage0 += packages(apt=["gcc", "g++", "gfortran"])
    Stage0 += mpich(version=USERARG["mpich"], disable_static=True)
    Stage1 += baseimage(**runtime)
    Stage1 += packages(apt=[*ssh, *more])
    Stage1 += Stage0.runtime(_from="build")
else:
    Stage0 += baseimage(**runtime)
    Stage0 += packages(apt=["mpich", *ssh, *more])
