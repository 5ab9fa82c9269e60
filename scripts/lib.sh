# Shared by the scripts; to be sourced.

say() { printf '\n== %s (%s)\n' "$*" "$(date +%H:%M:%S)"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need_root: namespaces, TUN devices and packages need it
need_root() { [ "$(id -u)" = 0 ] || die "this needs root: network namespaces, TUN devices and apt"; }

# need_packages COMMAND:PACKAGE...: installs by apt what is missing, and says what
need_packages() {
    local pair missing=()
    for pair; do command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}"); done
    [ "${#missing[@]}" -gt 0 ] || return 0
    echo "installing with apt: ${missing[*]}"
    apt-get -o DPkg::Lock::Timeout=300 -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qqy install --no-install-recommends "${missing[@]}" >/dev/null
}

# need_rust: a toolchain that is new enough
need_rust() {
    need_packages cargo:cargo cc:gcc
    local version; version=$(rustc --version | awk '{print $2}')
    [ "$(printf '1.88.0\n%s\n' "$version" | sort -V | head -n 1)" = 1.88.0 ] ||
        die "rustc $version is too old, 1.88 or newer is needed (install it with rustup, or Debian's rustc-web and cargo-web)"
}
