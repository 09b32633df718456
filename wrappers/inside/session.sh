#!/bin/sh
# What sshd runs for each `ssh NODE COMMAND`: sshd gives it a bare environment, so it takes the
# container's own and the job's, and begins where the job does.
mnrun_here=${0%/*}
. "$mnrun_here/session.env"
. "$mnrun_here/user.env"
. "$mnrun_here/job.sh"
umask "$mnrun_umask"
cd "$mnrun_chdir" || exit 1
mnrun_command=${SSH_ORIGINAL_COMMAND:-exec sh}
case $mnrun_command in
  # Open MPI has the user's profile read first, which may print or change PATH
  *"( test ! -r ./.profile || . ./.profile; "*) mnrun_command="( ${mnrun_command#*"|| . ./.profile; "}" ;;
esac
case " $mnrun_command" in # Open MPI's daemons, whose mpirun tells them which networks
  *[/\;\ ]orted\ -* | *[/\;\ ]prted\ -*) unset OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include PRTE_MCA_prte_if_include ;;
esac
case $mnrun_command in # Open MPI's mpirun, written for its user's csh, which it has found to be the login shell
  *'if ( $?LD_LIBRARY_PATH == '*)
    mnrun_user=$(getent passwd "$(id -u)")
    exec "${mnrun_user##*:}" -f -c "$mnrun_command"
    ;;
esac
exec sh -c "$mnrun_command"
