#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager and kube-scheduler, the versions that go.mod names, into the
# directory given, unless they are there. Takes some nine minutes of two cores once, two of them for the last two
# programs; Go as tests/golang/find.sh finds it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
version=v1.34.4
key=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -d' ' -f1)
complete=yes
for program in etcd kube-apiserver kube-controller-manager kube-scheduler; do [ -x "$into/$program" ] || complete=; done
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ] && [ "$complete" ]; then exit 0; fi

go=$("$here/../golang/find.sh" "$into")

echo "building etcd and the control plane of Kubernetes $version (once, some minutes)"
cd "$here"
minor=${version#v1.}
package=k8s.io/component-base/version
CGO_ENABLED=0 GOFLAGS=-mod=readonly "$go" build -trimpath -o "$into/" \
  -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" tool
mv "$into/server" "$into/etcd"
echo "$key" > "$into/key"
