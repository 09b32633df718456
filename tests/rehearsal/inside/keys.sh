#!/bin/sh
# Keys of one cluster, made in /keys.
set -eu
cd /keys
for name in ssh_host_ed25519_key alice bob carol; do
    ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$name"
done
# What a registry on the login node shows, of a CA that all nodes trust.
new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch"
$new -x509 -days 3650 -subj /CN=rehearsal -keyout ca.key -out ca.pem
$new -subj /CN=login -keyout registry.key -out registry.csr
echo subjectAltName=DNS:login > names
openssl x509 -req -in registry.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile names -out registry.pem
