# shellcheck shell=bash
# Runs beside mnrun, as `bash -c MODULES mnrun NAME…` (system/modules.py): loads environment modules for a live run, and
# says the environment that comes of it. `module` is a shell function, so this bash is not told -p: a login shell may
# have exported it (Lmod does). Otherwise /etc/profile makes it.
# shellcheck source=/dev/null  # of the site's own
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1
# shellcheck disable=SC2016  # the backticks are for people
type module >/dev/null 2>&1 || { echo 'there is no `module` here'; exit 97; }
for name; do module load "$name" >&2 || { echo "module load $name failed"; exit 98; }; done
exec env -0
