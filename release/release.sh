#!/usr/bin/env bash
# Makes a release of the commit that is checked out, as `make release` does:
# release/release.sh [OUT [TARGET_DIR]]
#
# It needs no network but the registries of packages, and publishes nothing. docs/releasing.md says
# what it makes.
#   RELEASES=URL   the page of releases (settings.sh)
#   EXTRA=FOLDER   has the command for macOS (release/macos.sh), which becomes part of the release
#   DIRTY=1        tries a work tree with changes. The release is then not what its commit says
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
out=$(realpath -m "${1:-target/release-$VERSION}")
target_dir=$(realpath -m "${2:-target/release-build}")

step() { printf '\n=== release: %s (%s s)\n' "$*" "$SECONDS"; }

release/tools.sh
[[ -n ${DIRTY:-} || -z $(git status --porcelain) ]] ||
    fail "the work tree has changes: commit or stash them, or say DIRTY=1 to try something"
chart_version=$(sed -n 's/^version: //p' manifests/chart/Chart.yaml)
[[ $chart_version == "$VERSION" ]] ||
    fail "manifests/chart/Chart.yaml: version: it is $chart_version, and $VERSION in Cargo.toml"
rm -rf "$out"
mkdir -p "$out/work"

step "programs"
release/binaries.sh "$target_dir" "$out"

step "third-party notices"
release/notices.sh "$out"

step "archives of the programs"
# pack NAME SYSTEM PROGRAM
pack() {
    local folder=$out/work/$1-$2
    mkdir -p "$folder"
    cp "$3" "$folder/$1"
    chmod 755 "$folder/$1"
    cp LICENSE "$folder/"
    cp "$out/THIRD-PARTY-$1.txt" "$folder/THIRD-PARTY.txt"
    archive_gz "$out/$1-$VERSION-$2.tar.gz" "$folder" "$1" LICENSE THIRD-PARTY.txt
}
for machine in $MACHINES; do
    arch=$(go_name "$machine")
    for program in kubectl-fluxqueue fluxqueue; do
        pack "$program" "linux-$arch" "$out/work/programs/$machine/$program"
    done
    if [[ -n ${EXTRA:-} ]]; then
        pack kubectl-fluxqueue "darwin-$arch" "$EXTRA/darwin-$arch/kubectl-fluxqueue"
    fi
done

step "image"
release/image.sh "$out"

step "chart and manifests"
release/manifests.sh "$out"

step "manifest for krew"
release/krew.sh "$out"

step "lists of contents (SBOM)"
release/sbom.sh "$out"

rm -rf "$out/work"
(
    cd "$out"
    files=$(find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort)
    # shellcheck disable=SC2086 # No name has a space.
    sha256sum $files > SHA256SUMS
)
step "done: $out"
cat "$out/SHA256SUMS"
[[ $RELEASES != *.example/* ]] ||
    echo "release: a trial: RELEASES is not set, so its links lead to $RELEASES" >&2
