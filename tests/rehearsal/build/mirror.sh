#!/bin/sh
# mirror.sh SUITE: a part of Debian's archive, with its signature, in /out: what debootstrap takes for its smallest system.
set -eu
suite=$1
arch=$(dpkg --print-architecture)
archive=$(sed -n "s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) $suite main.*/\2/p" /etc/apt/sources.list | head -n 1)
[ "$archive" ] || { echo 'no mirror found in sources.list' >&2; exit 1; }

take() { # PATH
    mkdir -p "/out/${1%/*}"
    /usr/lib/apt/apt-helper -qq download-file "$archive/$1" "/out/$1"
}

take "dists/$suite/InRelease"
take "dists/$suite/main/binary-$arch/Packages.gz"
mkdir /tmp/root
# The words of `apptainer build` (Bootstrap: debootstrap).
names=$(debootstrap --variant=minbase --exclude=openssl,udev,debconf-i18n,e2fsprogs --include=apt --print-debs "$suite" /tmp/root "$archive")
for name in $names; do printf '%s\n' "$name"; done >/tmp/names
zcat "/out/dists/$suite/main/binary-$arch/Packages.gz" |
    awk 'NR == FNR { wanted[$1]; next } /^Package: / { name = $2 } /^Filename: / && name in wanted { print $2 }' /tmp/names - |
    while read -r path; do take "$path"; done
[ -d /out/pool ]
