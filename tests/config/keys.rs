//! Key files.

use super::folder::{Folder, key};
use std::fs;
use wattle::config::load::load;
use wattle::crypto::keyfile;

#[test]
fn key_files_as_editors_leave_them() {
    let folder = Folder::new();
    let pem = keyfile::private_pem(&key(1));
    for text in [pem.replace('\n', "\r\n"), pem.replace('\n', "  \n"), pem.trim_end().to_owned()] {
        folder.write("riga.key", &text);
        assert_eq!(folder.plan("").private_key.public(), key(1).public());
    }
}

#[test]
fn key_file_problems() {
    let folder = Folder::new();
    folder.mode("riga.key", 0o644);
    assert_eq!(folder.warning(""), "private_key: others can read the key file \"riga.key\": chmod 600 it");
    folder.write("riga.key", keyfile::public_pem(&key(1).public()));
    folder.mode("riga.key", 0o600);
    assert_eq!(folder.error(""), "private_key: \"riga.key\" holds a public key; the private one is needed here");
    folder.write("riga.key", "nonsense");
    assert!(folder.error("").contains("is not an Ed25519 private key in PKCS#8 (make one with: wattle keygen FILE)"));
    fs::remove_file(folder.path("riga.key")).unwrap();
    assert!(folder.error("").ends_with("No such file or directory (make one with: wattle keygen FILE)"));
    fs::create_dir(folder.path("riga.key")).unwrap();
    assert!(folder.error("").ends_with("is a directory"));
    // A key in the wrong place is not printed.
    let secret = keyfile::private_pem(&key(1)).replace('\n', "\\n");
    let path = folder.write("x.json", format!("{{ \"name\": \"riga\", \"private_key\": \"{secret}\" }}"));
    let report = load(&path).report;
    assert!(report.errors[0].message.starts_with("holds a key"), "{report:#?}");
}
