#!/usr/bin/env bash
# Debian's packages in the image: `release/packages.sh fetch FOLDER` fetches those of debian.lock,
# and `release/packages.sh update` writes debian.lock with the newest ones.
#
# apt has folders of its own here, so that packages of all machines can be fetched on one. It reads
# the sources of this system, which must be Debian 12 (or of APT_ETC, a folder like /etc/apt with
# sources of Debian 12), and verifies their signatures.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/settings.sh

# The libraries of the program, certificates, and gcc-12-base, which has the copyright of two.
packages="ca-certificates gcc-12-base libc6 libgcc-s1 libstdc++6"
suite=bookworm
lock=release/debian.lock
apt_home=$PWD/target/apt

# Runs apt-get for a machine: apt ARCH ARGUMENTS...
apt() {
    local arch=$1 home=$apt_home/$1
    shift
    mkdir -p "$home"/{lists,cache/archives}/partial
    apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
        -o Dir::State="$home" -o Dir::State::Lists="$home/lists" -o Dir::State::status=/dev/null \
        -o Dir::Cache="$home/cache" -o APT::Sandbox::User=root \
        ${APT_ETC:+-o Dir::Etc="$APT_ETC"} "$@"
}

check_suite() {
    [[ -n ${APT_ETC:-} ]] || grep -q "^VERSION_CODENAME=$suite$" /etc/os-release ||
        fail "the image has packages of Debian 12: build on it, or name its sources.list by APT_ETC"
}

fetch() {
    local folder=$1 name version arch sum machine
    mkdir -p "$folder"
    while read -r name version arch sum; do
        [[ -e $folder/$sum.deb ]] && continue
        check_suite
        machine=$arch
        [[ $arch != all ]] || machine=amd64
        if [[ ! -e $apt_home/$machine/updated ]]; then
            apt "$machine" update
            touch "$apt_home/$machine/updated"
        fi
        rm -rf "$folder/new"
        mkdir "$folder/new"
        (cd "$folder/new" && apt "$machine" download "$name=$version") ||
            fail "$lock: Debian has no $name $version for $arch any more: \`make release-packages\`"
        echo "$sum  $(ls -d "$folder"/new/*.deb)" | sha256sum --check --quiet ||
            fail "$lock: the checksum of $name $version for $arch is another one"
        mv "$folder"/new/*.deb "$folder/$sum.deb"
        rmdir "$folder/new"
    done < <(grep -v '^#' "$lock")
}

update() {
    local machine arch name file folder
    check_suite
    folder=$(mktemp -d)
    for machine in $MACHINES; do
        arch=$(go_name "$machine")
        apt "$arch" update
        (cd "$folder" && for name in $packages; do apt "$arch" download "$name"; done)
    done
    {
        echo "# Debian's packages in the image: name, version, architecture, SHA-256."
        echo "# \`make release-packages\` writes this file."
        for file in "$folder"/*.deb; do
            # shellcheck disable=SC2016 # These are dpkg's variables.
            dpkg-deb --show --showformat='${Package} ${Version} ${Architecture} ' "$file"
            sha256sum < "$file" | cut -d ' ' -f 1
        done
    } > "$lock"
    rm -r "$folder"
}

case ${1:-} in
    fetch) fetch "$2" ;;
    update) update ;;
    *) fail "usage: release/packages.sh fetch FOLDER, or release/packages.sh update" ;;
esac
