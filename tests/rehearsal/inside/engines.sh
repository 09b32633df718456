#!/bin/sh
# engines.sh IMAGE…: start dockerd on this node, and give docker and alice's podman the images that they lack.
set -eu
umask 022
if ! docker version > /dev/null 2>&1; then
    # No iptables and no bridge: containers use the node's own network.
    # Data on a tmpfs: overlays do not stack on the node's own.
    setsid dockerd --iptables=false --ip6tables=false --bridge=none --data-root /run/docker.data \
        > /var/log/dockerd.log 2>&1 < /dev/null &
    for _ in $(seq 300); do
        if docker version > /dev/null 2>&1; then break; fi
        sleep 0.1
    done
    docker version > /dev/null || { tail -n 5 /var/log/dockerd.log >&2; exit 1; }
fi

# What mnrun's podman uses: `--podman-root` of mnrun has this as its default.
store=/tmp/mnrun-podman.1500
as_alice() { setpriv --reuid alice --regid alice --init-groups env -C / HOME=/home/alice "$@"; }
alices() {
    # The driver by name: older ones have another, of which no other store can take an image.
    as_alice env XDG_RUNTIME_DIR=$store/user podman --root $store/root --runroot $store/run --tmpdir $store/tmp \
        --storage-driver=overlay "$@"
}
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
[ -d $store ] || install -d -m 700 -o alice -g alice $store $store/user
for image; do
    docker image inspect "localhost/$image" > /dev/null 2>&1 || docker load -q -i "/images/$image.docker"
    alices image exists "localhost/$image" || alices load -q -i "/images/$image.docker"
done
# The process that holds podman's namespaces would be taken for a leftover.
for file in $store/user/libpod/tmp/pause.pid $store/tmp/pause.pid; do
    if [ -e "$file" ]; then kill "$(cat "$file")"; fi
done
