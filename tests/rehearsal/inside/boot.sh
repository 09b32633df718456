#!/bin/sh
# boot.sh NODE: the first process of a node, in namespaces of its own but still on the
# machine's root. Builds the node's root, moves there, and becomes its init.
#   PLACE     the node's folder          LOWER     layer:tree
#   HOMES MNRUN IMAGES                   what it sees as /home, /opt/mnrun, /images
#   ADDRESS   its address                BARE      words to remove from it, if any
#   CGROUPS   its control groups, if it has its own
set -eu
node=$1
root=$PLACE/root

mount --make-rprivate /
mount -t overlay -o "lowerdir=$LOWER,upperdir=$PLACE/upper,workdir=$PLACE/spare" node "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
if [ -n "$CGROUPS" ]; then
    for group in $CGROUPS; do echo $$ > "$group/cgroup.procs"; done
elif [ -d /sys/fs/cgroup ]; then
    # Whatever controllers this machine offers, of the first or second kind.
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    # Podman's crun takes either kind, and not both.
    umount "$root/sys/fs/cgroup/unified" 2> /dev/null || true
fi
mount -t tmpfs -o mode=755 run "$root/run"
# Not on the overlay: containers put overlays of their own there, and those do not stack.
mount --bind "$PLACE/tmp" "$root/tmp"
mount --bind "$HOMES" "$root/home"
mount --bind "$MNRUN" "$root/opt/mnrun"
mount -o remount,bind,ro "$root/opt/mnrun"
mount --bind "$IMAGES" "$root/images"
mount -o remount,bind,ro "$root/images"

mount -t tmpfs -o mode=755 dev "$root/dev"
cd "$root/dev"
device() { mknod -m "$2" "$1" c "$3" "$4"; }
device null 666 1 3
device zero 666 1 5
device full 666 1 7
device random 666 1 8
device urandom 666 1 9
device tty 666 5 0
device fuse 666 10 229
device loop-control 600 10 237
# Stand-ins: Slurm wants a file per GPU, and lets a job open its own alone. There is no driver behind them:
# who may open one hears "No such device", and who may not "Operation not permitted".
for gpu in 0 1 2 3; do device "nvidia$gpu" 666 195 "$gpu"; done
mkdir pts shm mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts pts
mount -t tmpfs -o mode=1777 shm shm
mount -t mqueue mqueue mqueue
ln -s pts/ptmx ptmx
ln -s /proc/self/fd fd
ln -s fd/0 stdin
ln -s fd/1 stdout
ln -s fd/2 stderr

for word in $BARE; do rm -f "$root/usr/bin/$word"; done
echo "$node" > /proc/sys/kernel/hostname
echo "$node" > "$root/etc/hostname"
echo "ADDRESS=$ADDRESS" > "$root/etc/rehearsal/node"

mkdir "$root/.old"
cd "$root"
pivot_root . .old
# In a namespace of control groups too: it takes where it is for the root of all of them.
# shellcheck disable=SC2086
exec ${CGROUPS:+/usr/bin/unshare --cgroup} /usr/sbin/chroot . \
    /usr/bin/env -i PATH="$PATH" LANG=C.UTF-8 /bin/sh /etc/rehearsal/settle.sh $CGROUPS
