# shellcheck shell=sh
# First words on a host without a scheduler (schedulers/hosts/names.py): unpacks the words of a command, and becomes it.
# A login shell reads them first, in single quotes, and it may be csh or fish. Those read `!`, a newline and a backslash
# even there: so this is one line, without them and without single quotes.
mnrun_words=$(printf %s "$@" | base64 -d | gzip -d) && eval "exec $mnrun_words"
