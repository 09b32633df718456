#!/bin/sh
# Start Kubernetes' daemons of a node: etcd and the control plane on the login node, dockerd and a kubelet on each other.
# shellcheck disable=SC2153,SC2154  # variables of the settings
set -eu
node=$1
conf=/etc/rehearsal/kube
# shellcheck source=/dev/null
. "$conf/settings"
# shellcheck source=/dev/null
. /etc/rehearsal/node
logs=/var/log/kube
export HOME=/root
mkdir -p "$logs" /root/.kube

wait_for() {
    for _ in $(seq 600); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "kube: gave up waiting for: $*" >&2
    exit 1
}

daemon() { # PROGRAM WORDS…
    setsid "$@" >> "$logs/$1.log" 2>&1 < /dev/null &
}

config() { # USER [CA]: on stdout
    if [ "${2-}" ]; then trust="certificate-authority-data: $(base64 -w 0 "$2")"; else trust='insecure-skip-tls-verify: true'; fi
    cat << END
apiVersion: v1
kind: Config
clusters: [{name: rehearsal, cluster: {server: "https://$server", $trust}}]
users: [{name: $1, user: {token: token-of-$1}}]
contexts: [{name: lab, context: {cluster: rehearsal, user: $1, namespace: lab}}]
current-context: lab
END
}

routes() {
    echo 1 > /proc/sys/net/ipv4/ip_forward
    while read -r other net address; do
        [ "$other" = "$node" ] || ip route add "$net" via "$address"
    done < "$conf/pods"
    # The only service with an address of its own is the API server's: there is no kube-proxy.
    if [ "$node" = login ]; then ip address add 10.96.0.1/32 dev lo; else ip route add 10.96.0.0/16 via "$server"; fi
}

control_plane() {
    place=/var/lib/kubernetes
    mkdir -p "$place"
    cd "$place"
    [ -e key ] || openssl genrsa -out key 2048 2> /dev/null
    config root > /root/.kube/config
    daemon etcd --data-dir /var/lib/etcd --unsafe-no-fsync --log-level warn
    daemon kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir="$place" --secure-port=443 \
        --bind-address=0.0.0.0 --advertise-address="$server" --service-cluster-ip-range=10.96.0.0/16 \
        --service-account-key-file=key --service-account-signing-key-file=key \
        --service-account-issuer=https://kubernetes.default.svc --token-auth-file="$conf/tokens" \
        --authorization-mode=RBAC --allow-privileged=true --kubelet-preferred-address-types=InternalIP \
        --default-not-ready-toleration-seconds="$eviction" --default-unreachable-toleration-seconds="$eviction" \
        --feature-gates=TTLAfterFinished=true
    wait_for kubectl get --raw /readyz
    daemon kube-controller-manager --kubeconfig=/root/.kube/config --leader-elect=false --port=0 --cert-dir="$place" \
        --bind-address=127.0.0.1 --service-account-private-key-file=key --root-ca-file=apiserver.crt \
        --node-monitor-grace-period="${grace}s" --feature-gates=TTLAfterFinished=true
    daemon kube-scheduler --kubeconfig=/root/.kube/config --leader-elect=false --port=0 --cert-dir="$place" \
        --bind-address=127.0.0.1
    for user in $users; do
        [ "$user" != root ] || continue
        install -d -m 700 -o "$user" -g "$user" "/home/$user/.kube"
        config "$user" apiserver.crt > "/home/$user/.kube/config"
        chown "$user:$user" "/home/$user/.kube/config"
        chmod 600 "/home/$user/.kube/config"
    done
    kubectl apply -f "$conf/lab.yaml"
    for name in dns mpi_operator; do
        (cd "$conf/lib" && exec setsid /usr/bin/python3 -S -m "kube.$name" "$server" "$token") > "$logs/$name.log" 2>&1 < /dev/null &
    done
    touch /run/kube
}

# kubelet sets these, which are the whole machine's, and is content with what it reads.
leave_alone() { # FILE=VALUE…
    mkdir -p /run/sysctl
    for pair; do
        copy=$(mktemp -p /run/sysctl)
        echo "${pair#*=}" > "$copy"
        mount --bind "$copy" "/proc/sys/${pair%=*}"
    done
}

images() {
    for image in $images; do
        docker image inspect "localhost/$image:1" > /dev/null 2>&1 && continue
        docker load -q -i "/images/$image.docker"
        docker tag "localhost/$image" "localhost/$image:1"
    done
    tar -C /usr/local/bin -c pause | docker import -c 'ENTRYPOINT ["/pause"]' - localhost/pause:1
}

worker() {
    net=$(sed -n "s/^$node \([^ ]*\) .*/\1/p" "$conf/pods")
    mkdir -p /etc/cni/net.d /var/lib/kubelet
    cat > /etc/cni/net.d/10-pods.conf << END
{"cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "subnet": "$net", "routes": [{"dst": "0.0.0.0/0"}]}}
END
    mknod -m 600 /dev/kmsg c 1 11
    mount -t tmpfs -o mode=755 kubelet /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
    leave_alone vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000
    # Data on a tmpfs: overlays do not stack on the node's own.
    daemon dockerd --iptables=false --ip6tables=false --bridge=none --data-root /run/docker.data \
        --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="/mnrun.$cluster/$node" \
        --add-runtime plain=/usr/local/sbin/runc-plain --default-runtime plain
    wait_for docker version
    images
    config root > /root/.kube/config
    { cat "$conf/kubelet.yaml" && echo "clusterDNS: [$server]" && echo "nodeLeaseDurationSeconds: $grace"; } \
        > /var/lib/kubelet/config.yaml
    wait_for nc -z "$server" 443
    daemon kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/root/.kube/config --container-runtime=docker \
        --network-plugin=cni --cni-bin-dir=/usr/lib/cni --cni-conf-dir=/etc/cni/net.d --cni-cache-dir=/run/cni \
        --pod-infra-container-image=localhost/pause:1 --hostname-override="$node" --node-ip="$ADDRESS"
}

routes
if [ "$node" = login ]; then control_plane; else worker; fi
