# shellcheck shell=sh
# Wrappers on the node and in containers source this file. It finds the MPIs of a node or an image.
# mnrun_places replaces the usual places in tests.

mpi_of() { # PROGRAM: Print openmpi, mpich, mvapich2 or intelmpi, or `hangs` or `unknown`
  mnrun_it=$(readlink -f "$1" 2>/dev/null) || mnrun_it=$1
  case ${mnrun_it##*/} in # the file name is faster than `--version`
    *orterun | prte | prterun | *.openmpi) echo openmpi && return 0 ;;
    *hydra*)
      mnrun_it=${mnrun_it%/*}
      if [ -e "$mnrun_it/mpiname" ]; then echo mvapich2
      elif [ -e "$mnrun_it/impi_info" ] || [ -e "$mnrun_it/mpitune" ]; then echo intelmpi
      else echo mpich; fi
      return 0 ;;
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

mpis() ( # Print `KIND PROGRAM`, one line for each kind of MPI
  # A plain mpirun comes first, then the others on PATH or in usual places.
  IFS=:
  seen=:
  for dir in $PATH ${mnrun_places-/usr/lib64/*/bin:/usr/lib/*/bin:/opt/*/bin:/opt/*/mpi/*/bin}; do
    for name in mpirun mpiexec orterun mpirun.openmpi mpiexec.hydra; do
      if [ ! -f "$dir/$name" ] || [ ! -x "$dir/$name" ]; then continue; fi
      kind=$(mpi_of "$dir/$name")
      case $seen in *":$kind:"*) continue ;; esac
      seen=$seen$kind:
      echo "$kind $dir/$name"
    done
  done
)
