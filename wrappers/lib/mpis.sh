# shellcheck shell=sh
# The MPIs of an image, or of a node; sourced. Names that stay begin with mnrun_.

mpi_of() { # PROGRAM: openmpi, mpich, mvapich2 or intelmpi; hangs, or unknown
  mnrun_it=$(readlink -f "$1")
  case ${mnrun_it##*/} in # its name tells, quicker than it says so itself
    *orterun | prte | prterun | *.openmpi) echo openmpi && return ;;
    *hydra*)
      mnrun_it=${mnrun_it%/*}
      if [ -e "$mnrun_it/mpiname" ]; then echo mvapich2
      elif [ -e "$mnrun_it/impi_info" ] || [ -e "$mnrun_it/mpitune" ]; then echo intelmpi
      else echo mpich; fi
      return ;;
  esac
  mnrun_it=$(timeout -s KILL 5 "$1" --version 2>&1 </dev/null) || case $? in 124 | 137) mnrun_it=hangs ;; esac
  case $mnrun_it in
    hangs) echo hangs ;;
    *"Open MPI"* | *OpenRTE* | *PRRTE*) echo openmpi ;;
    *MVAPICH* | *mvapich*) echo mvapich2 ;;
    *"Intel(R) MPI"*) echo intelmpi ;;
    *HYDRA*) echo mpich ;;
    *) echo unknown ;;
  esac
}

mpis() ( # `KIND PROGRAM`, of each kind one; first what a plain mpirun is, then what else is on PATH or where they are put
  IFS=:
  seen=:
  for dir in $PATH /usr/lib64/*/bin /usr/lib/*/bin /opt/*/bin /opt/*/mpi/*/bin; do
    for name in mpirun mpiexec orterun mpirun.openmpi mpiexec.hydra; do
      if [ ! -f "$dir/$name" ] || [ ! -x "$dir/$name" ]; then continue; fi
      kind=$(mpi_of "$dir/$name")
      case $seen in *":$kind:"*) continue ;; esac
      seen=$seen$kind:
      echo "$kind $dir/$name"
    done
  done
)
