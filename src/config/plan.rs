//! What a checked configuration means: the only form of it that the core sees.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};

use crate::crypto::aead::Cipher;
use crate::crypto::kex::Method;
use crate::crypto::prf::Prf;
use crate::crypto::sign::{PrivateKey, PublicKey};
use crate::identity::Identity;
use crate::offload::Offload;
use crate::prefix::Prefix;
pub use routing::{Filter, FromKernel, Rule, Terms, Tuning};

mod routing;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Our identity in IKE (ID_FQDN) and our name to the user.
    pub name: String,
    pub private_key: PrivateKey,
    /// UDP ports, at least one.
    pub listen: Vec<u16>,
    /// `None`: this node only relays.
    pub tun: Option<Tun>,
    /// Prefixes behind this node; the addresses of the TUN device are announced too and are not listed here.
    pub announce: Vec<Prefix>,
    pub from_kernel: Vec<FromKernel>,
    pub locator: Option<Ipv6Net>,
    pub steering: Steering,
    pub peers: Vec<Peer>,
    /// Of the node as a whole: what a peer has unless its entry says otherwise.
    pub suites: Suites,
    pub rekey: Rekey,
    pub babel: Babel,
    pub kernel: Kernel,
    pub offload: Offload,
    /// The unix socket of `wattle status`.
    pub control: PathBuf,
    /// The filter of log levels, if the file has one; read at the start only.
    pub log: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tun {
    pub name: String,
    pub mtu: u16,
    pub addresses: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    pub public_key: PublicKey,
    /// Each is dialled, each is a tunnel of its own. None: the peer dials us.
    pub endpoints: Vec<Endpoint>,
    pub locator: Option<Ipv6Net>,
    /// Prefixes behind a peer that does not speak Babel; reachable while its tunnel is up.
    pub routes: Vec<Prefix>,
    /// Never redial from another source port (a firewall lets only the listening port through).
    pub pin_port: bool,
    pub babel: Terms,
    /// Who it says it is, and who we say we are to it.
    pub remote_id: Identity,
    pub local_id: Identity,
    /// What we offer to it and accept from it.
    pub suites: Suites,
}

/// Segment routing: our policies, and what we do for those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    pub policies: Vec<Policy>,
    /// Who may send to SIDs without being in a locator that we know.
    pub sources: Vec<Ipv6Net>,
    /// Paths that end here may leave through the system's default route.
    pub exit: bool,
}

/// Which packets of the local network take which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub name: String,
    pub prefix: Prefix,
    pub protocol: Option<u8>,
    pub ports: Option<RangeInclusive<u16>>,
    pub dscp: Option<u8>,
    /// Waypoints and, last, the exit; empty: these packets are not steered.
    pub path: Vec<Segment>,
    pub reduced: bool,
    pub route_if_unreachable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The node, or the SID as it was written.
    pub name: String,
    pub sid: Ipv6Addr,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub host: Host,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    Address(IpAddr),
    Name(String),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address @ IpAddr::V4(_)) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// What we offer and accept, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suites {
    pub ike: Vec<IkeSuite>,
    pub esp: Vec<Cipher>,
    pub post_quantum: PostQuantum,
}

/// One IKE proposal: `aes256gcm16-prfsha256-x25519-ke1_mlkem768`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkeSuite {
    pub cipher: Cipher,
    pub prf: Prf,
    pub exchange: Method,
    /// The additional key exchanges of RFC 9370, in order.
    pub additional: Vec<Method>,
}

impl IkeSuite {
    /// Every key exchange, in order.
    pub fn exchanges(&self) -> impl Iterator<Item = Method> + '_ {
        std::iter::once(self.exchange).chain(self.additional.iter().copied())
    }

    /// Whether ML-KEM takes part in its keys.
    pub fn is_post_quantum(&self) -> bool {
        self.exchanges().any(Method::is_post_quantum)
    }
}

impl std::fmt::Display for IkeSuite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.cipher.name(), self.prf.name(), self.exchange.name())?;
        for (number, method) in (1..).zip(&self.additional) {
            write!(f, "-ke{number}_{}", method.name())?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostQuantum {
    /// A session without ML-KEM is refused.
    Required,
    /// Proposals with ML-KEM come first.
    Preferred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Babel {
    pub hello_interval: Duration,
}

/// How routes reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Routing table that is ours alone.
    pub table: u32,
    /// Mark of our own sockets; the rule to our table leaves packets with it out.
    pub mark: u32,
    /// Preference of our rules (ip rule): `rule` looks into main without its default routes, `rule + 1` into our table.
    pub rule: u32,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel { table: 5270, mark: 0x5774, rule: 5270 }
    }
}

/// How long SAs live before they are rekeyed; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    pub child: Option<Duration>,
    pub ike: Option<Duration>,
    /// Octets of one direction of a Child SA.
    pub octets: Option<u64>,
}

impl Rekey {
    pub const NEVER: Rekey = Rekey { child: None, ike: None, octets: None };
}

impl Default for Rekey {
    fn default() -> Rekey {
        Rekey {
            child: Some(Duration::from_secs(3600)),
            ike: Some(Duration::from_secs(4 * 3600)),
            octets: Some(1_000_000_000_000),
        }
    }
}

impl Default for Babel {
    fn default() -> Babel {
        Babel { hello_interval: Duration::from_secs(4) }
    }
}

impl Suites {
    /// X25519 + ML-KEM-768 first, X25519 alone for peers that cannot do better; AES-GCM first where the CPU has AES instructions,
    /// else ChaCha20-Poly1305.
    pub fn default_for(hardware_aes: bool) -> Suites {
        let order = if hardware_aes {
            [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305]
        } else {
            [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm]
        };
        let suite = |additional: &[Method], cipher| IkeSuite {
            cipher,
            prf: Prf::HmacSha2_256,
            exchange: Method::X25519,
            additional: additional.to_vec(),
        };
        let both = |additional| order.map(|cipher| suite(additional, cipher));
        Suites {
            ike: [both(&[Method::MlKem768]), both(&[])].concat(),
            esp: vec![order[0], order[1], Cipher::Aes128Gcm],
            post_quantum: PostQuantum::Preferred,
        }
    }

    /// The same with ML-KEM in every session, or none.
    pub fn required(self) -> Suites {
        Suites { post_quantum: PostQuantum::Required, ..self }.in_order()
    }

    /// Only what the policy allows, and what has ML-KEM first.
    pub fn in_order(mut self) -> Suites {
        match self.post_quantum {
            PostQuantum::Required => self.ike.retain(IkeSuite::is_post_quantum),
            PostQuantum::Preferred => self.ike.sort_by_key(|suite| !suite.is_post_quantum()),
        }
        self
    }
}
