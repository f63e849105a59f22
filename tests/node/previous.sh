#!/usr/bin/env bash
# Builds the images of an earlier commit into `previous` of the directory that images.sh has filled, unless they are there,
# and puts the files `deploy` of that commit beside them. The commit needs another version than this one, since versions
# are tags of images. Takes some two minutes, once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
into=$(mkdir -p "${1:?directory}/previous" && cd "$1/previous" && pwd)
# The last commit of 0.1.0; a release replaces it by its tag.
commit=${DEVICESHARE_PREVIOUS_RELEASE:-f3c2b399ac2c}
if [ "$(cat "$into/commit" 2> /dev/null)" = "$commit" ]; then exit 0; fi
if ! git -C "$top" rev-parse --verify --quiet "$commit^{commit}" > /dev/null; then
  echo "commit $commit is not in the history of this checkout: the tests of upgrades are skipped" >&2
  exit 0
fi
rm -rf "$into/commit" "$into/deploy"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$top" archive "$commit" | tar -x -C "$work"
# What was built for this commit is used again: the base image, and layers with the same packages.
mkdir -p "$work/tests/node"
cp "$here/images.sh" "$work/tests/node/"
ln -s "$top/.venv" "$work/.venv"
ln -sfn ../store "$into/store"
ln -sfn ../base.tar "$into/base.tar"
"$work/tests/node/images.sh" "$into"
cp -r "$work/deploy" "$into/deploy"
echo "$commit" > "$into/commit"
