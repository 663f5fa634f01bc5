#!/usr/bin/env bash
# Checks that a tag fits the sources, and prints the section of the changelog about its version:
# release/tag.sh v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
tag=${1:?usage: release/tag.sh TAG}
[[ $tag == "v$VERSION" ]] || fail "the tag is $tag, and Cargo.toml says $VERSION"
grep -qE "^## \[$VERSION\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading \`## [$VERSION] - YEAR-MONTH-DAY\`"
awk -v heading="## [$VERSION]" \
    'index($0, "## [") == 1 { on = index($0, heading) == 1; next } on' CHANGELOG.md
