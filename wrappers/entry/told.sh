# shellcheck shell=bash
# attach/connection.py puts these lines behind into.sh, for a script that comes down standard input: a line with its
# size, then its text. No list of processes shows it. bash reads a pipe by single bytes, so the rest of the input is
# left for what the script becomes.
umask 077
read -r mnrun_size && IFS= read -rN "$mnrun_size" mnrun_text && eval "$mnrun_text"
