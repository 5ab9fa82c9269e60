//! TLVs to octets, as many as fit into a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::{MAGIC, Origin, RouterId, Tlv, UNICAST_HELLO, UPDATE_SETS_PREFIX, Update, VERSION, ae, kind, sub};
use crate::prefix::Prefix;

/// A packet being filled. Router-Id and Next Hop TLVs are added where an Update needs them, prefixes are compressed.
pub struct Packet {
    octets: Vec<u8>,
    limit: usize,
    state: State,
}

/// What the receiver knows at this point of the packet (RFC 8966 §4.5).
#[derive(Clone, Copy)]
struct State {
    router_id: Option<RouterId>,
    next_hop4: Option<Ipv4Addr>,
    next_hop6: Ipv6Addr,
    ipv6: Option<[u8; 16]>,
}

impl Packet {
    /// An empty packet of at most `limit` octets, header included, sent from `from`.
    pub fn new(limit: usize, from: Ipv6Addr) -> Packet {
        let state = State { router_id: None, next_hop4: None, next_hop6: from, ipv6: None };
        Packet { octets: vec![MAGIC, VERSION, 0, 0], limit: limit.min(HEADER + usize::from(u16::MAX)), state }
    }

    pub fn is_empty(&self) -> bool {
        self.octets.len() <= HEADER
    }

    /// Appends a TLV and whatever it needs before it; `false`, with the packet unchanged, if there is no room.
    #[must_use]
    pub fn push(&mut self, tlv: &Tlv) -> bool {
        let (length, state) = (self.octets.len(), self.state);
        self.write(tlv);
        let fits = self.octets.len() <= self.limit;
        if !fits {
            self.octets.truncate(length);
            self.state = state;
        }
        fits
    }

    /// The UDP payload.
    pub fn finish(mut self) -> Vec<u8> {
        let body = self.octets.len().saturating_sub(HEADER);
        if let Some(length) = self.octets.get_mut(2..HEADER) {
            length.copy_from_slice(&u16::try_from(body).unwrap_or(u16::MAX).to_be_bytes());
        }
        self.octets
    }

    fn write(&mut self, tlv: &Tlv) {
        match tlv {
            Tlv::AckRequest { opaque, interval } => {
                self.tlv(kind::ACK_REQUEST, |out| {
                    out.extend([0, 0]);
                    out.extend(opaque.to_be_bytes());
                    out.extend(interval.to_be_bytes());
                });
            }
            Tlv::Ack { opaque } => self.tlv(kind::ACK, |out| out.extend(opaque.to_be_bytes())),
            Tlv::Hello(hello) => self.tlv(kind::HELLO, |out| {
                out.extend(if hello.unicast { UNICAST_HELLO } else { 0 }.to_be_bytes());
                out.extend(hello.seqno.to_be_bytes());
                out.extend(hello.interval.to_be_bytes());
                if let Some(stamp) = hello.stamp {
                    out.extend([sub::TIMESTAMP, 4]);
                    out.extend(stamp.to_be_bytes());
                }
            }),
            Tlv::Ihu(ihu) => self.tlv(kind::IHU, |out| {
                let (encoding, address) = address(ihu.address);
                out.extend([encoding, 0]);
                out.extend(ihu.rxcost.to_be_bytes());
                out.extend(ihu.interval.to_be_bytes());
                out.extend(address);
                if let Some(stamps) = ihu.stamps {
                    out.extend([sub::TIMESTAMP, 8]);
                    out.extend(stamps.origin.to_be_bytes());
                    out.extend(stamps.receive.to_be_bytes());
                }
            }),
            Tlv::Update(update) => self.update(update),
            Tlv::RouteRequest { prefix } => self.tlv(kind::ROUTE_REQUEST, |out| match prefix {
                None => out.extend([ae::WILDCARD, 0]),
                Some(prefix) => {
                    let net = prefix.destination();
                    out.extend([family(net), net.prefix_len()]);
                    out.extend(octets(net));
                    source(out, prefix);
                }
            }),
            Tlv::SeqnoRequest(request) => self.tlv(kind::SEQNO_REQUEST, |out| {
                let net = request.prefix.destination();
                out.extend([family(net), net.prefix_len()]);
                out.extend(request.seqno.to_be_bytes());
                out.extend([request.hop_count, 0]);
                out.extend(request.router_id);
                out.extend(octets(net));
                source(out, &request.prefix);
            }),
        }
    }

    fn update(&mut self, update: &Update) {
        if let Some(origin) = &update.origin {
            self.origin(origin);
        }
        let v4_next_hop = matches!(update.origin, Some(Origin { next_hop: IpAddr::V4(_), .. }));
        let (encoding, length, address) = match &update.prefix {
            None => (ae::WILDCARD, 0, Vec::new()),
            Some(prefix) => {
                let net = prefix.destination();
                let encoding = match net {
                    IpNet::V4(_) if v4_next_hop => ae::IPV4,
                    IpNet::V4(_) => ae::IPV4_VIA_IPV6,
                    IpNet::V6(_) => ae::IPV6,
                };
                (encoding, net.prefix_len(), octets(net))
            }
        };
        let (flags, omitted) = match &update.prefix {
            Some(prefix) => self.compress(prefix.destination(), address.len()),
            None => (0, 0),
        };
        self.tlv(kind::UPDATE, |out| {
            out.extend([encoding, flags, length, omitted]);
            out.extend(update.interval.to_be_bytes());
            out.extend(update.seqno.to_be_bytes());
            out.extend(update.metric.to_be_bytes());
            out.extend(address.iter().skip(usize::from(omitted)));
            if let Some(prefix) = &update.prefix {
                source(out, prefix);
            }
        });
    }

    /// Tells the router-id and the next hop if the receiver does not have them in mind already.
    fn origin(&mut self, origin: &Origin) {
        // BIRD honours a router-id inside an address for IPv6 only, so it always gets its own TLV.
        if self.state.router_id != Some(origin.router_id) {
            self.state.router_id = Some(origin.router_id);
            self.tlv(kind::ROUTER_ID, |out| {
                out.extend([0, 0]);
                out.extend(origin.router_id);
            });
        }
        let known = match origin.next_hop {
            IpAddr::V4(next_hop) => self.state.next_hop4.replace(next_hop) == Some(next_hop),
            IpAddr::V6(next_hop) => std::mem::replace(&mut self.state.next_hop6, next_hop) == next_hop,
        };
        if !known {
            self.tlv(kind::NEXT_HOP, |out| {
                let (encoding, address) = address(Some(origin.next_hop));
                out.extend([encoding, 0]);
                out.extend(address);
            });
        }
    }

    /// How many leading octets need not be sent, and whether this prefix becomes the default (flags, omitted).
    fn compress(&mut self, net: IpNet, whole: usize) -> (u8, u8) {
        let IpNet::V6(net) = net else { return (0, 0) };
        let octets = net.network().octets();
        let known = self.state.ipv6.unwrap_or_default();
        let shared = octets.iter().zip(known).take(whole).take_while(|(a, b)| *a == b).count();
        if self.state.ipv6.is_some() && shared >= WORTH_OMITTING {
            return (0, u8::try_from(shared).unwrap_or(0));
        }
        if whole < WORTH_OMITTING {
            return (0, 0);
        }
        self.state.ipv6 = Some(octets);
        (UPDATE_SETS_PREFIX, 0)
    }

    fn tlv(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.octets.extend([kind, 0]);
        let start = self.octets.len();
        body(&mut self.octets);
        // The longest TLV here, a source-specific Seqno Request, has 49 octets.
        let length = u8::try_from(self.octets.len() - start).unwrap_or(u8::MAX);
        if let Some(octet) = self.octets.get_mut(start - 1) {
            *octet = length;
        }
    }
}

fn source(out: &mut Vec<u8>, prefix: &Prefix) {
    if prefix.is_source_specific() {
        let net = prefix.source();
        let octets = octets(net);
        let length = u8::try_from(octets.len() + 1).unwrap_or(u8::MAX);
        out.extend([sub::SOURCE_PREFIX, length, net.prefix_len()]);
        out.extend(octets);
    }
}

fn family(net: IpNet) -> u8 {
    match net {
        IpNet::V4(_) => ae::IPV4,
        IpNet::V6(_) => ae::IPV6,
    }
}

/// The octets of a prefix that its length covers.
fn octets(net: IpNet) -> Vec<u8> {
    let mut octets = match net {
        IpNet::V4(net) => net.network().octets().to_vec(),
        IpNet::V6(net) => net.network().octets().to_vec(),
    };
    octets.truncate(usize::from(net.prefix_len()).div_ceil(8));
    octets
}

fn address(address: Option<IpAddr>) -> (u8, Vec<u8>) {
    match address {
        None => (ae::WILDCARD, Vec::new()),
        Some(IpAddr::V4(address)) => (ae::IPV4, address.octets().to_vec()),
        Some(IpAddr::V6(address)) => {
            let octets = address.octets();
            match octets.split_first_chunk::<8>() {
                Some((&LINK_LOCAL, identifier)) => (ae::LINK_LOCAL, identifier.to_vec()),
                _ => (ae::IPV6, octets.to_vec()),
            }
        }
    }
}

const HEADER: usize = 4;
const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// A default prefix that saves fewer octets than this is replaced.
const WORTH_OMITTING: usize = 4;
