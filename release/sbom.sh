#!/usr/bin/env bash
# Lists what the programs and the image are made of, as CycloneDX 1.5: release/sbom.sh OUT
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh
# cargo-cyclonedx writes beside each Cargo.toml, so it gets sources of its own.
sources=$out/work/sources
tools=$PWD/target/tools/bin
rm -rf "$sources"
mkdir -p "$sources"
git archive HEAD | tar --extract --directory "$sources"

# sbom PACKAGE_FOLDER TARGET OUTPUT
sbom() {
    (
        cd "$sources"
        PATH=$tools:$PATH cargo cyclonedx --quiet --manifest-path "$1/Cargo.toml" --target "$2" \
            --format json --spec-version 1.5 --override-filename bom 2> "$out/work/sbom.log"
    ) || fail "cargo-cyclonedx for $1: $(cat "$out/work/sbom.log")"
    # References have the path of the sources.
    sed "s|path+file://$sources|path+file:///fluxqueue|g" "$sources/$1/bom.json" | jq . > "$3"
}

# The components of Debian's packages in the image of one machine, as a list.
debian_components() {
    local arch=$1 name version arch_of sum
    while read -r name version arch_of sum; do
        [[ $arch_of == "$arch" || $arch_of == all ]] || continue
        local purl="pkg:deb/debian/${name/++/%2B%2B}@${version}?arch=$arch_of&distro=debian-12"
        jq --null-input --arg name "$name" --arg version "$version" --arg sum "$sum" \
            --arg purl "$purl" \
            '{type: "library", "bom-ref": $purl, name: $name, version: $version, purl: $purl,
              hashes: [{alg: "SHA-256", content: $sum}]}'
    done < <(grep -v '^#' release/debian.lock) | jq --slurp .
}

for machine in $MACHINES; do
    arch=$(go_name "$machine")
    sbom kubectl-fluxqueue "$machine-unknown-linux-musl" \
        "$out/kubectl-fluxqueue-$VERSION-linux-$arch.cdx.json"
    sbom . "$machine-unknown-linux-gnu" "$out/work/program.json"
    jq --argjson debian "$(debian_components "$arch")" '.components += $debian' \
        "$out/work/program.json" > "$out/fluxqueue-$VERSION-image-linux-$arch.cdx.json"
done
rm -rf "$sources"
