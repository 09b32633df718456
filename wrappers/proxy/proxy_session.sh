# shellcheck shell=bash disable=SC1090,SC2154  # proxy.sh writes that file; job.sh's, and those of attach/connection.py
# The sshd of `mnrun proxy` starts this text for each session, in the job's directory (into.sh). SSH_ORIGINAL_COMMAND
# has the command, `mnrun-sftp` for scp and sftp, or nothing for a shell. mnrun_where is the container or the node.
set -euo pipefail
mnrun_term=${TERM-} mnrun_asked=${SSH_ORIGINAL_COMMAND-}
source "./proxy.$mnrun_connection.env" # of proxy.sh: where the engines and this user's files are
export MNRUN_CONNECTION=$mnrun_connection # by which proxy.sh ends the session with its connection
[[ -z $mnrun_term ]] || export TERM=$mnrun_term
umask "$mnrun_umask"
mnrun_none=88 # the code of a place without an sftp-server
mnrun_sftp="for file in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/lib; do
  [ ! -x \"\$file/sftp-server\" ] || exec \"\$file/sftp-server\"
done
exit $mnrun_none"

inside() { # WORDS: Become WORDS in the container, or a shell
  source ./enter.sh "" "$@"
}

outside() { # WORDS: Become WORDS on the node, or the user's shell
  cd -- "$mnrun_chdir" 2>/dev/null || cd -- "$HOME" || cd /
  if (($#)); then exec "$@"; else exec "${SHELL:-/bin/sh}" -l; fi
}

case $mnrun_asked in
  '') "$mnrun_where" ;;
  mnrun-sftp)
    mnrun_node=$(<self) mnrun_code=0
    ("$mnrun_where" sh -c "$mnrun_sftp") || mnrun_code=$?
    ((mnrun_code == mnrun_none)) || exit "$mnrun_code"
    # sshd drops the errors of a subsystem (session.c). Those of proxy.sh reach the terminal of ssh.
    [[ $mnrun_where == outside ]] ||
      echo "mnrun: the image has no sftp-server, so these are the files of $mnrun_node itself" >"/proc/$mnrun_proxy/fd/2"
    outside sh -c "$mnrun_sftp"
    ;;
  *) "$mnrun_where" sh -c "$mnrun_asked" ;;
esac
