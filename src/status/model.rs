//! The versioned structs behind every view: the JSON is these structs, the text is rendered from them.
//!
//! Base units: microseconds, octets, bits a second; names in snake_case. A leaf: `node` fills it, `status` shows it.

use serde::{Deserialize, Serialize};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA: u32 = 1;

/// What a request on the unix socket asks for: one JSON line, answered by one JSON line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    Snapshot,
    Path {
        to: String,
        from: Option<String>,
    },
    /// Send probes along the path of a packet; answered at once, and then [`Request::TraceResult`] is asked until it is done.
    Trace {
        to: String,
        from: Option<String>,
    },
    TraceResult,
    /// Read the configuration again.
    Reload,
    /// Make new keys for the sessions with a peer.
    Rekey {
        peer: String,
        ike: bool,
        children: bool,
    },
    /// Whether the daemon is alive.
    Health,
}

#[expect(clippy::large_enum_variant, reason = "one is made for a request, and none is kept")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Snapshot(Box<Snapshot>),
    Path(PathReport),
    Trace(TraceReport),
    /// What a command, or a look at the daemon's health, came to, in one line.
    Done {
        fine: bool,
        message: String,
    },
    Error {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub schema: u32,
    pub version: String,
    pub name: String,
    pub fingerprint: String,
    pub uptime_us: u64,
    pub tun: Option<Tun>,
    pub listen: Vec<u16>,
    /// The suite offered first.
    pub ike_suite: String,
    pub esp_suite: String,
    pub octets_in: u64,
    pub octets_out: u64,
    /// Over the last seconds.
    pub bits_in_per_s: u64,
    pub bits_out_per_s: u64,
    pub peers: Vec<Peer>,
    pub neighbours: Vec<Neighbour>,
    pub routes: Vec<Route>,
    #[serde(default)]
    pub policies: Vec<Policy>,
    pub drops: Vec<Drop>,
    /// Sessions that others have begun and not proved themselves in yet. From 16 on a new one must show a cookie.
    #[serde(default)]
    pub half_open: usize,
    #[serde(default)]
    pub sas: Vec<Sa>,
    #[serde(default)]
    pub config: Config,
    /// Who knocked and was refused, newest first.
    pub refused: Vec<Refused>,
}

/// The configuration in force, and what of the file is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Since it was read.
    pub age_us: u64,
    /// Why a newer file was not taken: nothing of it is in force.
    pub problem: Option<String>,
    /// Fields that differ and take effect at the next start only.
    pub needs_restart: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tun {
    pub name: String,
    pub mtu: u16,
    pub addresses: Vec<String>,
}

/// `Up` means that data has arrived through a tunnel, not only that IKE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Up,
    /// IKE answers, but no data arrives.
    NoData,
    Connecting,
    Down,
    /// It has no endpoint and has not dialled us.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    pub fingerprint: String,
    pub state: State,
    /// The name of the peer that traffic to this one goes through, if not directly.
    pub via: Option<String>,
    /// In words, whenever the state is not up.
    pub reason: Option<String>,
    /// How long the state has lasted.
    pub since_us: u64,
    pub links: Vec<Link>,
}

/// A tunnel to a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub id: u32,
    /// As configured, or the address the peer dialled from.
    pub endpoint: String,
    /// Where ESP goes now.
    pub remote: Option<String>,
    pub local_port: Option<u16>,
    pub state: State,
    pub reason: Option<String>,
    pub since_us: u64,
    pub role: Option<String>,
    pub ike_suite: Option<String>,
    pub esp_suite: Option<String>,
    pub spi_in: Option<u32>,
    pub spi_out: Option<u32>,
    pub rtt_us: Option<u64>,
    /// Share of Hellos lost, 0 to 1.
    pub loss: Option<f32>,
    pub cost: Option<u16>,
    pub packets_in: u64,
    pub octets_in: u64,
    pub packets_out: u64,
    pub octets_out: u64,
    /// Since the last packet that verified.
    pub heard_us: Option<u64>,
}

/// An IKE SA, standing or being made, with its Child SAs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sa {
    /// Not before it has said who it is, if it called.
    pub peer: Option<String>,
    /// In words.
    pub state: String,
    pub established: bool,
    /// `initiator` or `responder`: ours, of the exchange that made it.
    pub role: String,
    /// In 16 hexadecimal digits, as everybody else writes them.
    pub spi_initiator: String,
    pub spi_responder: String,
    pub remote: String,
    pub local_port: Option<u16>,
    pub suite: Option<String>,
    pub age_us: u64,
    /// Until we rekey it, unless the peer does before.
    pub rekey_us: Option<u64>,
    pub children: Vec<ChildSa>,
}

/// A pair of ESP SAs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildSa {
    pub spi_in: u32,
    pub spi_out: u32,
    /// With the key exchanges of its own, if it has any (PFS).
    pub suite: String,
    pub role: ChildRole,
    pub age_us: u64,
    pub rekey_us: Option<u64>,
    pub packets_in: u64,
    pub octets_in: u64,
    pub packets_out: u64,
    pub octets_out: u64,
    /// Packets that the replay window refused.
    pub replays: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildRole {
    /// Both ways.
    Sending,
    /// Received on; to be sent on when the peer has deleted its predecessor.
    Standby,
    /// Received on until it is deleted: another one has its place.
    Leaving,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    pub peer: String,
    pub link: u32,
    pub address: String,
    pub rtt_us: Option<u64>,
    pub loss: f32,
    pub rxcost: u16,
    pub txcost: u16,
    pub cost: u16,
    pub last_hello_us: Option<u64>,
    pub last_ihu_us: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub to: String,
    /// For source-specific routes.
    pub from: Option<String>,
    /// `local`, `unreachable`, or the peer's name.
    pub via: String,
    pub link: Option<u32>,
    pub metric: u16,
    /// As the neighbour announced it, without the cost of the link; 65535 is infinity, as everywhere.
    pub received_metric: u16,
    pub selected: bool,
    pub feasible: bool,
    /// Why it is not selected.
    pub unused: Option<Unused>,
    /// The originating node, by name if its router-id is known.
    pub origin: String,
    pub router_id: String,
    pub seqno: u16,
}

/// Why a route is not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unused {
    LinkLost,
    /// Feasibility (RFC 8966 §3.5.1): it might lead in a circle.
    Unfeasible,
    Longer,
    /// Shorter, but not for long enough.
    NotYet,
}

/// Which packets are steered, and whether they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub name: String,
    pub to: String,
    pub from: Option<String>,
    pub protocol: Option<u8>,
    pub ports: Option<String>,
    pub dscp: Option<u8>,
    /// Waypoints and exit.
    pub path: Vec<String>,
    pub state: PolicyState,
    /// In words, where the path has no way.
    pub reason: Option<String>,
    /// Octets of the largest packet that fits.
    pub mtu: Option<u16>,
    pub packets: u64,
    pub octets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyState {
    Active,
    /// A waypoint or the exit has no route: packets are dropped,
    Dropping,
    /// or routed as if there were no policy.
    Routed,
    /// It steers nothing on purpose.
    Exempt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    pub reason: String,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub from: String,
    pub name: Option<String>,
    pub reason: String,
    pub ago_us: u64,
    pub count: u64,
}

/// `wattle path DST`: one packet's way, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    pub schema: u32,
    pub to: String,
    pub from: Option<String>,
    /// The route that matches, as `to` or `to from source`.
    pub route: Option<String>,
    pub metric: Option<u16>,
    /// `local`, `unreachable`, `no route`, or the next peer's name.
    pub next_hop: String,
    pub link: Option<Link>,
    /// The originating node.
    pub origin: Option<String>,
    /// The policy that steers it; route and link are then those to the first segment.
    #[serde(default)]
    pub policy: Option<String>,
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// Octets that the path adds to the packet.
    #[serde(default)]
    pub overhead: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub name: String,
    pub sid: String,
    /// The peer by which packets for it leave from here; `local`; nothing without a route.
    pub via: Option<String>,
}

/// `wattle trace DST`: what each waypoint answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    pub schema: u32,
    pub to: String,
    pub policy: Option<String>,
    pub done: bool,
    pub steps: Vec<TraceStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    pub name: String,
    pub sid: String,
    /// There by the path, back by the shortest way.
    pub rtt_us: Option<u64>,
    pub reached: bool,
    pub answer: Option<String>,
}
