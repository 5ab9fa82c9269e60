//! Reading: the configuration, its registry and its key file, from the disk to a checked [`Plan`].
//!
//! A byte-order mark and CRLF (Winbox writes them) are accepted; relative paths start at the configuration's folder.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::check::{self, Input};
use super::file::{self, At, Node};
use super::json::{self, Position, Value, quoted};
use super::plan::Plan;
use super::report::{Place, Report};
use crate::crypto::aead::hardware_aes;
use crate::crypto::keyfile;
use crate::crypto::sign::PrivateKey;

#[derive(Debug)]
pub struct Loaded {
    pub report: Report,
    /// `None` if the report has errors.
    pub plan: Option<Plan>,
    /// What was read, or would have been: the configuration and its registry.
    pub files: Vec<PathBuf>,
}

/// What to do where there is no key file.
pub enum MissingKey<'a> {
    /// It is an error.
    Refuse,
    /// It is a warning, for the start makes one; there is no plan then.
    Allow,
    /// Make one, and give its content.
    Make(&'a mut dyn FnMut(&Path) -> io::Result<Zeroizing<Vec<u8>>>),
}

/// Reads the file at `path` and everything it names, and reports every problem there is.
pub fn load(path: &Path) -> Loaded {
    load_with(path, MissingKey::Refuse)
}

/// [`load`], where a key file may be missing.
pub fn load_with(path: &Path, missing: MissingKey<'_>) -> Loaded {
    let mut files = vec![path.to_owned()];
    let mut report = Report::default();
    let shown = path.display().to_string();
    let place = Place::file(&shown);
    let folder = path.parent().map_or(PathBuf::new(), Path::to_owned);
    let Some(root) = read_json(path, &place, "the configuration", &mut report) else {
        return Loaded { report, plan: None, files };
    };
    let file = file::decode(&root, &shown, &mut report);
    let key = file.private_key.as_ref().and_then(|name| private_key(name, &folder, missing, &mut report));
    let registry = file.registry.as_ref().map(|name| registry(name, &folder, &mut report));
    files.extend(file.registry.as_ref().map(|name| folder.join(&name.value)));
    let input = Input { place, file, key, registry, folder, hardware_aes: hardware_aes() };
    let plan = check::check(input, &mut report);
    report.sort(&shown);
    Loaded { report, plan, files }
}

fn read_json(path: &Path, place: &Place, what: &str, report: &mut Report) -> Option<Value> {
    let octets = match read(path) {
        Ok(octets) => octets,
        Err(error) => {
            report.error(place, format!("cannot read {what}: {}{}", reason(&error), example(path)));
            return None;
        }
    };
    let text = match std::str::from_utf8(octets.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&octets)) {
        Ok(text) => text,
        Err(_) if octets.starts_with(&[0xff, 0xfe]) || octets.starts_with(&[0xfe, 0xff]) => {
            report.error(place, "the file is in UTF-16: save it as UTF-8");
            return None;
        }
        Err(error) => {
            let before = octets.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|&&octet| octet == b'\n').count() + 1;
            let position = u32::try_from(line).ok().map(|line| Position { line, column: 1 });
            report.error(&Place { position, ..place.clone() }, "this line is not UTF-8 text");
            return None;
        }
    };
    let (root, errors) = json::parse(text);
    for error in errors {
        report.error(&Place { position: Some(error.position), ..place.clone() }, error.message);
    }
    root
}

/// A mount that was empty has been filled with an example, and nothing else.
fn example(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".example");
    let there = !path.exists() && path.with_file_name(&name).exists();
    if there { format!("; make it from {} beside it", name.display()) } else { String::new() }
}

fn registry(name: &At<String>, folder: &Path, report: &mut Report) -> Vec<Node> {
    let path = folder.join(&name.value);
    let shown = path.display().to_string();
    if name.value.is_empty() {
        report.error(&name.place, "expected the name of the registry file");
        return Vec::new();
    }
    if let Err(error) = fs::metadata(&path) {
        let message = format!("cannot read the registry {}: {}", quoted(&name.value), reason(&error));
        report.error(&name.place, message);
        return Vec::new();
    }
    match read_json(&path, &Place::file(&shown), "the registry", report) {
        Some(root) => file::decode_registry(&root, &shown, report),
        None => Vec::new(),
    }
}

fn private_key(name: &At<String>, folder: &Path, missing: MissingKey<'_>, report: &mut Report) -> Option<PrivateKey> {
    if keyfile::parse_private(name.value.as_bytes()).is_ok() {
        // Its value must not appear anywhere.
        report.error(&name.place, "holds a key: put the key into a file of its own, and the file's name here");
        return None;
    }
    let shown = quoted(&name.value);
    if name.value.is_empty() {
        report.error(&name.place, "expected the name of the key file (make one with: wattle keygen FILE)");
        return None;
    }
    let path = folder.join(&name.value);
    let octets = match (read(&path).map(Zeroizing::new), missing) {
        (Ok(octets), _) => octets,
        (Err(error), MissingKey::Allow) if error.kind() == io::ErrorKind::NotFound => {
            report.warning(&name.place, format!("there is no key file {shown} yet: wattle run makes it"));
            return None;
        }
        (Err(error), MissingKey::Make(make)) if error.kind() == io::ErrorKind::NotFound => match make(&path) {
            Ok(octets) => octets,
            Err(error) => {
                let message = format!("there is no key file {shown}, and it cannot be made: {}", reason(&error));
                report.error(&name.place, message);
                return None;
            }
        },
        (Err(error), _) => {
            let hint =
                if error.kind() == io::ErrorKind::NotFound { " (make one with: wattle keygen FILE)" } else { "" };
            report.error(&name.place, format!("cannot read the key file {shown}: {}{hint}", reason(&error)));
            return None;
        }
    };
    if let Ok(metadata) = fs::metadata(&path)
        && metadata.permissions().mode() & 0o077 != 0
    {
        let message = format!("others can read the key file {shown}: chmod 600 it");
        report.warning(&name.place, message);
    }
    match keyfile::parse_private(&octets) {
        Ok(key) => Some(key),
        Err(_) => {
            let public = std::str::from_utf8(&octets).is_ok_and(|text| keyfile::parse_public(text).is_ok());
            let message = if public {
                format!("{shown} holds a public key; the private one is needed here")
            } else {
                format!("{shown} is not an Ed25519 private key in PKCS#8 (make one with: wattle keygen FILE)")
            };
            report.error(&name.place, message);
            None
        }
    }
}

/// The whole file, unless it is larger than any configuration.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    file.take(MAX_FILE + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(octets)
}

/// Without the number that the standard library appends.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const MAX_FILE: u64 = 16 << 20;
