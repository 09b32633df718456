# shellcheck shell=bash disable=SC2154  # attach/connection.py sets mnrun_hostkey and more
# `mnrun proxy` sends this text to a node (told.sh), where it runs in the job's directory. It starts the user's own sshd,
# whose one connection is standard input and output. No port is opened. The process carries the job's mark, so the guard
# ends it with the job.
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
mnrun_sshd=$(command -v sshd) || {
  echo "mnrun: $(<self) has no sshd: install openssh-server there. mnrun proxy --port N reaches one port without it" >&2
  exit 125
}
unset SSH_ORIGINAL_COMMAND TERM # those of a connection that led here
mnrun_own=proxy.$mnrun_connection mnrun_proxy=$$
export mnrun_proxy # for proxy_session.sh
echo "$mnrun_hostkey" >"$mnrun_own.key"
echo "$mnrun_public" >"$mnrun_own.pub"
export -p >"$mnrun_own.env"
# The login shell of this node's user reads files by its HOME, which may print. At an SHLVL of 1, bash reads none below
# an sshd (bash, SSH_SOURCE_BASHRC). An agent's socket would outlive a killed sshd.
cat >"$mnrun_own.config" <<END
HostKey $mnrun_here/$mnrun_own.key
AuthorizedKeysFile $mnrun_here/$mnrun_own.pub .ssh/authorized_keys
AuthenticationMethods publickey
StrictModes no
UsePAM no
UseDNS no
PidFile none
AllowAgentForwarding no
PermitUserRC no
PrintMotd no
PrintLastLog no
LogLevel ERROR
SetEnv HOME=$mnrun_here SHLVL=1
Subsystem sftp mnrun-sftp
ForceCommand $mnrun_session
END
# sshd leaves a session without a terminal alone when its connection ends. So a process outside of the step ends
# everything with the mark of the connection, whatever has ended this script.
# shellcheck disable=SC2016  # its own shell expands these words
exec {mnrun_life}> >(MNRUN_CONNECTION='' exec setsid --fork bash --norc -p -c '
  trap "" HUP INT TERM
  read -r _
  for _ in {1..100}; do
    mapfile -t files < <(exec grep -lsazFx -- "MNRUN_CONNECTION=$0" /proc/[0-9]*/environ)
    ((${#files[@]})) || break
    files=("${files[@]#/proc/}")
    kill -KILL "${files[@]%/environ}"
    sleep 0.1
  done
  rm -f -- "proxy.$0".*
' "$mnrun_connection" >/dev/null 2>&1)
mnrun_code=0
"$mnrun_sshd" -i -e -f "$mnrun_here/$mnrun_own.config" {mnrun_life}>&- || mnrun_code=$?
exit "$mnrun_code"
