//! Proposals, as strongSwan writes them: `aes256gcm16-prfsha256-x25519-ke1_mlkem768`.

use crate::config::file::{At, SuitesText};
use crate::config::json::quoted;
use crate::config::plan::{IkeSuite, PostQuantum, Suites};
use crate::config::report::Report;
use crate::config::suggest::{did_you_mean, nearest};
use crate::crypto::aead::Cipher;
use crate::crypto::kex::Method;
use crate::crypto::prf::Prf;

/// What each place of a proposal may hold.
pub struct Names {
    pub ciphers: Vec<&'static str>,
    pub prfs: Vec<&'static str>,
    /// The first one, and with `ke1_` and `ke2_` in front the additional ones.
    pub key_exchanges: Vec<&'static str>,
}

pub fn names() -> Names {
    Names { ciphers: column(CIPHERS), prfs: column(PRFS), key_exchanges: column(KEY_EXCHANGES) }
}

fn column<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

/// What one level says, the whole node or one peer; `None` for what it leaves to the level above.
#[derive(Default)]
pub(super) struct Level {
    ike: Option<Vec<IkeSuite>>,
    esp: Option<Vec<Cipher>>,
    post_quantum: Option<PostQuantum>,
}

impl Level {
    /// Reads the node's own level, or a peer's below it.
    pub(super) fn read(text: &SuitesText, above: Option<&Level>, report: &mut Report) -> Level {
        let post_quantum = text.pq.as_ref().and_then(|pq| policy(pq, report));
        let inherited = above.and_then(|above| above.post_quantum);
        // After a misspelt one nobody wants to hear that a proposal lacks ML-KEM.
        let required = post_quantum.or(inherited.filter(|_| text.pq.is_none())) == Some(PostQuantum::Required);
        let ike = text.proposals.as_ref().map(|list| ike_list(list, required, report));
        if let (Some(pq), None, Some(above)) = (&text.pq, &ike, above)
            && required
            && above.ike.as_ref().is_some_and(|ike| !ike.is_empty() && !ike.iter().any(IkeSuite::is_post_quantum))
        {
            report.error(&pq.place, "none of the node's \"proposals\" has ML-KEM: give this peer its own");
        }
        Level { ike, esp: text.esp.as_ref().map(|list| esp_list(list, report)), post_quantum }
    }

    /// What is in force, for the node (without a peer) or for one peer.
    pub(super) fn suites(&self, peer: Option<&Level>, hardware_aes: bool) -> Suites {
        let default = Suites::default_for(hardware_aes);
        let levels = || peer.into_iter().chain([self]);
        Suites {
            ike: levels().find_map(|level| level.ike.clone()).unwrap_or(default.ike),
            esp: levels().find_map(|level| level.esp.clone()).unwrap_or(default.esp),
            post_quantum: levels().find_map(|level| level.post_quantum).unwrap_or(default.post_quantum),
        }
        .in_order()
    }
}

fn policy(pq: &At<String>, report: &mut Report) -> Option<PostQuantum> {
    match pq.value.as_str() {
        "required" => Some(PostQuantum::Required),
        "preferred" => Some(PostQuantum::Preferred),
        other => {
            let hint = did_you_mean(other, ["required", "preferred"]);
            let message = format!("{} is neither \"required\" nor \"preferred\"{hint}", quoted(other));
            report.error(&pq.place, message);
            None
        }
    }
}

fn ike_list(list: &At<Vec<At<String>>>, required: bool, report: &mut Report) -> Vec<IkeSuite> {
    if list.value.is_empty() {
        report.error(&list.place, "at least one proposal is needed; leave the field out for the default");
    }
    if list.value.len() > MAX_PROPOSALS {
        report.error(&list.place, format!("{} proposals; {MAX_PROPOSALS} are the most", list.value.len()));
        return Vec::new();
    }
    let mut suites = Vec::new();
    for text in &list.value {
        match ike(&text.value) {
            Err(message) => report.error(&text.place, message),
            Ok(suite) if required && !suite.is_post_quantum() => {
                let message = "no ML-KEM in it, which \"pq\": \"required\" wants: add -ke1_mlkem768";
                report.error(&text.place, message);
            }
            Ok(suite) if suites.contains(&suite) => report.warning(&text.place, "listed twice"),
            Ok(suite) => {
                // What goes into IKE_INTERMEDIATE instead can be split (RFC 7383 §2.5).
                if matches!(suite.exchange, Method::MlKem768 | Method::MlKem1024) {
                    let name = suite.exchange.name();
                    let message = format!(
                        "{name} as the first key exchange makes packets that some paths drop: x25519-ke1_{name} does not"
                    );
                    report.warning(&text.place, message);
                }
                suites.push(suite);
            }
        }
    }
    suites
}

fn esp_list(list: &At<Vec<At<String>>>, report: &mut Report) -> Vec<Cipher> {
    if list.value.is_empty() {
        report.error(&list.place, "at least one cipher is needed; leave the field out for the default");
    }
    let mut ciphers = Vec::new();
    for text in &list.value {
        match find(CIPHERS, &text.value) {
            None => report.error(&text.place, unknown("cipher", CIPHERS, &text.value)),
            Some(cipher) if ciphers.contains(&cipher) => report.warning(&text.place, "listed twice"),
            Some(cipher) => ciphers.push(cipher),
        }
    }
    ciphers
}

fn ike(text: &str) -> Result<IkeSuite, String> {
    let mut parts = text.split('-');
    let cipher = pick("cipher", CIPHERS, parts.next())?;
    let prf = pick("prf", PRFS, parts.next())?;
    let exchange = pick("key exchange", KEY_EXCHANGES, parts.next())?;
    let mut additional = Vec::new();
    for (part, number) in parts.zip(1..) {
        let prefix = format!("ke{number}_");
        let Some(name) = part.strip_prefix(&prefix) else {
            let hint = match find(KEY_EXCHANGES, part) {
                Some(_) => format!("write {prefix}{part}"),
                None => format!("expected {prefix} and one of {}", list(KEY_EXCHANGES)),
            };
            return Err(format!("{}: {hint}", quoted(part)));
        };
        let method = pick("key exchange", KEY_EXCHANGES, Some(name))?;
        // RFC 9370 §2.2.1 forbids it among the additional ones, and beside the first one it adds nothing.
        if exchange == method || additional.contains(&method) {
            return Err(format!("{name} is in it twice"));
        }
        if additional.len() == MAX_ADDITIONAL {
            return Err(format!("{} key exchanges are the most", MAX_ADDITIONAL + 1));
        }
        additional.push(method);
    }
    Ok(IkeSuite { cipher, prf, exchange, additional })
}

fn pick<T: Copy>(what: &str, table: &[(&'static str, T)], name: Option<&str>) -> Result<T, String> {
    match name {
        None => Err(format!("{what} is missing: write e.g. {EXAMPLE}")),
        Some(name) => find(table, name).ok_or_else(|| unknown(what, table, name)),
    }
}

fn unknown<T>(what: &str, table: &[(&'static str, T)], name: &str) -> String {
    let hint = match (elsewhere(name), nearest(name, table.iter().map(|(name, _)| *name))) {
        (Some(why), _) => format!(": {why}"),
        (None, Some(near)) => format!("; did you mean {near}?"),
        (None, None) => String::new(),
    };
    format!("unknown {what} {}{hint}; valid: {}", quoted(name), list(table)).replace("?; valid", "? valid")
}

/// Words of strongSwan's that are right in another place, or that wattle does not have.
fn elsewhere(name: &str) -> Option<String> {
    let places = [("cipher", column(CIPHERS)), ("PRF", column(PRFS)), ("key exchange", column(KEY_EXCHANGES))];
    if let Some((place, _)) = places.iter().find(|(_, names)| names.contains(&name)) {
        return Some(format!("it is a {place}, and a proposal has one of each"));
    }
    let same = [
        ("aes256", "aes256gcm16"),
        ("aes128", "aes128gcm16"),
        ("aes256gcm128", "aes256gcm16"),
        ("aes128gcm128", "aes128gcm16"),
        ("curve25519", "x25519"),
        ("ecp25519", "x25519"),
        ("sha256", "prfsha256"),
        ("sha384", "prfsha384"),
        ("sha512", "prfsha512"),
        ("mlkem", "mlkem768"),
        ("kyber768", "mlkem768"),
    ];
    same.iter().find(|(other, _)| *other == name).map(|(_, ours)| format!("write {ours}"))
}

fn list<T>(table: &[(&'static str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn find<T: Copy>(table: &[(&'static str, T)], name: &str) -> Option<T> {
    table.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| *value)
}

const CIPHERS: &[(&str, Cipher)] = &[
    (Cipher::Aes256Gcm.name(), Cipher::Aes256Gcm),
    (Cipher::ChaCha20Poly1305.name(), Cipher::ChaCha20Poly1305),
    (Cipher::Aes128Gcm.name(), Cipher::Aes128Gcm),
];
const PRFS: &[(&str, Prf)] =
    &[("prfsha256", Prf::HmacSha2_256), ("prfsha384", Prf::HmacSha2_384), ("prfsha512", Prf::HmacSha2_512)];
const KEY_EXCHANGES: &[(&str, Method)] = &[
    (Method::X25519.name(), Method::X25519),
    (Method::MlKem512.name(), Method::MlKem512),
    (Method::MlKem768.name(), Method::MlKem768),
    (Method::MlKem1024.name(), Method::MlKem1024),
];
/// Three in all: one more would be two of the same strength.
const MAX_ADDITIONAL: usize = 2;
/// As many fit into one IKE_SA_INIT of 1280 octets, with X25519 in front.
const MAX_PROPOSALS: usize = 16;
const EXAMPLE: &str = "aes256gcm16-prfsha256-x25519-ke1_mlkem768";
