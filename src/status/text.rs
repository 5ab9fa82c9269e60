//! The model as text, for a screen of `width` columns.
//!
//! Every peer that is not up carries its reason in words. Names that come from the network cannot command the terminal.

use std::collections::BTreeMap;

use super::model::{
    Config, Drop, Link, Neighbour, PathReport, Peer, PolicyState, Refused, Route, Snapshot, State, Unused,
};
use table::{Column, Fit, Row, hanging, paragraph, parts, table};
use units::{age, amount, count, duration, percent, rate, rtt};

mod sas;
mod steering;
mod table;
mod units;

pub use sas::{NotUp, not_up, sas};
pub use steering::{policies, trace, trace_failed};

/// Does it work, and if not, which peer, and why?
pub fn status(snapshot: &Snapshot, width: usize) -> String {
    let mut out = String::new();
    head(&mut out, snapshot, width);
    config(&mut out, &snapshot.config, width);
    let many = snapshot.peers.iter().filter(|peer| peer.state != State::Up).count() > MANY;
    let listed = snapshot.peers.iter().filter(|peer| !many || peer.state == State::Up);
    let rows: Vec<Row> = listed.map(status_row).collect();
    if !rows.is_empty() {
        out.push('\n');
        let columns = [
            Column { head: "PEER", fit: Fit::Cut(10) },
            Column { head: "STATE", fit: Fit::Cut(10) },
            Column { head: "PATH", fit: Fit::Cut(16) },
            Column { head: "RTT", fit: Fit::Whole },
            Column { head: "LOSS", fit: Fit::Whole },
            Column { head: "RX", fit: Fit::Whole },
            Column { head: "TX", fit: Fit::Whole },
            Column { head: "SINCE", fit: Fit::Whole },
        ];
        out.push_str(&table(&columns, &rows, width));
    }
    if many {
        groups(&mut out, &snapshot.peers, width);
    }
    for policy in snapshot.policies.iter().filter(|policy| policy.state == PolicyState::Dropping) {
        out.push('\n');
        let reason = policy.reason.as_deref().unwrap_or_default();
        paragraph(&mut out, &format!("policy {}: {}", clean(&policy.name), clean(reason)), 0, width);
    }
    if let Some(refused) = snapshot.refused.first() {
        out.push('\n');
        let text = format!("last refused, {} ago: {} (wattle drops lists all)", age(refused.ago_us), refusal(refused));
        paragraph(&mut out, &text, 0, width);
    }
    out
}

/// Whether `status` has a problem to show: a peer that should be up is not, a policy drops its packets, or a new configuration
/// is wrong.
pub fn has_problem(snapshot: &Snapshot) -> bool {
    let failing = |peer: &Peer| !matches!(peer.state, State::Up | State::Waiting);
    let dropping = snapshot.policies.iter().any(|policy| policy.state == PolicyState::Dropping);
    snapshot.config.problem.is_some() || snapshot.peers.iter().any(failing) || dropping
}

/// All that is known about each peer and its tunnels.
pub fn peers(peers: &[Peer], width: usize) -> String {
    let mut out = String::new();
    if peers.is_empty() {
        out.push_str("no peers\n");
    }
    for (index, peer) in peers.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let state = format!("{} for {}", state_words(peer), duration(peer.since_us));
        parts(&mut out, &[clean(&peer.name), state], width);
        let mut field = |name: &str, text: &str| hanging(&mut out, &format!("  {name}"), text, DETAIL_INDENT, width);
        // A tunnel's own reason stands with the tunnel.
        if let Some(reason) = reason(peer).filter(|_| peer.links.iter().all(|link| link.reason.is_none())) {
            field("reason", &reason);
        }
        field("key", &clean(&peer.fingerprint));
        for link in &peer.links {
            field(&format!("link {}", link.id), &link_state(link));
            for line in link_details(link) {
                field("", &line);
            }
        }
    }
    out
}

pub fn routes(routes: &[Route], width: usize) -> String {
    if routes.is_empty() {
        return "no routes\n".to_owned();
    }
    let columns = [
        Column { head: "", fit: Fit::Whole },
        Column { head: "TO", fit: Fit::Break(28) },
        Column { head: "VIA", fit: Fit::Cut(8) },
        Column { head: "LINK", fit: Fit::Whole },
        Column { head: "METRIC", fit: Fit::Whole },
        Column { head: "SEQNO", fit: Fit::Whole },
        Column { head: "ORIGIN", fit: Fit::Cut(8) },
    ];
    let rows: Vec<Row> = routes
        .iter()
        .map(|route| {
            let to = match &route.from {
                None => clean(&route.to),
                Some(from) => format!("{} from {}", clean(&route.to), clean(from)),
            };
            let mark = match route.unused {
                None => "*",
                Some(Unused::Longer) => "",
                Some(Unused::NotYet) => "~",
                Some(Unused::Unfeasible) => "!",
                Some(Unused::LinkLost) => "x",
            };
            Row {
                cells: vec![
                    mark.to_owned(),
                    to,
                    clean(&route.via),
                    route.link.map_or("-".to_owned(), |link| link.to_string()),
                    cost(route.metric),
                    route.seqno.to_string(),
                    clean(&route.origin),
                ],
                notes: Vec::new(),
            }
        })
        .collect();
    let mut out = table(&columns, &rows, width);
    let has = |why| routes.iter().any(|route| route.unused == Some(why));
    let legend = [
        (Unused::NotYet, "~ shorter, but not by enough or not for long enough yet"),
        (Unused::Unfeasible, "! not feasible: it might lead in a circle"),
        (Unused::LinkLost, "x link lost"),
    ];
    let legend = legend.iter().filter(|(why, _)| has(*why)).map(|(_, words)| *words);
    parts(&mut out, &["* selected"].into_iter().chain(legend).map(str::to_owned).collect::<Vec<_>>(), width);
    out
}

pub fn neighbours(neighbours: &[Neighbour], width: usize) -> String {
    if neighbours.is_empty() {
        return "no Babel neighbours\n".to_owned();
    }
    let columns = [
        Column { head: "PEER", fit: Fit::Cut(8) },
        Column { head: "LINK", fit: Fit::Whole },
        Column { head: "ADDRESS", fit: Fit::Cut(12) },
        Column { head: "RTT", fit: Fit::Whole },
        Column { head: "LOSS", fit: Fit::Whole },
        Column { head: "COST", fit: Fit::Whole },
        Column { head: "RXCOST", fit: Fit::Whole },
        Column { head: "TXCOST", fit: Fit::Whole },
        Column { head: "HELLO", fit: Fit::Whole },
        Column { head: "IHU", fit: Fit::Whole },
    ];
    let rows: Vec<Row> = neighbours.iter().map(neighbour_row).collect();
    table(&columns, &rows, width)
}

/// The way of one packet: in the first line what `ip route get` would say, below it why.
pub fn path(report: &PathReport, width: usize) -> String {
    let mut out = String::new();
    let from = report.from.as_ref().map_or(String::new(), |from| format!(" from {}", clean(from)));
    let way = match &report.link {
        Some(link) => format!(
            " via {} link {} to {} rtt {}",
            clean(&report.next_hop),
            link.id,
            place(link),
            rtt(link.rtt_us).replace('-', "unknown")
        ),
        None => format!(": {}", clean(&report.next_hop)),
    };
    let metric = report.metric.map_or(String::new(), |metric| format!(" metric {}", cost(metric)));
    paragraph(&mut out, &format!("{}{from}{way}{metric}", clean(&report.to)), 0, width);
    let mut field = |name: &str, text: &str| hanging(&mut out, &format!("  {name}"), text, DETAIL_INDENT, width);
    let origin = report.origin.as_ref().map_or(String::new(), |origin| format!(", announced by {}", clean(origin)));
    match &report.route {
        None => field("route", "no node announces a prefix that covers it: the kernel's own routes decide"),
        Some(route) if report.next_hop == "unreachable" && report.policy.is_none() => {
            field("route", &format!("{}{origin}, was withdrawn or lost a moment ago", clean(route)));
        }
        Some(route) => field("route", &format!("{}{origin}", clean(route))),
    }
    if let Some(policy) = &report.policy {
        let added = report.overhead.map_or(String::new(), |octets| format!(", adds {octets} octets"));
        field("policy", &format!("{}{added}; \"wattle trace\" asks each waypoint", clean(policy)));
    }
    for segment in &report.segments {
        let via = segment.via.as_ref().map_or("no route".to_owned(), |via| format!("via {}", clean(via)));
        field("segment", &format!("{} {} {via}", clean(&segment.name), clean(&segment.sid)));
    }
    if let Some(link) = &report.link {
        field(&format!("link {}", link.id), &link_state(link));
        for line in link_details(link) {
            field("", &line);
        }
    }
    out
}

/// Whether the packet would get nowhere.
pub fn is_lost(report: &PathReport) -> bool {
    matches!(report.next_hop.as_str(), "no route" | "unreachable")
}

pub fn drops(drops: &[Drop], refused: &[Refused], width: usize) -> String {
    let mut out = String::new();
    let columns = [Column { head: "DROPPED", fit: Fit::Whole }, Column { head: "COUNT", fit: Fit::Whole }];
    let rows: Vec<Row> = drops
        .iter()
        .filter(|drop| drop.count > 0)
        .map(|drop| Row { cells: vec![clean(&drop.reason), drop.count.to_string()], notes: Vec::new() })
        .collect();
    if rows.is_empty() {
        out.push_str("nothing was dropped\n");
    } else {
        out.push_str(&table(&columns, &rows, width));
    }
    if !refused.is_empty() {
        out.push_str("\nREFUSED, newest first\n");
    }
    for refused in refused {
        let times = if refused.count > 1 { format!(", {} times", refused.count) } else { String::new() };
        let text = format!("{}{times}, last {} ago", refusal(refused), age(refused.ago_us));
        paragraph(&mut out, &text, 2, width);
    }
    out
}

/// What of the file is not in force.
fn config(out: &mut String, config: &Config, width: usize) {
    if let Some(problem) = &config.problem {
        paragraph(out, &format!("the new configuration is not in force: {problem}"), 0, width);
    }
    if !config.needs_restart.is_empty() {
        paragraph(out, &format!("changed in the file, needs a restart: {}", config.needs_restart.join(", ")), 0, width);
    }
}

fn head(out: &mut String, snapshot: &Snapshot, width: usize) {
    let mut first = vec![format!("{}  up {}", clean(&snapshot.name), duration(snapshot.uptime_us))];
    match &snapshot.tun {
        None => first.push("relay only, no TUN device".to_owned()),
        Some(tun) => {
            first.push(match tun.addresses.as_slice() {
                [] => "no addresses".to_owned(),
                [address] => clean(address),
                addresses => format!("{} addresses", addresses.len()),
            });
            first.push(format!("{} mtu {}", clean(&tun.name), tun.mtu));
        }
    }
    first.push(format!("{} / {}", snapshot.ike_suite, snapshot.esp_suite));
    parts(out, &first, width);
    let mut by_state: BTreeMap<usize, (State, usize)> = BTreeMap::new();
    for peer in &snapshot.peers {
        by_state.entry(rank(peer.state)).or_insert((peer.state, 0)).1 += 1;
    }
    let states: Vec<String> = by_state.values().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let peers = count(snapshot.peers.len(), "peer");
    let peers = if states.is_empty() { peers } else { format!("{peers}: {}", states.join(", ")) };
    let selected = snapshot.routes.iter().filter(|route| route.selected).count();
    let rates = format!("{} in  {} out", rate(snapshot.bits_in_per_s), rate(snapshot.bits_out_per_s));
    let mut second = vec![peers, count(selected, "route"), rates];
    if snapshot.half_open > 0 {
        second.push(format!("{} half-open", snapshot.half_open));
    }
    parts(out, &second, width);
}

fn status_row(peer: &Peer) -> Row {
    let best = best_link(peer);
    let sum = |octets: fn(&Link) -> u64| peer.links.iter().map(octets).fold(0, u64::saturating_add);
    let traffic = |octets: u64| if best.is_some() { amount(octets) } else { "-".to_owned() };
    let mut notes: Vec<String> = reason(peer).into_iter().collect();
    if peer.state == State::Up {
        let failing: Vec<&Link> = peer.links.iter().filter(|link| link.state != State::Up).collect();
        if let Some(link) = failing.first() {
            let reason = link.reason.as_deref().map_or(String::new(), |reason| format!(": {}", clean(reason)));
            let (count, all) = (failing.len(), peer.links.len());
            notes.push(format!(
                "{count} of {all} tunnels not up: {} {}{reason}",
                clean(&link.endpoint),
                word(link.state)
            ));
        }
    }
    Row {
        cells: vec![
            clean(&peer.name),
            state_words(peer),
            best.map_or("-".to_owned(), place),
            rtt(best.and_then(|link| link.rtt_us)),
            percent(best.and_then(|link| link.loss)),
            traffic(sum(|link| link.octets_in)),
            traffic(sum(|link| link.octets_out)),
            age(peer.since_us),
        ],
        notes,
    }
}

/// Peers that are not up, together with those that fail for the same reason, so that hundreds fit one screen.
fn groups(out: &mut String, peers: &[Peer], width: usize) {
    let mut groups: BTreeMap<(usize, String), Vec<&Peer>> = BTreeMap::new();
    for peer in peers.iter().filter(|peer| peer.state != State::Up) {
        let gist = reason(peer).map_or(String::new(), |reason| gist(&reason));
        groups.entry((rank(peer.state), gist)).or_default().push(peer);
    }
    let mut groups: Vec<((usize, String), Vec<&Peer>)> = groups.into_iter().collect();
    groups.sort_by_key(|(key, members)| (std::cmp::Reverse(members.len()), key.clone()));
    let rest: Vec<&Peer> = groups.split_off(groups.len().min(MAX_GROUPS)).into_iter().flat_map(|(_, m)| m).collect();
    for ((_, gist), members) in &groups {
        let state = members.first().map_or("", |peer| word(peer.state));
        let reason = match members.as_slice() {
            [only] => reason(only).unwrap_or_default(),
            _ => gist.clone(),
        };
        group(out, &format!("{} {state}: {reason}", count(members.len(), "peer")), members, width);
    }
    if !rest.is_empty() {
        group(out, &format!("{} not up for other reasons", count(rest.len(), "peer")), &rest, width);
    }
    paragraph(out, "wattle peers lists all of them", 0, width);
}

fn group(out: &mut String, title: &str, members: &[&Peer], width: usize) {
    out.push('\n');
    paragraph(out, title, 0, width);
    let mut names = String::new();
    let mut shown = 0;
    // Room for the count of those left out is kept from the start.
    let room = (width.saturating_sub(2) * MAX_NAME_LINES).saturating_sub(24);
    for peer in members {
        let name = table::cut(&clean(&peer.name), 24);
        if names.chars().count() + name.chars().count() + 2 > room {
            break;
        }
        if shown > 0 {
            names.push_str(", ");
        }
        names.push_str(&name);
        shown += 1;
    }
    if shown < members.len() {
        names.push_str(&format!(" and {} more", members.len() - shown));
    }
    paragraph(out, &names, 2, width);
}

/// What is alike in reasons that differ only in their numbers: up to the first comma, each number as `N`.
fn gist(reason: &str) -> String {
    let head = reason.split_once(", ").map_or(reason, |(head, _)| head);
    let mut gist = String::new();
    for word in head.split_whitespace() {
        if !gist.is_empty() {
            gist.push(' ');
        }
        // Such as "6", "34s" or an address; not "IKE_SA_INIT" or "x25519".
        if word.starts_with(|c: char| c.is_ascii_digit()) { gist.push('N') } else { gist.push_str(word) }
    }
    gist
}

fn neighbour_row(neighbour: &Neighbour) -> Row {
    let mut notes = Vec::new();
    let ago = |us: Option<u64>| us.map_or("yet".to_owned(), |us| format!("for {}", age(us)));
    if neighbour.txcost == INFINITY {
        notes.push(format!("does not hear us (no IHU {})", ago(neighbour.last_ihu_us)));
    }
    if neighbour.rxcost == INFINITY {
        notes.push(format!("we do not hear it (no Hello {})", ago(neighbour.last_hello_us)));
    }
    Row {
        cells: vec![
            clean(&neighbour.peer),
            neighbour.link.to_string(),
            clean(&neighbour.address),
            rtt(neighbour.rtt_us),
            percent(Some(neighbour.loss)),
            cost(neighbour.cost),
            cost(neighbour.rxcost),
            cost(neighbour.txcost),
            neighbour.last_hello_us.map_or("-".to_owned(), age),
            neighbour.last_ihu_us.map_or("-".to_owned(), age),
        ],
        notes,
    }
}

/// The tunnel that stands for the peer: the one that works and costs least.
fn best_link(peer: &Peer) -> Option<&Link> {
    peer.links.iter().min_by_key(|link| (rank(link.state), link.cost.unwrap_or(INFINITY), link.id))
}

fn link_state(link: &Link) -> String {
    let mut text = format!("{}, {} for {}", clean(&link.endpoint), word(link.state), duration(link.since_us));
    if let Some(role) = &link.role {
        text.push_str(&format!(", {}", clean(role)));
    }
    if let Some(port) = link.local_port {
        text.push_str(&format!(", from port {port}"));
    }
    if let Some(remote) = link.remote.as_ref().filter(|remote| **remote != link.endpoint) {
        text.push_str(&format!(", now at {}", clean(remote)));
    }
    text
}

fn link_details(link: &Link) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reason) = link.reason.as_ref().filter(|_| link.state != State::Up) {
        lines.push(clean(reason));
    }
    if link.rtt_us.is_some() || link.loss.is_some() || link.cost.is_some() {
        let cost = link.cost.map_or("-".to_owned(), cost);
        lines.push(format!("RTT {}, loss {}, cost {cost}", rtt(link.rtt_us), percent(link.loss)));
    }
    if let (Some(spi_in), Some(spi_out)) = (link.spi_in, link.spi_out) {
        let esp = link.esp_suite.as_deref().unwrap_or("-");
        lines.push(format!("ESP {esp}, SPI in {spi_in:08x}, out {spi_out:08x}"));
    }
    if let Some(ike) = &link.ike_suite {
        lines.push(format!("IKE {}", clean(ike)));
    }
    if link.packets_in > 0 || link.packets_out > 0 {
        let heard = link.heard_us.map_or(String::new(), |us| format!(", last heard {} ago", age(us)));
        let (packets_in, packets_out) = (link.packets_in, link.packets_out);
        let (octets_in, octets_out) = (amount(link.octets_in), amount(link.octets_out));
        lines.push(format!("in {octets_in} ({packets_in} packets), out {octets_out} ({packets_out} packets){heard}"));
    }
    lines
}

fn refusal(refused: &Refused) -> String {
    let name =
        refused.name.as_ref().map_or("somebody".to_owned(), |name| format!("'{}'", table::cut(&clean(name), 63)));
    format!("{name} from {}: {}", clean(&refused.from), clean(&refused.reason))
}

/// Why the peer is not up: its own words, or those of a tunnel.
fn reason(peer: &Peer) -> Option<String> {
    let of_links = || peer.links.iter().find_map(|link| link.reason.as_ref());
    match (peer.state, peer.reason.as_ref().or_else(of_links)) {
        (State::Up, _) => None,
        (_, Some(reason)) => Some(clean(reason)),
        (State::Waiting, None) => Some("has no endpoint here and has not dialled us".to_owned()),
        (State::NoData | State::Connecting | State::Down, None) => None,
    }
}

fn state_words(peer: &Peer) -> String {
    match &peer.via {
        None => word(peer.state).to_owned(),
        Some(via) => format!("{} via {}", word(peer.state), clean(via)),
    }
}

/// Where the tunnel's packets go.
fn place(link: &Link) -> String {
    clean(link.remote.as_ref().unwrap_or(&link.endpoint))
}

fn word(state: State) -> &'static str {
    match state {
        State::Up => "up",
        State::NoData => "no data",
        State::Connecting => "connecting",
        State::Down => "down",
        State::Waiting => "waiting",
    }
}

/// Best first.
fn rank(state: State) -> usize {
    match state {
        State::Up => 0,
        State::NoData => 1,
        State::Connecting => 2,
        State::Down => 3,
        State::Waiting => 4,
    }
}

fn cost(cost: u16) -> String {
    if cost == INFINITY { "inf".to_owned() } else { cost.to_string() }
}

/// Without what a terminal obeys or a reader cannot see.
fn clean(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if hidden(c) { '?' } else { c }).collect()
}

/// Babel's infinity (RFC 8966 §2.4).
const INFINITY: u16 = 0xffff;
/// More peers than this that are not up are shown in groups.
const MANY: usize = 6;
const MAX_GROUPS: usize = 4;
const MAX_NAME_LINES: usize = 2;
const DETAIL_INDENT: usize = 12;

#[cfg(test)]
mod tests;
