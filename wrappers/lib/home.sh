# shellcheck shell=sh
# Sourced, outside containers: HOME, which cron and `env -i` may leave out, as a login would set it.
if [ -z "${HOME-}" ]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME="${HOME:-/}"
fi
