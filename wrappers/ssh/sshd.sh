#!/bin/sh
# worker.sh starts this in the container of each node. It runs the user's own sshd there, on a free port.
set -eu
here=$(cd "${0%/*}" && pwd)
cd "$here"
. ./job.sh
. ./ports.sh
fail() { # WHY [REMEDY]: Report the failure to the guard, and exit
  echo "fail $1${2:+: $2}" 1<>up
  exit 1
}

its='the image' # the place of the programs, for error messages
case $mnrun_inside:$mnrun_runtime in :* | 1:host) its='this host' ;; esac
PATH=${PATH#"$here/bin:"}:/usr/sbin:/sbin:/usr/local/sbin
sshd=$(command -v sshd) || fail "$its has no sshd" "add openssh-server to it, or use --connect pipe"
for tool in sed cat chmod grep tail; do
  command -v "$tool" >/dev/null || fail "$its has no $tool, which the job's sshd needs" "install it there, or use --connect pipe"
done
command -v ssh >/dev/null || fail "$its has no ssh" "add openssh-client to it, or use --connect pipe"

# sshd ends on an unknown keyword. So each keyword is written only for the versions that know it.
version=$(ssh -V 2>&1 | sed 's/^OpenSSH_\([0-9]*\)\.\([0-9]*\).*/\1 \2/')
since() { # MAJOR MINOR: Test whether OpenSSH has at least this version
  # shellcheck disable=SC2086  # two words
  set -- "$1" "$2" $version
  [ "$3" -gt "$1" ] || { [ "$3" -eq "$1" ] && [ "$4" -ge "$2" ]; }
}
# AllowUsers is absent, because it reads a name with @ as USER@HOST. The holder of the job's key is its user anyway.
{
  cat <<END
AddressFamily inet
HostKey $here/hostkey
AuthorizedKeysFile $here/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
AllowTcpForwarding no
X11Forwarding no
PermitTunnel no
UseDNS no
# Several mpiruns connect at once. Anybody can connect without a login, and each connection takes 1.3 MB of the job.
MaxStartups 100
LoginGraceTime 30
LogLevel VERBOSE
ForceCommand exec /bin/sh $here/session.sh
END
  # Open MPI 5 loses its daemons without a full PATH, even if mpirun has an absolute path.
  # The login shell of this node's user reads files by its HOME, which may print or change PATH. At an SHLVL of 1, bash
  # reads none below an sshd (bash, SSH_SOURCE_BASHRC). session.sh restores both.
  if since 7 8; then echo "SetEnv \"PATH=$here/bin:$PATH\" HOME=$here SHLVL=1"; fi
  # So those of one address do not keep out all others.
  if since 8 5; then echo "PerSourceMaxStartups 50"; fi
  # Without this, a few connections without a login lock the master out.
  if since 9 8; then echo "PerSourcePenalties no"; fi
  # The keyword is mandatory up to 7.5. Privilege separation wants directories of root.
  if ! since 7 6; then echo "UsePrivilegeSeparation no"; fi
} >sshd_config
# A file that existed before keeps its mode. No other user may read these files.
chmod 600 key hostkey sshd_config

tried=0 said=0
ports 200 "$(taken)"
for port in $mnrun_free; do
  tried=$((tried + 1))
  "$sshd" -D -e -f "$here/sshd_config" -p "$port" 2>&1 | while read -r line; do
    # Each connection of anybody's makes a line.
    said=$((said + 1))
    [ "$said" -gt 1000 ] || echo "$line" >>sshd.log
    case $line in
      "Server listening on "*) echo "ready port=$port" 1<>up ;;
    esac
  done
  # A program that runs needs no listening sshd. Its next ssh says itself that nobody listens.
  if grep -q '^Server listening' sshd.log; then exit 0; fi
  grep -q 'Address already in use' sshd.log || fail "sshd ended: $(tail -n 1 sshd.log)"
done
fail "no free port in $mnrun_ports for sshd ($tried tried)"
