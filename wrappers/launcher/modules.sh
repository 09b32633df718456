# shellcheck shell=bash
# mnrun runs this beside itself for a live run, as `bash --norc -c MODULES MARK NAME…` (system/modules.py). It loads the
# environment modules NAME, and prints the resulting environment after MARK.
# `module` is a shell function. A login shell may have exported it, or the file BASH_ENV defines it (Lmod does both). So
# this bash runs without -p, and that file may print. Otherwise /etc/profile defines `module`.
printf '%s\0' "$0"
# shellcheck source=/dev/null  # of the site's own
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1
# shellcheck disable=SC2016  # the backticks are for people
type module >/dev/null 2>&1 || { echo 'the command `module` is not defined here'; exit 97; }
for name; do module load "$name" >&2 || { echo "module load $name failed"; exit 98; }; done
exec env -0
