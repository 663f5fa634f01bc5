#!/usr/bin/env bash
# Checks that the command depends on no C++, no loader of libraries, and neither graph nor core.
# This takes a second, so .ci/run does it too.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh

forbidden='^(fluxqueue|fluxqueue-core|fluxqueue-machine|fluxqueue-planner|fluxion-[a-z]+) '
forbidden+='|^(libloading|link-cplusplus|cxx|bindgen|openssl-sys|aws-lc-sys) '
for machine in $MACHINES; do
    tree=$(cargo tree --locked -p kubectl-fluxqueue --edges normal,build --prefix none \
        --target "$machine-unknown-linux-musl")
    grep -q '^rustls ' <<<"$tree" || fail "cargo tree does not show the crates: $tree"
    ! grep -E "$forbidden" <<<"$tree" >&2 ||
        fail "kubectl-fluxqueue for $machine must not depend on these"
done
# The check finds crates where they are.
count=$(cargo tree --locked -p fluxqueue --edges normal --prefix none | grep -cE "$forbidden")
[[ $count -gt 5 ]] ||
    fail "the check would not find the forbidden crates of the scheduler"
echo "ok: the command has no C++, and no loader of libraries"
