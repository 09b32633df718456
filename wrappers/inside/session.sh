#!/bin/sh
# sshd starts this in the container for each `ssh NODE COMMAND`, and pipe_serve.sh starts it for the pipe.
# SSH_ORIGINAL_COMMAND holds the command. sshd gives it a bare environment.
mnrun_here=${0%/*}
unset SSH_CLIENT SSH2_CLIENT # by them, each `bash -c` of the program would read ~/.bashrc (bash, SSH_SOURCE_BASHRC)
. "$mnrun_here/session.env"
. "$mnrun_here/user.env"
. "$mnrun_here/job.sh"
umask "$mnrun_umask"
if [ "$mnrun_runtime" = host ]; then
  . "$mnrun_here/search.sh"
  mnrun_search
fi
cd "$mnrun_begin" || exit 1
mnrun_command=${SSH_ORIGINAL_COMMAND:-exec sh}
case $mnrun_command in
  # Open MPI puts the user's profile in front, which may print or change PATH.
  *"( test ! -r ./.profile || . ./.profile; "*) mnrun_command="( ${mnrun_command#*"|| . ./.profile; "}" ;;
esac
case " $mnrun_command" in # Open MPI's daemons learn the networks from their mpirun
  *[/\;\ ]orted\ -* | *[/\;\ ]prted\ -*) unset OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include PRTE_MCA_prte_if_include ;;
esac
case $mnrun_command in # Open MPI's mpirun writes the command for csh where it finds csh as the login shell
  *'if ( $?LD_LIBRARY_PATH == '*)
    mnrun_user=$(getent passwd "$(id -u)")
    exec "${mnrun_user##*:}" -f -c "$mnrun_command"
    ;;
esac
exec sh -c "$mnrun_command"
