#!/bin/sh
# A user's own sshd on a free port of this node, in the foreground, from within the container.
# Says `ready port=N` once it listens.
set -eu
here=$(cd "${0%/*}" && pwd)
cd "$here"
. ./job.sh
. ./ports.sh
fail() { # WHY [REMEDY]
  case $mnrun_connect in
    auto) echo "nossh $1" && echo ready ;; # by the pipe, then
    *) echo "fail $1${2:+: $2}" ;;
  esac 1<>up
  exit 1
}

its='the image' # where it is looked for
case $mnrun_inside:$mnrun_runtime in :* | 1:host) its='this host' ;; esac
PATH=${PATH#"$here/bin:"}:/usr/sbin:/sbin:/usr/local/sbin
sshd=$(command -v sshd) || fail "$its has no sshd" "add openssh-server to it, or use --connect pipe"
command -v ssh >/dev/null || fail "$its has no ssh" "add openssh-client to it, or use --connect pipe"

# Unknown keywords are fatal, so each is written only where the version knows it.
version=$(ssh -V 2>&1 | sed 's/^OpenSSH_\([0-9]*\)\.\([0-9]*\).*/\1 \2/')
since() { # MAJOR MINOR
  # shellcheck disable=SC2086  # two words
  set -- "$1" "$2" $version
  [ "$3" -gt "$1" ] || { [ "$3" -eq "$1" ] && [ "$4" -ge "$2" ]; }
}
# No AllowUsers: it reads a name with @ as USER@HOST, and who has the job's own key is its user.
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
# all nodes of a tree, and several mpiruns, connect at once
MaxStartups 1000
LoginGraceTime 60
LogLevel VERBOSE
ForceCommand exec /bin/sh $here/session.sh
END
  # without a full PATH an absolute mpirun still loses its daemons (Open MPI 5)
  if since 7 8; then echo "SetEnv PATH=$here/bin:$PATH"; fi
  # else a few connections without a login lock the master out
  if since 9 8; then echo "PerSourcePenalties no"; fi
  # mandatory up to 7.5, and it wants root's directories
  if ! since 7 6; then echo "UsePrivilegeSeparation no"; fi
} >sshd_config
# modes of a file made before are kept: nobody else has business here
chmod 600 key hostkey sshd_config

tried=0
for port in $(ports 200); do
  tried=$((tried + 1))
  "$sshd" -D -e -f "$here/sshd_config" -p "$port" 2>&1 | while read -r line; do
    echo "$line" >>sshd.log
    case $line in
      "Server listening on "*) echo "ready port=$port" 1<>up ;;
    esac
  done
  grep -q 'Address already in use' sshd.log || fail "sshd ended: $(tail -n 1 sshd.log)"
done
fail "no free port in $mnrun_ports for sshd ($tried tried)"
