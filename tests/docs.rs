//! `docs/config.md` is true to the code.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use wattle::config::file::FIELDS;
use wattle::config::load::load;
use wattle::config::plan::{Kernel, Rekey};
use wattle::crypto::keyfile;
use wattle::crypto::sign::PrivateKey;

const DOC: &str = include_str!("../docs/config.md");

const README: &str = include_str!("../README.md");

/// The contents of the fenced blocks that begin with this line.
fn blocks(fence: &str) -> Vec<&'static str> {
    blocks_of(DOC, fence)
}

fn blocks_of(document: &'static str, fence: &str) -> Vec<&'static str> {
    let mut blocks = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (kind, body) = after.split_once('\n').unwrap();
        let (block, next) = body.split_once("```").unwrap();
        if kind == fence {
            blocks.push(block);
        }
        rest = next;
    }
    blocks
}

#[test]
fn every_field_is_described() {
    for (object, fields) in FIELDS {
        for field in *fields {
            let row = format!("\n| `{field}` |");
            assert!(DOC.contains(&row), "{object}: {field} has no row in docs/config.md");
        }
    }
}

#[test]
fn no_field_is_described_that_does_not_exist() {
    let known = |name: &str| FIELDS.iter().any(|(_, fields)| fields.contains(&name));
    for row in DOC.lines().filter_map(|line| line.strip_prefix("| `")) {
        let name = row.split('`').next().unwrap();
        assert!(known(name), "docs/config.md describes {name}");
    }
}

#[test]
fn examples_pass_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let json = blocks("json");
    let [full, smallest, steered, registry, _broken] = json.as_slice() else { panic!("{} blocks", json.len()) };
    fs::write(folder.path().join("registry.json"), registry).unwrap();
    // The keys whose public halves the examples show.
    for (name, seed, text) in [("riga", 1, full), ("laptop", 3, smallest), ("riga", 1, steered)] {
        let key = folder.path().join(format!("{name}.key"));
        write_private(&key, &keyfile::private_pem(&PrivateKey::from_seed(&[seed; 32])));
        let path = folder.path().join("wattle.json");
        fs::write(&path, text).unwrap();
        let loaded = load(&path);
        assert!(loaded.plan.is_some(), "{:#?}", loaded.report);
        assert_eq!(loaded.report.warnings, []);
    }
}

#[test]
fn the_example_of_the_readme_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let json = blocks_of(README, "json");
    let [example] = json.as_slice() else { panic!("{} blocks", json.len()) };
    write_private(&folder.path().join("riga.key"), &keyfile::private_pem(&PrivateKey::from_seed(&[9; 32])));
    let path = folder.path().join("wattle.json");
    fs::write(&path, example).unwrap();
    let loaded = load(&path);
    assert!(loaded.plan.is_some(), "{:#?}", loaded.report);
    assert_eq!(loaded.report.warnings, []);
}

#[test]
fn the_readme_needs_fifteen_lines_for_each_kind_of_router() {
    for heading in ["## On MikroTik RouterOS\n", "## On OpenWrt\n"] {
        let section = README.split_once(heading).unwrap().1.split("\n## ").next().unwrap();
        assert!(section.trim().lines().count() <= 15, "{heading}{section}");
        for word in section.split_whitespace().filter(|word| word.starts_with("scripts/") || word.starts_with("docs/"))
        {
            assert!(Path::new(word).exists(), "README.md names {word}");
        }
    }
}

#[test]
fn the_broken_example_is_answered_as_shown() {
    let folder = tempfile::tempdir().unwrap();
    let broken = blocks("json").pop().unwrap();
    fs::write(folder.path().join("broken.json"), broken).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_wattle"))
        .args(["check", "broken.json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let shown = blocks("").pop().unwrap();
    assert_eq!(shown, format!("$ wattle check broken.json\n{}", String::from_utf8(run.stdout).unwrap()));
    assert_eq!(run.status.code(), Some(1));
}

#[test]
fn defaults_are_the_codes() {
    let Rekey { child: Some(child), ike: Some(ike), octets: Some(octets) } = Rekey::default() else {
        panic!("for ever")
    };
    assert!(DOC.contains(&format!("| `child_s` | `{}` |", child.as_secs())));
    assert!(DOC.contains(&format!("| `child_mb` | `{}` |", octets / 1_000_000)));
    assert!(DOC.contains(&format!("| `ike_s` | `{}` |", ike.as_secs())));
    let Kernel { table, mark, rule } = Kernel::default();
    assert!(DOC.contains(&format!("| `table` | `{table}` |")));
    assert!(DOC.contains(&format!("| `mark` | `{mark}` ({mark:#x}) |")));
    assert!(DOC.contains(&format!("| `rule` | `{rule}` |")));
    assert!(DOC.contains(&format!("| `control` | `\"{}\"` |", wattle::config::check::DEFAULT_CONTROL)));
    let names = wattle::config::check::suites::names();
    for list in [names.ciphers, names.prfs, names.key_exchanges] {
        let list: Vec<String> = list.iter().map(|name| format!("`{name}`")).collect();
        assert!(DOC.contains(&format!("| {} |", list.join(", "))), "{list:?}");
    }
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
