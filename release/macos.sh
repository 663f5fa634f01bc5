#!/usr/bin/env bash
# Builds the command for macOS, on macOS: release/macos.sh FOLDER. `make release EXTRA=FOLDER` packs
# it.
set -euo pipefail
folder=$1
cd "$(dirname "$0")/.."
. release/settings.sh
[[ $(uname -s) == Darwin ]] || fail "only macOS links programs for macOS: this is $(uname -s)"
for machine in $MACHINES; do
    target=$machine-apple-darwin
    rustup target add "$target"
    CARGO_PROFILE_RELEASE_STRIP=symbols \
        cargo build --release --locked --target "$target" -p kubectl-fluxqueue
    mkdir -p "$folder/darwin-$(go_name "$machine")"
    cp "target/$target/release/kubectl-fluxqueue" "$folder/darwin-$(go_name "$machine")/"
done
