#!/usr/bin/env bash
# Builds Prometheus's promtool into the directory given, unless it is there, without the plugins for cloud providers,
# which take most of the time. Takes some minutes once; Go as tests/golang/find.sh finds it. Go verifies the module by its
# checksum database, and its dependencies by the module's go.sum.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
module=github.com/prometheus/prometheus@v0.305.0
key=$(sha256sum < "$here/build.sh" | cut -d' ' -f1)
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ] && [ -x "$into/promtool" ]; then exit 0; fi

go=$("$here/../golang/find.sh" "$into")

echo "building promtool of $module (once, some minutes)"
found=$(cd "$into" && "$go" mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
rm -rf "$into/source"
cp -r "$found" "$into/source"
chmod -R u+w "$into/source"
rm "$into/source/plugins/plugins.go"  # plugins/minimum.go stays
(cd "$into/source" && CGO_ENABLED=0 GOFLAGS=-mod=readonly "$go" build -trimpath -ldflags "-s -w" -o "$into/" ./cmd/promtool)
rm -rf "$into/source"
echo "$key" > "$into/key"
