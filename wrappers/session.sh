#!/bin/sh
# What sshd runs for each `ssh NODE COMMAND`: sshd gives it a bare environment, so it takes the
# container's own and the job's, and begins where the job does.
here=${0%/*}
. "$here/session.env"
. "$here/user.env"
. "$here/job.sh"
umask "$job_umask"
cd "$job_chdir" || exit 1
command=${SSH_ORIGINAL_COMMAND:-exec sh}
case $command in
  # Open MPI has the user's profile read first, which may print or change PATH
  *"( test ! -r ./.profile || . ./.profile; "*) command="( ${command#*"|| . ./.profile; "}" ;;
esac
exec sh -c "$command"
