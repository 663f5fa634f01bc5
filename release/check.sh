#!/usr/bin/env bash
# Tests a release: release/check.sh [OUT [TARGET_DIR]], as `make release-test` does.
#
# Programs run here, in the image's own file system, and for the other machine under qemu. krew
# installs the command from the archives. Nothing is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh
out=$(realpath -m "${1:-target/release-$VERSION}")
target_dir=$(realpath -m "${2:-target/release-build}")
release/tools.sh test
[[ -e $out/SHA256SUMS ]] || fail "$out has no release: run \`make release\`"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

passed=0
ok() { passed=$((passed + 1)); echo "ok: $*"; }

# Prints the way to run programs of a machine on this one, which is empty for this machine's own.
emulator() { [[ $1 == "$(uname -m)" ]] || command -v "qemu-$1-static"; }

# Runs a command with its root in a folder: in_root MACHINE FOLDER COMMAND...
in_root() {
    local machine=$1 root=$2 emulator as_root=()
    shift 2
    [[ $EUID == 0 ]] || as_root=(unshare --map-root-user)
    emulator=$(emulator "$machine")
    if [[ -n $emulator ]]; then
        cp -n "$emulator" "$root/emulator"
        set -- /emulator "$@"
    fi
    timeout 60 "${as_root[@]}" env -i "$(command -v chroot)" "$root" "$@"
}

checksums() {
    (cd "$out" && sha256sum --check --quiet SHA256SUMS)
    local files named
    files=$(find "$out" -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort)
    named=$(sed 's/^[0-9a-f]*  //' "$out/SHA256SUMS" | sort)
    [[ $files == "$named" ]] || fail "SHA256SUMS does not name the files that there are"
    ok "SHA256SUMS names every file, with its checksum"
}

# The path of this checkout and of the home folder, in a program or text, say where it was built.
paths() {
    local path found
    mkdir "$work/paths"
    cp "$out"/*.{json,yaml,txt} "$work/paths/"
    for archive in "$out"/*.tar.gz "$out"/*.tgz; do
        mkdir "$work/paths/$(basename "$archive").d"
        tar --extract --file "$archive" --directory "$work/paths/$(basename "$archive").d"
    done
    for path in "$PWD" "$target_dir" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
        found=$(grep --recursive --files-with-matches --fixed-strings "$path" "$work/paths" || true)
        [[ -z $found ]] || fail "a path of this machine, $path, is in $found"
    done
    ok "no file has a path of this machine"
}

command_is_static() {
    local machine=$1 arch folder program version
    arch=$(go_name "$machine")
    folder=$work/command-$arch
    mkdir "$folder"
    tar --extract --file "$out/kubectl-fluxqueue-$VERSION-linux-$arch.tar.gz" --directory "$folder"
    program=$folder/kubectl-fluxqueue
    readelf --wide --file-header "$program" | grep -q "Machine:.*${machine/x86_64/X86-64}" ||
        readelf --wide --file-header "$program" | grep -iq "Machine:.*$machine" ||
        fail "$program is not for $machine"
    ! readelf --wide --dynamic "$program" | grep NEEDED || fail "$program needs libraries"
    ! readelf --wide --program-headers "$program" | grep INTERP || fail "$program needs a loader"
    # A root with nothing but the program.
    version=$(in_root "$machine" "$folder" /kubectl-fluxqueue --version)
    [[ $version == "kubectl-fluxqueue $VERSION" ]] || fail "$program does not run"
    [[ -s $folder/LICENSE && -s $folder/THIRD-PARTY.txt ]] || fail "the archive lacks its licences"
    ok "the command for $arch is static, and runs in an empty root"
}

# Unpacks the image of one machine from its layout, layer by layer: unpack ARCH FOLDER
unpack() {
    local arch=$1 root=$2 blobs=$out/image/blobs index manifest digest type found=() named filter
    index=$(jq -r '.manifests[0].digest' "$out/image/index.json")
    # shellcheck disable=SC2016 # jq has variables too.
    filter='.manifests[] | select(.platform.architecture == $arch).digest'
    manifest=$(jq -r --arg arch "$arch" "$filter" "$blobs/${index/://}")
    [[ -n $manifest ]] || fail "the image has no platform $arch"
    mkdir -p "$root"
    while read -r type digest; do
        [[ $type == application/vnd.oci.image.layer.v1.tar+gzip ]] ||
            fail "a layer for $arch has the type $type"
        gzip --decompress < "$blobs/${digest/://}" > "$work/layer.tar"
        found+=("sha256:$(sha256sum < "$work/layer.tar" | cut -d ' ' -f 1)")
        tar --extract --file "$work/layer.tar" --directory "$root"
    done < <(jq -r '.layers[] | .mediaType + " " + .digest' "$blobs/${manifest/://}")
    digest=$(jq -r '.config.digest' "$blobs/${manifest/://}")
    cp "$blobs/${digest/://}" "$work/config-$arch.json"
    named=$(jq -r '.rootfs.diff_ids | join(" ")' "$work/config-$arch.json")
    [[ ${found[*]} == "$named" ]] || fail "the layers for $arch are not those that it names"
}

image_layout() {
    local file name
    [[ $(jq -r .imageLayoutVersion "$out/image/oci-layout") == 1.0.0 ]] ||
        fail "image/oci-layout is wrong"
    [[ $(jq '.manifests | length' "$out/image/index.json") == 1 ]] ||
        fail "image/index.json names other things too"
    for file in "$out"/image/blobs/sha256/*; do
        name=$(basename "$file")
        [[ $(sha256sum < "$file") == "$name "* ]] || fail "$file is not what its name says"
    done
    mkdir "$work/layout"
    tar --extract --file "$out/fluxqueue-$VERSION-image.tar" --directory "$work/layout"
    diff -r "$work/layout" "$out/image" || fail "the archive of the image is not the image"
    ok "the image is an OCI layout, and its archive has the same"
}

image_runs() {
    local machine=$1 arch root glibc program version
    arch=$(go_name "$machine")
    root=$work/root-$arch
    unpack "$arch" "$root"
    program=$root/usr/local/bin/fluxqueue
    jq -e --arg user "$NOBODY:$NOBODY" --arg arch "$arch" \
        '.architecture == $arch and .config.User == $user and .config.Cmd == ["run"]
            and .config.Entrypoint == ["/usr/local/bin/fluxqueue"]' \
        "$work/config-$arch.json" > "$work/answer" ||
        fail "the configuration of the image for $arch is wrong: $(cat "$work/config-$arch.json")"
    glibc=$(readelf --wide --version-info "$program" | grep -o 'GLIBC_2[0-9.]*' | cut -d _ -f 2)
    glibc=$(sort --version-sort --reverse <<<"$glibc" | head -n 1)
    printf '%s\n' "$glibc" "$GLIBC" | sort --version-sort --check ||
        fail "fluxqueue for $arch asks for glibc $glibc, not $GLIBC: build it on Debian 12"
    version=$(in_root "$machine" "$root" /usr/local/bin/fluxqueue --version)
    [[ $version == *"$VERSION"*"$COMMIT"* ]] ||
        fail "fluxqueue --version says $version, and not $VERSION $COMMIT"
    grep -q 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt" ||
        fail "the image for $arch has no certificates"
    for file in LICENSE THIRD-PARTY-fluxqueue.txt; do
        [[ -s $root/licenses/fluxqueue/$file ]] || fail "the image lacks /licenses/fluxqueue/$file"
    done
    while read -r name _; do
        [[ -s $root/usr/share/doc/$name/copyright ]] ||
            fail "the image lacks the copyright of $name"
        grep -qFx "Package: $name" "$root/var/lib/dpkg/status.d/$name" ||
            fail "the image does not say that it has $name"
    done < <(grep -v '^#' release/debian.lock)
    [[ -z $(find "$root" -name emulator -prune -o -perm /6022 -type f -print) ]] ||
        fail "the image has files that others may write, or setuid"
    ok "the image for $arch runs: $version"
}

# The process opens the library before anything else, and ends since there is no kubeconfig.
image_takes_a_library() {
    local machine=$1 arch root log
    arch=$(go_name "$machine")
    root=$work/root-$arch
    cp "$target_dir/$machine-unknown-linux-gnu/release/libfluxion_sys.so" "$root/tmp/"
    echo "no library" > "$root/tmp/text.so"
    run() {
        in_root "$machine" "$root" /usr/local/bin/fluxqueue run --leader-elect=false \
            --kubeconfig /nowhere --fluxion-library "$1" 2>&1 || return 0
        fail "fluxqueue for $arch runs without a kubeconfig"
    }
    log=$(run /tmp/libfluxion_sys.so)
    [[ $log == *"the resource graph is that of a library, with extensions"*kubeconfig* ]] ||
        fail "fluxqueue for $arch does not take a library: $log"
    log=$(run /tmp/text.so)
    [[ $log == *--fluxion-library*/tmp/text.so* ]] ||
        fail "fluxqueue for $arch takes a text for a library: $log"
    ok "in the image for $arch, fluxqueue takes the library libfluxion_sys.so, and refuses a text"
}

chart() {
    local objects
    objects=$(tests/helm/bin/helm template fluxqueue "$out/fluxqueue-$VERSION.tgz" \
        --namespace fluxqueue-system)
    grep -q "image: $IMAGE:$VERSION\$" <<<"$objects" ||
        fail "the chart does not name $IMAGE:$VERSION"
    grep -q "image: $IMAGE:$VERSION\$" "$out/fluxqueue.yaml" ||
        fail "fluxqueue.yaml does not name $IMAGE:$VERSION"
    [[ $(grep -c '^kind: CustomResourceDefinition' "$out/crds.yaml") == 2 ]] ||
        fail "crds.yaml has not two definitions"
    ! grep -q '^kind: CustomResourceDefinition' "$out/fluxqueue.yaml" ||
        fail "fluxqueue.yaml has definitions too"
    ok "chart and manifests name the image $IMAGE:$VERSION"
}

# Krew in a folder of its own, without its index.
krew() {
    KREW_ROOT=$work/krew-$1 KREW_OS=linux KREW_ARCH=$1 release/krew/bin/krew "${@:2}" < /dev/null
}

krew_installs() {
    local machine=$1 arch archive plugin
    arch=$(go_name "$machine")
    archive=$out/kubectl-fluxqueue-$VERSION-linux-$arch.tar.gz
    cp "$archive" "$work/forged.tar.gz"
    echo x >> "$work/forged.tar.gz"
    install() { krew "$arch" install --manifest "$out/fluxqueue-krew.yaml" --archive "$1" 2>&1; }
    ! install "$work/forged.tar.gz" > "$work/krew.log" ||
        fail "krew installs an archive with another checksum"
    grep -q checksum "$work/krew.log" ||
        fail "krew refused for another reason: $(cat "$work/krew.log")"
    install "$archive" > "$work/krew.log" || fail "$(cat "$work/krew.log")"
    plugin=$work/krew-$arch/bin/kubectl-fluxqueue
    [[ $($(emulator "$machine") "$(realpath "$plugin")" --version) == *" $VERSION" ]] ||
        fail "krew's $plugin does not run"
    ok "krew installs the command for $arch, and no archive with another checksum"
}

contents() {
    local package=$1 target=$2 sbom=$3 notices=$4 name version count
    [[ $(jq -r .bomFormat "$sbom") == CycloneDX ]] || fail "$sbom is no CycloneDX"
    jq -r '.components[] | .name + " " + .version' "$sbom" | sort -u > "$work/components"
    while read -r name version; do
        grep -qx "$name $version" "$work/components" || fail "$sbom lacks $name $version"
        grep -qF "$name $version: " "$notices" || fail "$notices lacks $name $version"
    done < <(crates_in "$package" "$target")
    count=$(crates_in "$package" "$target" | wc -l)
    [[ $count -gt 50 ]] || fail "cargo tree found only $count crates of $package"
    grep -q 'Copyright notices for The Rust Standard Library' "$notices" ||
        fail "$notices lacks Rust's own"
    ok "$(basename "$sbom") and the notices have each of the $count crates in $package"
}

checksums
paths
image_layout
chart
for machine in $MACHINES; do
    arch=$(go_name "$machine")
    command_is_static "$machine"
    image_runs "$machine"
    image_takes_a_library "$machine"
    krew_installs "$machine"
    contents fluxqueue "$machine-unknown-linux-gnu" \
        "$out/fluxqueue-$VERSION-image-linux-$arch.cdx.json" "$out/THIRD-PARTY-fluxqueue.txt"
    contents kubectl-fluxqueue "$machine-unknown-linux-musl" \
        "$out/kubectl-fluxqueue-$VERSION-linux-$arch.cdx.json" \
        "$out/THIRD-PARTY-kubectl-fluxqueue.txt"
done
release/tree.sh
echo "release: $passed checks passed"
