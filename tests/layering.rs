//! The house rules of docs/architecture.md that a compiler does not check: imports go only downwards, the pure rooms touch
//! neither clock nor operating system, and no file is longer than 700 lines.

#![expect(clippy::expect_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms each room may import from. A room is a folder or file right below `src`; `room::part` narrows it.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("path", &[]),
    ("prefix", &[]),
    ("offload", &[]),
    ("identity", &[]),
    ("crypto", &[]),
    ("child_sa", &["crypto"]),
    ("wire", &["prefix"]),
    ("status/model", &[]),
    ("config/plan", &["crypto", "prefix", "offload", "identity"]),
    ("config", &["crypto", "prefix", "offload", "identity", "wire::srv6"]),
    ("fib", &["path", "prefix"]),
    ("steer", &["fib", "wire", "path", "prefix", "time"]),
    ("esp", &["wire", "crypto", "child_sa", "path"]),
    ("plane", &["esp", "fib", "steer", "wire", "crypto", "child_sa", "time", "path", "prefix"]),
    ("ike", &["wire", "crypto", "child_sa", "identity", "time", "path", "config::plan"]),
    ("babel", &["wire", "crypto::rng", "config::plan", "time", "path", "prefix"]),
    (
        "node",
        &[
            "ike",
            "babel",
            "plane",
            "fib",
            "steer",
            "wire",
            "crypto",
            "child_sa",
            "identity",
            "time",
            "path",
            "prefix",
            "config::plan",
            "status::model",
        ],
    ),
    (
        "sim",
        &[
            "node",
            "babel",
            "fib",
            "crypto",
            "identity",
            "time",
            "path",
            "prefix",
            "offload",
            "config::plan",
            "status::model",
        ],
    ),
    ("os", &["path", "prefix", "offload", "crypto::rng"]),
    ("status", &[]),
    (
        "daemon",
        &["os", "node", "plane", "status", "config::plan", "crypto::aead", "crypto::rng", "time", "path", "prefix"],
    ),
    ("cli", &["daemon", "status", "config", "crypto"]),
    ("main", &["cli"]),
    ("lib", &[]),
];

/// Words that only `os`, `daemon`, `cli`, `status` (the socket) and `config` (the file) may use.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "UdpSocket",
    "TcpStream",
    "UnixStream",
    "smol::",
    "libc::",
    "Instant::now",
];
const PURE: &[&str] = &[
    "time",
    "path",
    "prefix",
    "offload",
    "identity",
    "crypto",
    "child_sa",
    "wire",
    "status/model",
    "config/plan",
    "fib",
    "steer",
    "esp",
    "plane",
    "ike",
    "babel",
    "node",
    "sim",
];
const LONGEST_FILE: usize = 700;

#[test]
fn imports_go_only_downwards() {
    // Tests may look wherever they like.
    let is_test = |file: &Path| {
        file.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests.rs" | "tests" | "testing.rs")))
    };
    let rules: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| !is_test(file)) {
        let room = room(&file, |name| rules.contains_key(name));
        let Some(allowed) = rules.get(room.as_str()) else {
            wrong.push(format!("{}: no rule for this room", file.display()));
            continue;
        };
        let own = room.split('/').next().unwrap_or_default().to_owned();
        for (number, line) in text.lines().enumerate() {
            for import in imports(line) {
                let inside = import == own || import.starts_with(&format!("{own}::"));
                let fine = allowed.iter().any(|rule| import == *rule || import.starts_with(&format!("{rule}::")));
                if !inside && !fine {
                    wrong.push(format!("{}:{}: {room} may not import crate::{import}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_rooms_touch_no_clock_and_no_system() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let room = room(&file, |name| MAY_IMPORT.iter().any(|(rule, _)| *rule == name));
        if !PURE.contains(&room.as_str()) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                wrong.push(format!("{}:{}: {word} in a pure room", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_is_only_in_os() {
    for (file, text) in sources() {
        let inside = file.starts_with(root().join("src/os"));
        let found = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        assert!(inside || !found, "{} uses unsafe", file.display());
    }
}

#[test]
fn files_are_short() {
    let folders = ["src", "tests", "fuzz/src", "fuzz/targets"];
    let all = folders.into_iter().flat_map(below);
    let long: Vec<_> = all.filter(|(_, text)| text.lines().count() > LONGEST_FILE).map(|(file, _)| file).collect();
    assert!(long.is_empty(), "over {LONGEST_FILE} lines: {long:?}");
}

/// The most specific room that has a rule: `config/plan` before `config`.
fn room(file: &Path, known: impl Fn(&str) -> bool) -> String {
    let inside = file.strip_prefix(root().join("src")).expect("below src").with_extension("");
    let name = inside.to_str().expect("UTF-8").trim_end_matches("/mod").to_owned();
    let first = name.split('/').next().unwrap_or_default().to_owned();
    if known(&name) { name } else { first }
}

/// The paths behind `crate::` in a line, as far as they are written out there.
fn imports(line: &str) -> Vec<String> {
    let code = line.split("//").next().unwrap_or_default();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().last();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or_default();
            found.extend(list.split(',').map(|item| path(item.trim())).filter(|item| !item.is_empty()));
        } else {
            found.push(path(rest));
        }
    }
    found
}

fn path(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    text[..end].trim_end_matches(':').to_owned()
}

fn sources() -> Vec<(PathBuf, String)> {
    let found = below("src");
    assert!(found.len() > 30, "the sources were not found");
    found
}

fn below(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                walk(&entry, found);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).expect("readable");
                found.push((entry, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
