#!/usr/bin/env bash
# Installs Rust's standard libraries for the targets of a release.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
for machine in $MACHINES; do
    rustup target add "$machine-unknown-linux-gnu" "$machine-unknown-linux-musl"
done
