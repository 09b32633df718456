#!/bin/sh
# chamber.sh ROOT MODE [SOURCE TARGET ro|rw]… -- COMMAND…
# Runs COMMAND in the tree ROOT, in mount and pid namespaces that end with it.
# MODE is `keep` (changes stay in the tree), `spare` (they go to a tmpfs and are lost), or a folder with
# `upper`, `spare` and `root` in it: they go to `upper`, as a layer over the tree.
set -eu
root=$1 mode=$2
shift 2

mount --make-rprivate /
if [ "$mode" != keep ]; then
    scratch=$mode
    if [ "$mode" = spare ]; then
        scratch=/run/mnrun/.chamber
        mkdir -p "$scratch"
        mount -t tmpfs -o size=80% chamber "$scratch"
        mkdir "$scratch/upper" "$scratch/spare" "$scratch/root"
    fi
    mount -t overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/spare" \
        chamber "$scratch/root"
    root=$scratch/root
fi
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty fuse; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
mount -t sysfs -o ro sysfs "$root/sys"
# Read-only, or a command that empties "its" resolv.conf empties the machine's.
for file in /etc/resolv.conf /etc/hosts; do
    [ -e "$root$file" ] || : > "$root$file"
    mount --bind "$file" "$root$file"
    mount -o remount,bind,ro "$root$file"
done
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}"; : >> "$root$2"; fi
    mount --rbind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
cd /
exec chroot "$root" "$@"
