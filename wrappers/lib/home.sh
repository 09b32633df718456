# shellcheck shell=sh
# Wrappers outside containers source this file. It sets HOME and USER as a login would, because cron and `env -i` may
# omit them. ch-run ends without USER.
if [ -z "${HOME-}" ]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6) || :
  export HOME="${HOME:-/}"
fi
if [ -z "${USER-}" ]; then
  USER=$(id -un 2>/dev/null) || :
  export USER
fi
