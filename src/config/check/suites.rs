//! Proposals, as strongSwan writes them: `aes256gcm16-prfsha256-x25519-ke1_mlkem768`.

use crate::config::file::At;
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
    pub key_exchanges: Vec<&'static str>,
    pub additional_key_exchanges: Vec<&'static str>,
}

pub fn names() -> Names {
    fn column<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
        table.iter().map(|(name, _)| *name).collect()
    }
    Names {
        ciphers: column(CIPHERS),
        prfs: column(PRFS),
        key_exchanges: column(FIRST),
        additional_key_exchanges: column(ADDITIONAL),
    }
}

pub(super) fn suites(
    proposals: Option<&At<Vec<At<String>>>>,
    esp: Option<&At<Vec<At<String>>>>,
    pq: Option<&At<String>>,
    hardware_aes: bool,
    report: &mut Report,
) -> Suites {
    let mut suites = Suites::default_for(hardware_aes);
    if let Some(pq) = pq {
        match pq.value.as_str() {
            "required" => {}
            "preferred" => suites.post_quantum = PostQuantum::Preferred,
            other => {
                let hint = did_you_mean(other, ["required", "preferred"]);
                let message = format!("{} is neither \"required\" nor \"preferred\"{hint}", quoted(other));
                report.error(&pq.place, message);
            }
        }
    }
    if let Some(list) = proposals {
        suites.ike = ike_list(list, pq.is_none_or(|pq| pq.value != "preferred"), report);
    } else if suites.post_quantum == PostQuantum::Preferred {
        let classic: Vec<IkeSuite> =
            suites.ike.iter().map(|suite| IkeSuite { additional: Vec::new(), ..suite.clone() }).collect();
        suites.ike.extend(classic);
    }
    // `Preferred`: with ML-KEM first, whatever the order in the file.
    suites.ike.sort_by_key(|suite| suite.additional.is_empty());
    if let Some(list) = esp {
        suites.esp = esp_list(list, report);
    }
    suites
}

fn ike_list(list: &At<Vec<At<String>>>, required: bool, report: &mut Report) -> Vec<IkeSuite> {
    if list.value.is_empty() {
        report.error(&list.place, "at least one proposal is needed; leave the field out for the default");
    }
    let mut suites = Vec::new();
    for text in &list.value {
        match ike(&text.value) {
            Err(message) => report.error(&text.place, message),
            Ok(suite) if required && suite.additional.is_empty() => {
                let message = "no ML-KEM in it: add -ke1_mlkem768, or set \"pq\": \"preferred\"";
                report.error(&text.place, message);
            }
            Ok(suite) if suites.contains(&suite) => report.warning(&text.place, "listed twice"),
            Ok(suite) => suites.push(suite),
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
    let exchange = pick("key exchange", FIRST, parts.next())?;
    let mut additional = Vec::new();
    for (part, number) in parts.zip(1..) {
        let prefix = format!("ke{number}_");
        let Some(name) = part.strip_prefix(&prefix).filter(|_| number <= MAX_ADDITIONAL) else {
            let hint = match find(ADDITIONAL, part) {
                Some(_) => format!("write {prefix}{part}"),
                None => format!("expected {prefix} and one of {}", list(ADDITIONAL)),
            };
            return Err(format!("{}: {hint}", quoted(part)));
        };
        let method = pick("additional key exchange", ADDITIONAL, Some(name))?;
        // RFC 9370 §2.2.1: no method twice.
        if additional.contains(&method) {
            return Err(format!("{name} is in it twice"));
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
    match nearest(name, table.iter().map(|(name, _)| *name)) {
        Some(near) => format!("unknown {what} {}; did you mean {near}? valid: {}", quoted(name), list(table)),
        None => format!("unknown {what} {}; valid: {}", quoted(name), list(table)),
    }
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
/// IKE_SA_INIT cannot be fragmented, and ML-KEM does not fit into every path's MTU: it goes into IKE_INTERMEDIATE (RFC 9370).
const FIRST: &[(&str, Method)] = &[("x25519", Method::X25519)];
const ADDITIONAL: &[(&str, Method)] =
    &[("mlkem512", Method::MlKem512), ("mlkem768", Method::MlKem768), ("mlkem1024", Method::MlKem1024)];
const MAX_ADDITIONAL: usize = 7;
const EXAMPLE: &str = "aes256gcm16-prfsha256-x25519-ke1_mlkem768";
