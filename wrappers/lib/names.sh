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
