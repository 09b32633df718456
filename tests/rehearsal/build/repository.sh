#!/bin/sh
# repository.sh PACKAGE…
# A repository of these packages and what they need within the tree, and no other: apt works in an image that is built from
# it without a network.
set -eu
apt-get -q update
install -d /srv/debian/partial
cd /srv/debian
apt-get -qy --no-install-recommends --download-only -o Dir::Cache::archives=/srv/debian install "$@"
rm -rf partial lock
for package in *.deb; do
    dpkg-deb --field "$package"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$package" "$(stat -c %s "$package")" \
        "$(sha256sum "$package" | cut -d' ' -f1)"
done >Packages
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
echo 'deb [trusted=yes] file:/srv/debian ./' >/etc/apt/sources.list
