# shellcheck shell=bash
# `mnrun proxy --port N` starts this text on a node, as `bash -c FORWARD N`, or with the path of a Unix socket.
# Standard input and output become a connection to it. It ends when the service ends the connection, or when nobody
# reads any more.
mnrun_forward='
import os, select, socket, sys, threading
place = sys.argv[1]
try:
    if place.isdigit():
        far = socket.create_connection(("localhost", int(place)))
    else:
        far = socket.socket(socket.AF_UNIX)
        far.connect(place)
except OSError as error:
    sys.exit("mnrun: nothing answers at %s of %s: %s" % (place, os.uname()[1], error.strerror or error))
def feed():
    try:
        for data in iter(lambda: os.read(0, 65536), b""):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)
    except OSError:
        pass
threading.Thread(target=feed, daemon=True).start()
poll = select.poll()
poll.register(far, select.POLLIN)
poll.register(1, 0)
while not [1 for file, _ in poll.poll() if file == 1]:
    try:
        data = far.recv(65536)
    except OSError:
        data = b""
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
os._exit(0)
'
if hash python3 2>/dev/null; then exec python3 -I -c "$mnrun_forward" "$0"; fi
[[ $0 != */* ]] || { echo "mnrun: this node has no python3, which --socket needs" >&2 && exit 125; }
{ exec 3<>"/dev/tcp/localhost/$0"; } 2>/dev/null || { echo "mnrun: nothing answers at port $0 of $HOSTNAME" >&2 && exit 1; }
# bash cannot tell the service alone that the input has ended. So the service has some seconds to end by itself.
cat <&3 &
{ cat >&3 && sleep 5; } <&0 &
wait -n
kill %1 %2 2>/dev/null
