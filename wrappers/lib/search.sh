# shellcheck shell=sh
# Wrappers that start programs of a node where the user's directory is the working directory source this file.

mnrun_full() { # LIST: Set mnrun_list to the list of directories without its empty elements
  mnrun_list=:$1:
  while [ "${mnrun_list#*::}" != "$mnrun_list" ]; do mnrun_list=${mnrun_list%%::*}:${mnrun_list#*::}; done
  mnrun_list=${mnrun_list#:} mnrun_list=${mnrun_list%:}
}

mnrun_search() { # Take the empty elements out of PATH and LD_LIBRARY_PATH
  # One means the working directory (bash(1), PATH; ld.so(8)). On this node, that may be another user's.
  mnrun_full "$PATH"
  PATH=$mnrun_list
  mnrun_full "${LD_LIBRARY_PATH-}"
  if [ -n "${LD_LIBRARY_PATH-}" ]; then LD_LIBRARY_PATH=$mnrun_list; fi
}
