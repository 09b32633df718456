#!/bin/sh
# Start the stand-in's daemon of a node: the server on the login node, a MOM on each other.
set -eu
install -d -m 755 /var/spool/pbs
/usr/bin/python3 -m compileall -q /opt/pbs/lib
if [ "$1" = login ]; then exec /opt/pbs/sbin/pbs_server; fi
exec /opt/pbs/sbin/pbs_mom
