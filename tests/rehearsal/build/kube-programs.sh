#!/bin/sh
# Kubernetes 1.20.2 from Debian 12's source package, whose later ones have kubectl alone; the programs go to
# /out/usr/local/bin. It runs in a spare of Debian 13, and takes 12 minutes of one core.
set -eu
export DEBIAN_FRONTEND=noninteractive
mirror=$(sed -n 's/^deb \([^ ]*\) [a-z]* main.*/\1/p' /etc/apt/sources.list | head -n 1)
printf 'deb %s bookworm main\ndeb-src %s bookworm main\n' "$mirror" "$mirror" >/etc/apt/sources.list.d/older.list
printf 'Package: *\nPin: release n=bookworm\nPin-Priority: 50\n' >/etc/apt/preferences.d/older
apt-get -q update
apt-get -q install -y --no-install-recommends golang-1.19-go golang-github-modern-go-reflect2-dev dpkg-dev \
    make rsync jq gcc libc6-dev
cd /build
apt-get -q source --download-only kubernetes/bookworm
dpkg-source --no-check -x kubernetes_*.dsc source
cd source
# The reflect2 that it brings crashes with a Go after 1.17, which Debian 12 has alone. Its newer one does not.
rm vendor/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go /usr/share/gocode/src/github.com/modern-go/reflect2/*.s \
    vendor/github.com/modern-go/reflect2/
# This kubelet lets a deleted pod go when it collects its sandbox, which it does once a minute. Later ones do not wait for that.
sed -i 's/ContainerGCPeriod = time.Minute/ContainerGCPeriod = 2 * time.Second/' pkg/kubelet/kubelet.go
# Clients want to know which version they speak with, and there is no git here that says it.
cat >/build/version <<END
KUBE_GIT_COMMIT=faecb196815e248d3ecfb03c680a4507229c2a56
KUBE_GIT_TREE_STATE=clean
KUBE_GIT_VERSION=v1.20.2
KUBE_GIT_MAJOR=1
KUBE_GIT_MINOR=20
END
mkdir -p .go/src/k8s.io /build/home
ln -s ../../.. .go/src/k8s.io/kubernetes
export GOPATH="$PWD/.go" GOROOT=/usr/lib/go-1.19 PATH="/usr/lib/go-1.19/bin:$PATH" HOME=/build/home
export CGO_ENABLED=0 GOPROXY=off GOFLAGS=-p=2 GOMAXPROCS=2 GOTOOLCHAIN=local KUBE_GIT_VERSION_FILE=/build/version
make generated_files
for name in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    make "WHAT=cmd/$name"
    install -D "_output/bin/$name" "/out/usr/local/bin/$name"
done
gcc -Os -static -s -o /out/usr/local/bin/pause build/pause/linux/pause.c
