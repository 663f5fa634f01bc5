#!/usr/bin/env bash
# Makes the release a second time, from a clone elsewhere with crates and a target folder of its
# own, and compares all checksums, as `make release-twice` does.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
first=$PWD/target/release-$VERSION
[[ -e $first/SHA256SUMS ]] || fail "$first has no release: run \`make release\`"
[[ -z $(git status --porcelain) ]] ||
    fail "the work tree has changes, which the clone would lack: commit or stash them"
index=$(jq -r '.manifests[0].digest' "$first/image/index.json")
revision=$(jq -r '.annotations["org.opencontainers.image.revision"]' \
    "$first/image/blobs/${index/://}")
[[ $revision == "$(git rev-parse HEAD)" ]] ||
    fail "$first is a release of $revision, which is not checked out: \`make release\`"
second=$(mktemp -d "${TMPDIR:-/tmp}/fluxqueue-second-XXXXXX")
trap 'rm -rf "$second"' EXIT

git clone --quiet --no-hardlinks "$PWD" "$second/source"
# The tools are the same. Debian's packages are fetched again, and so are the crates.
mkdir -p "$second/source/target"
ln -s "$PWD/target/tools" "$second/source/target/tools"
for bin in release/tools/bin tests/helm/bin; do ln -s "$PWD/$bin" "$second/source/$bin"; done
(
    cd "$second/source"
    # An empty folder for cargo: crates are fetched again, to another path.
    env CARGO_HOME="$second/cargo" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        RELEASES="$RELEASES" EXTRA="${EXTRA:-}" release/release.sh "$second/out" "$second/build"
)
if ! diff "$first/SHA256SUMS" "$second/out/SHA256SUMS"; then
    mkdir -p target/release-differs
    cp -r "$second/out/." target/release-differs/
    fail "the two releases differ; the second is in target/release-differs"
fi
echo "release: both releases of $COMMIT have equal checksums"
