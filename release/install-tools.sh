#!/usr/bin/env bash
# Installs the tools of settings.sh that cargo builds into target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
for tool in "${CARGO_TOOLS[@]}"; do
    has_tool "$tool" && continue
    # Unoptimised they are built sooner, and are fast enough.
    env CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$PWD/target/tools/build" \
        cargo install --locked --profile dev --root target/tools "$tool"
done
rm -rf target/tools/build
