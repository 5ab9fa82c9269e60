//! libFuzzer's side of the targets: the environment variable TARGET says which one runs.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../targets/mod.rs"]
mod targets;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|target| target.0 == name);
    found.unwrap_or_else(|| panic!("TARGET={name}: no such target")).1
});

fuzz_target!(|data: &[u8]| TARGET(data));
