//! `wattle version`: what this binary is and which methods it has.

use argh::FromArgs;
use serde::Serialize;

use super::{Exit, answer, answer_json};
use crate::config::check::suites;
use crate::crypto::aead::hardware_aes;

/// Print the version and the methods that proposals may name.
#[derive(FromArgs)]
#[argh(subcommand, name = "version")]
pub(super) struct Version {
    /// as JSON
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct About {
    schema: u32,
    version: &'static str,
    ciphers: Vec<&'static str>,
    prfs: Vec<&'static str>,
    key_exchanges: Vec<&'static str>,
    hardware_aes: bool,
}

impl Version {
    pub(super) fn run(self) -> Exit {
        let names = suites::names();
        if self.json {
            return answer_json(
                Exit::Fine,
                &About {
                    schema: SCHEMA,
                    version: VERSION,
                    ciphers: names.ciphers,
                    prfs: names.prfs,
                    key_exchanges: names.key_exchanges,
                    hardware_aes: hardware_aes(),
                },
            );
        }
        let aes = if hardware_aes() { "yes" } else { "no: ChaCha20-Poly1305 is offered first" };
        answer(
            Exit::Fine,
            &format!(
                "{}\nciphers           {}\nprfs              {}\nkey exchanges     {}\n\
             AES instructions  {aes}\n",
                line(),
                names.ciphers.join(" "),
                names.prfs.join(" "),
                names.key_exchanges.join(" "),
            ),
        )
    }
}

pub(super) fn line() -> String {
    format!("wattle {VERSION}")
}

const SCHEMA: u32 = 1;
const VERSION: &str = env!("CARGO_PKG_VERSION");
