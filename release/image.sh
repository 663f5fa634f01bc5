#!/usr/bin/env bash
# Writes the image as an OCI layout, with Debian's libraries and the programs of both machines:
# release/image.sh OUT
#
# Debian's packages are those of debian.lock, by checksum. `make release-packages` takes newer ones.
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."
. release/settings.sh
work=$out/work/image
debs=target/debian
regctl=$PWD/release/tools/bin/regctl
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

labels=(
    org.opencontainers.image.title=fluxqueue
    "org.opencontainers.image.description=$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)"
    org.opencontainers.image.licenses=MIT
    "org.opencontainers.image.version=$VERSION"
    "org.opencontainers.image.revision=$(git rev-parse HEAD)"
    "org.opencontainers.image.source=${RELEASES%/releases}"
)
label_flags=()
for label in "${labels[@]}"; do label_flags+=(--label "$label"); done

rm -rf "$work" "$out/image"
mkdir -p "$work"
release/packages.sh fetch "$debs"

# Unpacks Debian's packages into a folder, as an image needs them: base MACHINE FOLDER
base() {
    local machine=$1 root=$2 arch file name arch_of sum
    arch=$(go_name "$machine")
    mkdir -p "$root"/{etc,tmp,var/lib/dpkg/status.d,home/nonroot}
    while read -r name _ arch_of sum; do
        [[ $arch_of == "$arch" || $arch_of == all ]] || continue
        file=$debs/$sum.deb
        dpkg-deb --extract "$file" "$root"
        # Scanners of images look here for what is installed.
        dpkg-deb --field "$file" > "$root/var/lib/dpkg/status.d/$name"
    done < <(grep -v '^#' release/debian.lock)
    # Documentation, but for copyrights; and character sets that only iconv reads.
    find "$root/usr/share/doc" -mindepth 2 \( -type f -o -type l \) ! -name copyright -delete
    rm -rf "$root"/usr/share/{lintian,man,locale} "$root"/usr/lib/*-linux-gnu/gconv \
        "$root"/etc/ca-certificates "$root"/usr/sbin
    find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
    # The packages' own scripts do not run: they would make the file of certificates, and the cache
    # of the loader, which does without it.
    mkdir -p "$root/etc/ssl/certs"
    chmod 1777 "$root/tmp"
    find "$root/usr/share/ca-certificates" -name '*.crt' | LC_ALL=C sort | xargs cat \
        > "$root/etc/ssl/certs/ca-certificates.crt"
    cat > "$root/etc/passwd" <<PASSWD
root:x:0:0:root:/root:/sbin/nologin
nonroot:x:$NOBODY:$NOBODY:nonroot:/home/nonroot:/sbin/nologin
PASSWD
    printf 'root:x:0:\nnonroot:x:%s:\n' "$NOBODY" > "$root/etc/group"
    echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
}

for machine in $MACHINES; do
    arch=$(go_name "$machine")
    base "$machine" "$work/$arch-base"
    program=$work/$arch-program
    mkdir -p "$program/usr/local/bin" "$program/licenses/fluxqueue"
    cp "$out/work/programs/$machine/fluxqueue" "$program/usr/local/bin/"
    cp LICENSE "$out/THIRD-PARTY-fluxqueue.txt" "$program/licenses/fluxqueue/"
    archive "$work/$arch-base.tar" "$work/$arch-base"
    archive "$work/$arch-program.tar" "$work/$arch-program"

    ref=ocidir://$work/layout:$arch
    "$regctl" image create "$ref" --platform "linux/$arch" --created "$created" > "$work/digest"
    "$regctl" image mod "$ref" --replace \
        --layer-add "tar=$work/$arch-base.tar" --layer-add "tar=$work/$arch-program.tar" \
        --user "$NOBODY:$NOBODY" --workdir / \
        --env PATH=/usr/local/bin --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        --config-entrypoint '["/usr/local/bin/fluxqueue"]' --config-cmd '["run"]' \
        "${label_flags[@]}" > "$work/digest"
done

refs=()
for machine in $MACHINES; do refs+=(--ref "ocidir://$work/layout:$(go_name "$machine")"); done
annotations=()
for label in "${labels[@]}"; do annotations+=(--annotation "$label"); done
"$regctl" index create "ocidir://$work/layout:$VERSION" "${refs[@]}" "${annotations[@]}"
# Only what the index names is copied.
"$regctl" image copy "ocidir://$work/layout:$VERSION" "ocidir://$out/image:$VERSION" \
    > "$work/digest"
# regctl notes the time of the copy.
jq --compact-output --arg created "$created" \
    '.manifests[].annotations["org.opencontainers.image.created"] = $created' \
    "$out/image/index.json" > "$work/index.json"
mv "$work/index.json" "$out/image/index.json"
chmod -R u+rw,go=rX "$out/image"
archive "$out/fluxqueue-$VERSION-image.tar" "$out/image"
