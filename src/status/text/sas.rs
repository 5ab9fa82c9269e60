//! `wattle sas`: IKE SAs with their Child SAs, and the tunnels that have none.

use serde::Serialize;

use super::super::model::{ChildRole, ChildSa, Peer, Sa, State};
use super::table::{hanging, paragraph, parts};
use super::units::{amount, duration};
use super::{clean, reason, word};

/// A tunnel that is not up, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotUp {
    pub peer: String,
    pub endpoint: Option<String>,
    pub state: State,
    pub reason: String,
}

/// What of the peers' tunnels is not up; a peer without any tunnel counts as one.
pub fn not_up(peers: &[Peer]) -> Vec<NotUp> {
    let mut all = Vec::new();
    for peer in peers {
        let of_peer = || reason(peer).unwrap_or_else(|| "no session".to_owned());
        if peer.links.is_empty() && peer.state != State::Up {
            all.push(NotUp { peer: peer.name.clone(), endpoint: None, state: peer.state, reason: of_peer() });
        }
        all.extend(peer.links.iter().filter(|link| link.state != State::Up).map(|link| NotUp {
            peer: peer.name.clone(),
            endpoint: Some(link.endpoint.clone()),
            state: link.state,
            reason: link.reason.clone().unwrap_or_else(of_peer),
        }));
    }
    all
}

pub fn sas(sas: &[Sa], not_up: &[NotUp], width: usize) -> String {
    let mut out = String::new();
    if sas.is_empty() {
        out.push_str("no SAs\n");
    }
    for (index, sa) in sas.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        session(&mut out, sa, width);
    }
    if !not_up.is_empty() {
        out.push_str("\nNOT UP\n");
    }
    for tunnel in not_up {
        let place = tunnel.endpoint.as_ref().map_or(String::new(), |endpoint| format!(" {}", clean(endpoint)));
        let text = format!("{}{place} {}: {}", clean(&tunnel.peer), word(tunnel.state), clean(&tunnel.reason));
        paragraph(&mut out, &text, 2, width);
    }
    out
}

fn session(out: &mut String, sa: &Sa, width: usize) {
    let name = sa.peer.as_ref().map_or("somebody".to_owned(), |name| clean(name));
    let port = sa.local_port.map_or(String::new(), |port| format!(" from port {port}"));
    parts(out, &[name, format!("{}{port}", clean(&sa.remote)), format!("{}, {}", clean(&sa.state), sa.role)], width);
    let mut field = |name: &str, text: &str| hanging(out, &format!("  {name}"), text, INDENT, width);
    let suite = sa.suite.as_deref().unwrap_or("suite not agreed yet");
    field("IKE", suite);
    field("", &format!("SPI {} (initiator) {} (responder)", sa.spi_initiator, sa.spi_responder));
    field("", &times(sa.age_us, sa.rekey_us));
    for child in &sa.children {
        field(
            "ESP",
            &format!("{}, SPI in {:08x}, out {:08x}{}", child.suite, child.spi_in, child.spi_out, role(child)),
        );
        field("", &times(child.age_us, child.rekey_us));
        let (octets_in, octets_out) = (amount(child.octets_in), amount(child.octets_out));
        field(
            "",
            &format!(
                "in {octets_in} ({} packets), out {octets_out} ({} packets), {} replays dropped",
                child.packets_in, child.packets_out, child.replays
            ),
        );
    }
}

fn role(child: &ChildSa) -> &'static str {
    match child.role {
        ChildRole::Sending => "",
        ChildRole::Standby => ", not sent on yet",
        ChildRole::Leaving => ", replaced",
    }
}

fn times(age: u64, rekey: Option<u64>) -> String {
    match rekey {
        Some(rekey) => format!("age {}, rekeyed in {}", duration(age), duration(rekey)),
        None => format!("age {}", duration(age)),
    }
}

const INDENT: usize = 7;
