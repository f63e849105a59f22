#!/usr/bin/env bash
# Builds the programs of go.mod for the tests into the directory given, unless they are there: Helm, kustomize, a validator
# of compose files, actionlint and kubectl. Takes one to five minutes once, less if kube-apiserver was built before: they share
# packages. Go as tests/golang/find.sh finds it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
key=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" "$here/kubectl/main.go" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ] && [ -x "$into/helm" ] && [ -x "$into/compose" ]; then exit 0; fi

go=$("$here/../golang/find.sh" "$into")

echo "building Helm, kustomize, a validator of compose files, actionlint and kubectl (once, some minutes)"
cd "$here"
# The Kubernetes version that `helm template` assumes: that of the modules.
package=helm.sh/helm/v3/pkg/chartutil
CGO_ENABLED=0 GOFLAGS=-mod=readonly "$go" build -trimpath -o "$into/" \
  -ldflags "-s -w -X $package.k8sVersionMajor=1 -X $package.k8sVersionMinor=34" tool ./kubectl
mv "$into/cmd" "$into/compose"
echo "$key" > "$into/key"
