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

# need_rust: a toolchain that is new enough for Cargo.toml; its cargo is then the first in PATH
need_rust() {
    local wanted; wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    [ ! -x "$HOME/.cargo/bin/cargo" ] || export PATH=$HOME/.cargo/bin:$PATH
    need_packages cc:gcc
    rust_is "$wanted" && return
    if command -v rustup >/dev/null; then
        echo "installing with rustup: the stable toolchain"
        rustup toolchain install stable --profile minimal --component clippy,rustfmt >/dev/null
        rustup default stable >/dev/null
    else
        # Debian's current compiler for browsers; plain cargo is too old in the stable releases.
        echo "installing with apt: cargo-web rustc-web"
        apt-get -o DPkg::Lock::Timeout=300 -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qqy install --no-install-recommends \
            cargo-web rustc-web libc6-dev >/dev/null || true
    fi
    rust_is "$wanted" || die "Rust $wanted or later is needed (found: $(rustc --version 2>/dev/null || echo none)); rustup brings it"
}

# rust_is VERSION: cargo is there and at least so new
rust_is() {
    local have; have=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$have" ] && [ "$(printf '%s\n' "$1" "$have" | sort -V | head -n 1)" = "$1" ]
}
