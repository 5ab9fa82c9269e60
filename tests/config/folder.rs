//! A configuration in a folder of its own, and the peers that it names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use wattle::config::load::{Loaded, load};
use wattle::config::plan::Plan;
use wattle::config::report::Problem;
use wattle::crypto::keyfile;
use wattle::crypto::sign::PrivateKey;

/// A folder with `riga.key` in it.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("riga.key", keyfile::private_pem(&key(1)).as_bytes());
        folder.mode("riga.key", 0o600);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The configuration with these fields after `name` and `private_key`.
    pub(crate) fn load(&self, fields: &str) -> Loaded {
        let comma = if fields.is_empty() { "" } else { "," };
        let text = format!("{{\n\"name\": \"riga\", \"private_key\": \"riga.key\"{comma}\n{fields}\n}}\n");
        load(&self.write("riga.json", text))
    }

    pub(crate) fn plan(&self, fields: &str) -> Plan {
        let loaded = self.load(fields);
        loaded.plan.unwrap_or_else(|| panic!("{:#?}", loaded.report))
    }

    /// The only error, as `path: message`.
    pub(crate) fn error(&self, fields: &str) -> String {
        let loaded = self.load(fields);
        assert!(loaded.plan.is_none());
        let [error] = loaded.report.errors.as_slice() else { panic!("{:#?}", loaded.report.errors) };
        short(error)
    }

    pub(crate) fn warning(&self, fields: &str) -> String {
        let loaded = self.load(fields);
        assert!(loaded.plan.is_some(), "{:#?}", loaded.report);
        let warnings: Vec<String> = loaded.report.warnings.iter().map(short).collect();
        let others = |w: &&String| !w.starts_with(": no ");
        let ours: Vec<&String> = warnings.iter().filter(others).collect();
        let [warning] = ours.as_slice() else { panic!("{warnings:#?}") };
        (*warning).clone()
    }
}

pub(crate) fn short(problem: &Problem) -> String {
    assert!(problem.message.chars().count() <= 160, "{}", problem.message);
    assert!(!problem.to_string().contains(|c: char| c.is_control()), "{problem:?}");
    format!("{}: {}", problem.path, problem.message)
}

pub(crate) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_seed(&[number; 32])
}

pub(crate) fn public(number: u8) -> String {
    keyfile::public_base64(&key(number).public())
}

pub(crate) fn node(name: &str, number: u8, fields: &str) -> String {
    format!("{{ \"name\": \"{name}\", \"public_key\": \"{}\"{fields} }}", public(number))
}
