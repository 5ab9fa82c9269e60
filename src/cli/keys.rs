//! `wattle keygen` and `wattle pubkey`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use argh::FromArgs;
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Exit, answer, answer_json, complain, reason};
use crate::crypto::keyfile;
use crate::crypto::rng::Rng;
use crate::crypto::sign::{PrivateKey, PublicKey};

/// Make a private key (Ed25519, PKCS#8, PEM) in a file that only its owner can read, and print the public key.
#[derive(FromArgs)]
#[argh(subcommand, name = "keygen")]
pub(super) struct Keygen {
    /// the file to make
    #[argh(positional)]
    file: PathBuf,

    /// replace the file if it exists: the key in it is lost
    #[argh(switch)]
    force: bool,

    /// as JSON
    #[argh(switch)]
    json: bool,
}

/// Print the public key of a key file, as it goes into "public_key" of the other nodes.
#[derive(FromArgs)]
#[argh(subcommand, name = "pubkey")]
pub(super) struct Pubkey {
    /// the key file, private or public
    #[argh(positional)]
    file: PathBuf,

    /// print the fingerprint instead, as it appears in the log and in wattle peers
    #[argh(switch)]
    fingerprint: bool,

    /// print it as a PEM file, as strongSwan and OpenSSL read it
    #[argh(switch)]
    pem: bool,

    /// both, as JSON
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Printed {
    public_key: String,
    fingerprint: String,
}

impl Keygen {
    pub(super) fn run(self) -> Exit {
        let key = match fresh() {
            Ok(key) => key,
            Err(error) => return complain(Exit::Problem, &format!("the system gives no random numbers: {error}")),
        };
        let pem = keyfile::private_pem(&key);
        let written = if self.force { replace(&self.file, pem.as_bytes()) } else { create(&self.file, pem.as_bytes()) };
        if let Err(error) = written {
            let shown = self.file.display();
            let message = if error.kind() == io::ErrorKind::AlreadyExists {
                format!("{shown} exists: --force replaces it, and the key in it is lost")
            } else {
                format!("cannot write {shown}: {}", reason(&error))
            };
            return complain(Exit::Problem, &message);
        }
        let printed = Printed::of(&key.public());
        if self.json {
            return answer_json(Exit::Fine, &printed);
        }
        answer(Exit::Fine, &shown(&key.public()))
    }
}

impl Pubkey {
    pub(super) fn run(self) -> Exit {
        let shown = self.file.display();
        let octets = match read(&self.file) {
            Ok(octets) => octets,
            Err(error) => return complain(Exit::Problem, &format!("cannot read {shown}: {}", reason(&error))),
        };
        let key = match keyfile::parse_private(&octets) {
            Ok(key) => key.public(),
            Err(error) => match std::str::from_utf8(&octets).ok().and_then(|text| keyfile::parse_public(text).ok()) {
                Some(key) => key,
                None => return complain(Exit::Problem, &format!("{shown}: {error}")),
            },
        };
        let printed = Printed::of(&key);
        if self.json {
            return answer_json(Exit::Fine, &printed);
        }
        match (self.pem, self.fingerprint) {
            (true, _) => answer(Exit::Fine, keyfile::public_pem(&key).trim_end()),
            (false, true) => answer(Exit::Fine, &printed.fingerprint),
            (false, false) => answer(Exit::Fine, &printed.public_key),
        }
    }
}

impl Printed {
    fn of(key: &PublicKey) -> Printed {
        Printed { public_key: keyfile::public_base64(key), fingerprint: key.fingerprint() }
    }
}

/// Makes a key in a file that was not there: complete or not at all, for its owner only. Gives the public key and the file.
pub(super) fn make_if_missing(path: &Path) -> io::Result<(PublicKey, Zeroizing<Vec<u8>>)> {
    let key = fresh().map_err(|error| io::Error::other(format!("the system gives no random numbers: {error}")))?;
    let pem = keyfile::private_pem(&key);
    replace(path, pem.as_bytes())?;
    Ok((key.public(), Zeroizing::new(pem.as_bytes().to_vec())))
}

/// A public key as a person copies it.
pub(super) fn shown(key: &PublicKey) -> String {
    let printed = Printed::of(key);
    format!("public_key   {}\nfingerprint  {}\n", printed.public_key, printed.fingerprint)
}

fn fresh() -> Result<PrivateKey, getrandom::Error> {
    let seed = Zeroizing::new(Rng::from_os()?.array::<32>());
    Ok(PrivateKey::from_seed(&seed))
}

fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut octets = Zeroizing::new(Vec::new());
    io::Read::read_to_end(&mut io::Read::take(fs::File::open(path)?, MAX_KEY_FILE), &mut octets)?;
    Ok(octets)
}

/// A file of mode 0600 that was not there before.
fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// The old file stands until the new one is complete, and its looser mode is not inherited.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new{}", std::process::id()));
    let new = PathBuf::from(name);
    create(&new, content)?;
    let moved = fs::rename(&new, path);
    if moved.is_err() {
        let _ = fs::remove_file(&new);
    }
    moved
}

const MAX_KEY_FILE: u64 = 64 << 10;
