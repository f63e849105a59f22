#!/usr/bin/env bash
# Builds etcd and kube-apiserver, the versions that go.mod names, into the directory given, unless they are there.
# Takes some seven minutes of two cores once; Go as tests/golang/find.sh finds it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
version=v1.34.4
key=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ] && [ -x "$into/etcd" ] && [ -x "$into/kube-apiserver" ]; then exit 0; fi

go=$("$here/../golang/find.sh" "$into")

echo "building etcd and kube-apiserver $version (once, some minutes)"
cd "$here"
minor=${version#v1.}
package=k8s.io/component-base/version
CGO_ENABLED=0 GOFLAGS=-mod=readonly "$go" build -trimpath -o "$into/" \
  -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" tool
mv "$into/server" "$into/etcd"
echo "$key" > "$into/key"
