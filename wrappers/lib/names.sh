# shellcheck shell=bash
# Wrappers on the node source this file. Bash knows these names without a process.

host_name() { # Set REPLY to the name of this host
  read -r REPLY </proc/sys/kernel/hostname
}

user_name() { # Set REPLY to the name of the user, or to `user` where the node knows none
  REPLY='\u'
  REPLY=${REPLY@P} # bash(1), PROMPTING
  [[ $REPLY != 'I have no name!' ]] || REPLY=user
}

instances() { # Set REPLY to the directory in which Apptainer records the user's shared containers of this host
  local host
  host_name && host=$REPLY
  user_name
  REPLY=${APPTAINER_CONFIGDIR:-${HOME-}/.apptainer}/instances/app/$host/$REPLY
}
