#!/usr/bin/env bash
# Builds the programs of a node and its control plane, the versions that go.mod and coredns/go.mod name, into the directory
# given, unless they are there: kubelet, kube-controller-manager, kube-scheduler, kube-proxy, kubectl and CoreDNS. Takes some
# ten minutes of two cores once, less if kube-apiserver was built before: they share packages. Go as tests/golang/find.sh
# finds it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
version=v1.34.4
programs="kubelet kube-controller-manager kube-scheduler kube-proxy kubectl"
key=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" "$here"/coredns/{go.mod,go.sum,main.go} | sha256sum | cut -d' ' -f1)
complete=yes
for program in $programs coredns; do [ -x "$into/$program" ] || complete=; done
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ] && [ "$complete" ]; then exit 0; fi

go=$("$here/../golang/find.sh" "$into")

echo "building $programs $version and CoreDNS (once, some minutes)"
export CGO_ENABLED=0 GOFLAGS=-mod=readonly
minor=${version#v1.}
package=k8s.io/component-base/version
(cd "$here" && "$go" build -trimpath -o "$into/" \
  -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" tool)
(cd "$here/coredns" && "$go" build -trimpath -ldflags "-s -w" -o "$into/coredns" .)
echo "$key" > "$into/key"
