#!/bin/sh
# rank.sh runs `transport_debug.sh WORDS…` around one rank on each node, in the container. It becomes WORDS.
# NCCL's report of its network goes into the job's directory, for transport_read.sh. With mnrun_overhear, the reports of
# Open MPI and UCX go there too.
# The program's own output stays as without it. It takes no output that the user has asked these libraries for.
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"
mnrun_heard=$mnrun_here/heard

asked() { # Test whether a file of NCCL's asks for its report
  for mnrun_file in /etc/nccl.conf "${NCCL_CONF_FILE:-${HOME-}/.nccl.conf}"; do
    [ -r "$mnrun_file" ] || continue
    while read -r mnrun_line || [ -n "$mnrun_line" ]; do
      case $mnrun_line in NCCL_DEBUG=* | 'NCCL_DEBUG '*=*) return 0 ;; esac
    done <"$mnrun_file"
  done
  return 1
}
gpus() { [ -n "${CUDA_VISIBLE_DEVICES-}${ROCR_VISIBLE_DEVICES-}" ] || [ -e /proc/driver/nvidia ] || [ -e /dev/kfd ]; }
if [ -z "${NCCL_DEBUG-}${NCCL_DEBUG_FILE-}" ] && gpus && ! asked; then
  export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS="${NCCL_DEBUG_SUBSYS-INIT,NET}" "NCCL_DEBUG_FILE=$mnrun_heard/nccl.%p"
fi

listen() { # Sort the output of Open MPI and UCX
  # The other lines of the two go where they would have gone.
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE # a signal for the rank reaches its whole process group
  unset TMOUT # with the user's, bash would end a `read`
  while IFS= read -r line; do
    case $line in
      *'mca: bml: Using '* | *' mtl:ofi:'* | *' UCX  INFO '*inter-node* | *' UCX  INFO '*'ep_cfg['*) printf '%s\n' "$line" ;;
      *' UCX  INFO '* | *' UCX  DIAG '*) ;; # UCX prints these only because of the level set below
      *' UCX  '*) printf '%s\n' "$line" >&8 ;;
      *) printf '%s\n' "$line" >&2 ;;
    esac
  done 8>&1 >"$mnrun_heard/mpi"
}

if [ -n "$mnrun_overhear" ] && [ "${PMI_FD-}" != 7 ] && [ -p "$mnrun_here/said" ]; then
  (listen <"$mnrun_here/said" &) # the program must not have another child
  exec 7>"$mnrun_here/said"
  if [ -z "${OMPI_MCA_btl_base_verbose-}${OMPI_MCA_mtl_base_verbose-}${OPAL_OUTPUT_STDERR_FD-}${OPAL_OUTPUT_REDIRECT-}" ]; then
    export OMPI_MCA_btl_base_verbose=1 OMPI_MCA_mtl_base_verbose=1 OMPI_MCA_opal_common_ofi_verbose=1 OPAL_OUTPUT_STDERR_FD=7
  fi
  if [ -z "${UCX_LOG_LEVEL-}${UCX_LOG_FILE-}" ]; then export UCX_LOG_LEVEL=info "UCX_LOG_FILE=$mnrun_here/said"; fi
fi
exec "$@"
