# shellcheck shell=sh
# Wrappers outside containers source this file. It sets HOME as a login would, because cron and `env -i` may omit HOME.
if [ -z "${HOME-}" ]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME="${HOME:-/}"
fi
