# shellcheck shell=sh disable=SC2154  # mnrun_here
# Wrappers around Open MPI's mpirun source this file, after launch.env.

mnrun_alike() { # DIRECTORY OF mpirun, ITS WORDS…: Set mnrun_hosts to the nodes for its --host, or to nothing
  # In a hostfile, PRRTE 3 takes names that are the same up to their first dot for one node. In --host it does not.
  mnrun_hosts=''
  if [ "${PRTE_MCA_prte_keep_fqdn_hostnames-}" != 1 ] || [ -e "$1/orterun" ]; then return 0; fi
  case " $* " in *' --host '* | *' -host '* | *' -H '* | *hostfile* | *machinefile*) return 0 ;; esac
  while read -r mnrun_host; do mnrun_hosts=$mnrun_hosts${mnrun_hosts:+,}$mnrun_host; done <"$mnrun_here/hostfile.hydra"
}
