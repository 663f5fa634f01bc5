#!/usr/bin/env bash
# Builds an older commit and runs the test of the upgrade from it: release/upgrade.sh [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
# It is for releases. Crates with C, and all that depend on them, would be compiled again for it here,
# and once more by the next build without it.
unset SOURCE_DATE_EPOCH
commit=${1:-1b91024}
sources=$PWD/target/upgrade/$commit
git rev-parse --quiet --verify "$commit^{commit}" > /dev/null ||
    fail "there is no commit $commit here: git fetch --unshallow"
if [[ ! -e $sources/Cargo.toml ]]; then
    mkdir -p "$sources"
    git archive "$commit" | tar --extract --directory "$sources"
fi
# With the dependencies of both in one folder, most are compiled once.
target=$PWD/target
(
    cd "$sources"
    CARGO_TARGET_DIR=$target FLUXQUEUE_COMMIT=$commit cargo build --locked --bin fluxqueue
)
cp target/debug/fluxqueue "$sources/fluxqueue"
manifests=$sources/manifests
[[ ! -e $manifests/chart/files/crds ]] || manifests=$manifests/chart/files
FLUXQUEUE_OLD=$sources/fluxqueue FLUXQUEUE_OLD_MANIFESTS=$manifests \
    cargo test --workspace --locked --test cluster -- upgrade:: --ignored --nocapture
