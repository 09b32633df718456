#!/bin/sh
# registry.sh: two registries on the login node, filled on their first start: `login:5000` is open, `login:5001` lets alice in
# with the password `open sesame`, and the name `$oauthtoken` with a key, as some registries have it. Their certificate is
# of a CA that all nodes trust. Fine if they run.
#     mpi/ompi5:1            /images/ompi5.sif as one layer
#     small:1 small:2        little more than a shell; two that differ
set -eu
home=/var/lib/rehearsal
mkdir -p "$home"
cd "$home"

serve() { # NAME PORT [MORE]
    cat > "$1.yml" << END
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: $home/store}, delete: {enabled: true}}
http: {addr: ":$2", tls: {certificate: /etc/rehearsal/registry.pem, key: /etc/rehearsal/registry.key}}
${3-}
END
    setsid docker-registry serve "$1.yml" > "$1.log" 2>&1 < /dev/null &
    echo "$!" > "$1.pid"
}

runs() { [ -e "$1.pid" ] && kill -0 "$(cat "$1.pid")" 2> /dev/null; }

answers() { # PORT
    for _ in $(seq 100); do
        if nc -z login "$1" 2> /dev/null; then return; fi
        sleep 0.1
    done
    cat ./*.log >&2
    exit 1
}

small() { # VERSION: enough for a rank that is a shell script
    rm -rf tree
    mkdir -p tree/usr/bin tree/usr/lib tree/etc tree/tmp tree/proc tree/sys tree/dev tree/opt
    ln -s usr/bin tree/bin
    ln -s usr/lib tree/lib
    ln -s usr/lib tree/lib64
    echo "$1" > tree/etc/version
    : > tree/etc/passwd
    : > tree/etc/group
    for program in sh bash cat sleep readlink head tail wc mkdir env sed grep uname id date test true; do
        cp -L "/usr/bin/$program" tree/usr/bin
    done
    ldd tree/usr/bin/* | grep -o '/[^ ]*' | grep '^/lib' | sort -u | while read -r library; do cp -L "$library" tree/usr/lib; done
}

push() { # NAME: the tree, as an image of one layer; not compressed, which is quicker here
    tar -C tree --numeric-owner -cf layer.tar .
    rm -rf tree
    /usr/bin/python3 -IS /etc/rehearsal/oci.py oci layer.tar
    # An old skopeo has no word for it, and keeps them.
    keep=--preserve-digests
    skopeo copy --help | grep -q -e "$keep" || keep=
    skopeo copy -q $keep "oci:oci" "docker://login:5000/$1"
    rm -rf oci
}

if ! runs open; then serve open 5000; fi
answers 5000
if [ ! -e full ]; then
    for version in 1 2; do
        small "$version"
        push "small:$version"
    done
    offset=$(grep -abom1 hsqs /images/ompi5.sif | cut -d: -f1)
    unsquashfs -q -n -o "$offset" -d tree /images/ompi5.sif > /dev/null
    rm -rf tree/.singularity.d tree/singularity tree/environment tree/.run tree/.exec tree/.shell tree/.test tree/.env
    push mpi/ompi5:1
    htpasswd -Bbc users alice 'open sesame' 2> /dev/null
    htpasswd -Bb users "\$oauthtoken" 'a key' 2> /dev/null
    touch full
fi
# the same store, behind a door
runs login || serve login 5001 "auth: {htpasswd: {realm: rehearsal, path: $home/users}}"
answers 5001
