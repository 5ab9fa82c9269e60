//! Octets to TLVs, with the state that a packet carries along (RFC 8966 §4.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{
    Hello, INFINITY, Ihu, MAGIC, Origin, RouterId, SeqnoRequest, Stamps, Tlv, UNICAST_HELLO, UPDATE_SETS_PREFIX,
    UPDATE_SETS_ROUTER_ID, Update, VERSION, ae, is_router_id, kind, sub,
};
use crate::prefix::Prefix;

/// Why a packet or a TLV was not taken. All of it is the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("not a Babel version 2 packet")]
    Header,
    #[error("the packet is longer than its datagram")]
    BodyLength,
    #[error("a TLV reaches beyond its packet")]
    TlvLength,
    #[error("a TLV is too short for its contents")]
    Truncated,
    #[error("a sub-TLV reaches beyond its TLV")]
    SubTlvLength,
    #[error("an interval of zero")]
    ZeroInterval,
    #[error("an address encoding that this TLV does not allow")]
    AddressEncoding,
    #[error("a prefix longer than its address family")]
    PrefixLength,
    #[error("octets omitted without a default prefix")]
    NoDefaultPrefix,
    #[error("a router-id of all zeros or all ones")]
    RouterId,
    #[error("an update without a router-id")]
    NoRouterId,
    #[error("an update without a next hop")]
    NoNextHop,
    #[error("a wildcard update that is not a retraction")]
    WildcardUpdate,
    #[error("a wildcard with a prefix length")]
    WildcardPrefix,
    #[error("a source prefix of length zero, given twice, or with a wildcard")]
    SourcePrefix,
    #[error("a hop count of zero")]
    HopCount,
}

impl Malformed {
    /// A name for counting.
    pub fn reason(self) -> &'static str {
        match self {
            Malformed::Header => "babel header",
            Malformed::BodyLength => "babel body length",
            Malformed::TlvLength => "babel tlv length",
            Malformed::Truncated => "babel tlv truncated",
            Malformed::SubTlvLength => "babel sub-tlv length",
            Malformed::ZeroInterval => "babel zero interval",
            Malformed::AddressEncoding => "babel address encoding",
            Malformed::PrefixLength => "babel prefix length",
            Malformed::NoDefaultPrefix => "babel no default prefix",
            Malformed::RouterId => "babel router-id",
            Malformed::NoRouterId => "babel update without router-id",
            Malformed::NoNextHop => "babel update without next hop",
            Malformed::WildcardUpdate => "babel wildcard update",
            Malformed::WildcardPrefix => "babel wildcard prefix",
            Malformed::SourcePrefix => "babel source prefix",
            Malformed::HopCount => "babel hop count",
        }
    }
}

/// Reads a UDP payload; `from` is its IPv6 source, which is the next hop unless the packet names another.
///
/// Octets behind the body (the trailer of RFC 8967) are not looked at.
pub fn parse(payload: &[u8], from: Ipv6Addr) -> Result<Tlvs<'_>, Malformed> {
    let (header, rest) = payload.split_first_chunk::<4>().ok_or(Malformed::Header)?;
    let [magic, version, high, low] = *header;
    if magic != MAGIC || version != VERSION {
        return Err(Malformed::Header);
    }
    let body = rest.get(..usize::from(u16::from_be_bytes([high, low]))).ok_or(Malformed::BodyLength)?;
    Ok(Tlvs { rest: body, state: State::new(from) })
}

/// The TLVs of a packet, in order. A malformed one is an item of its own and the next one counts again, unless its length
/// lied: then nothing more comes. What is unknown, padding, or voided by an unknown mandatory sub-TLV is left out.
pub struct Tlvs<'a> {
    rest: &'a [u8],
    state: State,
}

impl Iterator for Tlvs<'_> {
    type Item = Result<Tlv, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.rest.split_first()?;
            if kind == kind::PAD1 {
                self.rest = rest;
                continue;
            }
            let Some((body, rest)) = counted(rest) else {
                self.rest = &[];
                return Some(Err(Malformed::TlvLength));
            };
            self.rest = rest;
            if let Some(item) = self.state.tlv(kind, Octets(body)).transpose() {
                return Some(item);
            }
        }
    }
}

/// A length octet, and as many octets.
fn counted(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = octets.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// RFC 8966 §4.5. It changes even when the TLV that changes it is ignored.
struct State {
    router_id: Option<RouterId>,
    next_hop4: Option<Ipv4Addr>,
    next_hop6: Ipv6Addr,
    /// Default prefixes, one for each encoding (RFC 9229 §3: encoding 4 has its own).
    ipv4: Option<[u8; 4]>,
    ipv4_via_ipv6: Option<[u8; 4]>,
    ipv6: Option<[u8; 16]>,
}

impl State {
    fn new(from: Ipv6Addr) -> State {
        State { router_id: None, next_hop4: None, next_hop6: from, ipv4: None, ipv4_via_ipv6: None, ipv6: None }
    }

    fn tlv(&mut self, kind: u8, body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
        match kind {
            kind::ACK_REQUEST => ack_request(body),
            kind::ACK => ack(body),
            kind::HELLO => hello(body),
            kind::IHU => ihu(body),
            kind::ROUTER_ID => self.router_id(body).map(|()| None),
            kind::NEXT_HOP => self.next_hop(body).map(|()| None),
            kind::UPDATE => self.update(body),
            kind::ROUTE_REQUEST => route_request(body),
            kind::SEQNO_REQUEST => seqno_request(body),
            _ => Ok(None),
        }
    }

    fn router_id(&mut self, mut body: Octets<'_>) -> Result<(), Malformed> {
        body.skip(2)?;
        self.router_id = Some(body.array()?).filter(is_router_id);
        self.router_id.map(|_| ()).ok_or(Malformed::RouterId)
    }

    fn next_hop(&mut self, mut body: Octets<'_>) -> Result<(), Malformed> {
        let encoding = body.u8()?;
        body.skip(1)?;
        match encoding {
            ae::IPV4 => self.next_hop4 = Some(Ipv4Addr::from(body.array::<4>()?)),
            ae::IPV6 => self.next_hop6 = Ipv6Addr::from(body.array::<16>()?),
            ae::LINK_LOCAL => self.next_hop6 = link_local(body.array()?),
            // RFC 8966 §4.6.8, RFC 9229 §3: neither the wildcard nor encoding 4 names an address.
            _ => return Err(Malformed::AddressEncoding),
        }
        Ok(())
    }

    fn update(&mut self, mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
        let encoding = body.u8()?;
        let flags = body.u8()?;
        let length = body.u8()?;
        let omitted = body.u8()?;
        let interval = body.u16()?;
        let seqno = body.u16()?;
        let metric = body.u16()?;
        let to = match encoding {
            ae::WILDCARD if length == 0 && omitted == 0 => None,
            ae::WILDCARD => return Err(Malformed::WildcardPrefix),
            ae::IPV4 | ae::IPV4_VIA_IPV6 => {
                let default = if encoding == ae::IPV4 { &mut self.ipv4 } else { &mut self.ipv4_via_ipv6 };
                let octets = body.prefix(length, omitted, *default)?;
                if flags & UPDATE_SETS_PREFIX != 0 {
                    *default = Some(octets);
                }
                if flags & UPDATE_SETS_ROUTER_ID != 0 {
                    let [a, b, c, d] = octets;
                    self.router_id = Some([0, 0, 0, 0, a, b, c, d]).filter(is_router_id);
                }
                Some(ipv4(octets, length)?)
            }
            ae::IPV6 => {
                let octets = body.prefix(length, omitted, self.ipv6)?;
                if flags & UPDATE_SETS_PREFIX != 0 {
                    self.ipv6 = Some(octets);
                }
                if flags & UPDATE_SETS_ROUTER_ID != 0 {
                    self.router_id = octets.last_chunk().copied().filter(is_router_id);
                }
                Some(ipv6(octets, length)?)
            }
            // Link-local prefixes are nothing to route to; other encodings are unknown (RFC 8966 §4.6.9).
            _ => return Err(Malformed::AddressEncoding),
        };
        let Some(from) = source_prefix(body, to)? else { return Ok(None) };
        let prefix = pair(to, from)?;
        if metric == INFINITY {
            // Nothing but the prefix counts: BIRD sends neither Router-Id nor Next Hop with a retraction.
            return Ok(Some(Tlv::Update(Update { prefix, interval, seqno, metric, origin: None })));
        }
        if prefix.is_none() {
            return Err(Malformed::WildcardUpdate);
        }
        if interval == 0 {
            return Err(Malformed::ZeroInterval);
        }
        let router_id = self.router_id.ok_or(Malformed::NoRouterId)?;
        let next_hop = if encoding == ae::IPV4 {
            IpAddr::V4(self.next_hop4.ok_or(Malformed::NoNextHop)?)
        } else {
            IpAddr::V6(self.next_hop6)
        };
        let origin = Some(Origin { router_id, next_hop });
        Ok(Some(Tlv::Update(Update { prefix, interval, seqno, metric, origin })))
    }
}

fn ack_request(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    body.skip(2)?;
    let opaque = body.u16()?;
    let interval = body.u16()?;
    if interval == 0 {
        return Err(Malformed::ZeroInterval);
    }
    Ok(understood(body)?.then_some(Tlv::AckRequest { opaque, interval }))
}

fn ack(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    let opaque = body.u16()?;
    Ok(understood(body)?.then_some(Tlv::Ack { opaque }))
}

fn hello(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    let flags = body.u16()?;
    let seqno = body.u16()?;
    let interval = body.u16()?;
    let mut stamp = None;
    while let Some((kind, mut value)) = body.sub_tlv()? {
        match kind {
            sub::TIMESTAMP => stamp = value.u32().ok().or(stamp),
            _ if kind >= sub::MANDATORY => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(Tlv::Hello(Hello { unicast: flags & UNICAST_HELLO != 0, seqno, interval, stamp })))
}

fn ihu(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    let encoding = body.u8()?;
    body.skip(1)?;
    let rxcost = body.u16()?;
    let interval = body.u16()?;
    let address = match encoding {
        ae::WILDCARD => None,
        ae::IPV4 => Some(IpAddr::from(body.array::<4>()?)),
        ae::IPV6 => Some(IpAddr::from(body.array::<16>()?)),
        ae::LINK_LOCAL => Some(IpAddr::V6(link_local(body.array()?))),
        _ => return Err(Malformed::AddressEncoding),
    };
    if interval == 0 {
        return Err(Malformed::ZeroInterval);
    }
    let mut stamps = None;
    while let Some((kind, mut value)) = body.sub_tlv()? {
        match kind {
            sub::TIMESTAMP => {
                if let (Ok(origin), Ok(receive)) = (value.u32(), value.u32()) {
                    stamps = Some(Stamps { origin, receive });
                }
            }
            _ if kind >= sub::MANDATORY => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(Tlv::Ihu(Ihu { address, rxcost, interval, stamps })))
}

fn route_request(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    let encoding = body.u8()?;
    let length = body.u8()?;
    let to = body.requested(encoding, length)?;
    let Some(from) = source_prefix(body, to)? else { return Ok(None) };
    Ok(Some(Tlv::RouteRequest { prefix: pair(to, from)? }))
}

fn seqno_request(mut body: Octets<'_>) -> Result<Option<Tlv>, Malformed> {
    let encoding = body.u8()?;
    let length = body.u8()?;
    let seqno = body.u16()?;
    let hop_count = body.u8()?;
    body.skip(1)?;
    let router_id = body.array()?;
    let to = body.requested(encoding, length)?;
    let Some(from) = source_prefix(body, to)? else { return Ok(None) };
    let prefix = pair(to, from)?.ok_or(Malformed::AddressEncoding)?;
    if hop_count == 0 {
        return Err(Malformed::HopCount);
    }
    if !is_router_id(&router_id) {
        return Err(Malformed::RouterId);
    }
    Ok(Some(Tlv::SeqnoRequest(SeqnoRequest { prefix, seqno, hop_count, router_id })))
}

/// Walks the sub-TLVs of a TLV that defines none: `false` if a mandatory one voids it.
fn understood(mut body: Octets<'_>) -> Result<bool, Malformed> {
    while let Some((kind, _)) = body.sub_tlv()? {
        if kind >= sub::MANDATORY {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The source prefix among the sub-TLVs (RFC 9079 §7.1), of the family of `to`. The outer `None`: the TLV is to be ignored.
fn source_prefix(mut body: Octets<'_>, to: Option<IpNet>) -> Result<Option<Option<IpNet>>, Malformed> {
    let mut from = None;
    while let Some((kind, mut value)) = body.sub_tlv()? {
        match kind {
            sub::SOURCE_PREFIX => {
                let length = value.u8()?;
                if length == 0 || from.is_some() {
                    return Err(Malformed::SourcePrefix);
                }
                from = Some(match to {
                    None => return Err(Malformed::SourcePrefix),
                    Some(IpNet::V4(_)) => ipv4(value.prefix(length, 0, None)?, length)?,
                    Some(IpNet::V6(_)) => ipv6(value.prefix(length, 0, None)?, length)?,
                });
            }
            _ if kind >= sub::MANDATORY => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(from))
}

fn pair(to: Option<IpNet>, from: Option<IpNet>) -> Result<Option<Prefix>, Malformed> {
    match (to, from) {
        (None, _) => Ok(None),
        (Some(to), None) => Ok(Some(Prefix::to(to))),
        (Some(to), Some(from)) => Prefix::new(to, from).map(Some).ok_or(Malformed::SourcePrefix),
    }
}

fn ipv4(octets: [u8; 4], length: u8) -> Result<IpNet, Malformed> {
    Ipv4Net::new(octets.into(), length).map(IpNet::V4).map_err(|_| Malformed::PrefixLength)
}

fn ipv6(octets: [u8; 16], length: u8) -> Result<IpNet, Malformed> {
    Ipv6Net::new(octets.into(), length).map(IpNet::V6).map_err(|_| Malformed::PrefixLength)
}

fn link_local(identifier: [u8; 8]) -> Ipv6Addr {
    Ipv6Addr::from((0xfe80 << 112) | u128::from(u64::from_be_bytes(identifier)))
}

/// What is left of a TLV.
struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.take(count).map(|_| ())
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// The address octets of a prefix of `length` bits, the first `omitted` taken from `default`; bits past the length are
    /// cleared (RFC 8966 §4.1.5, §4.6.9).
    fn prefix<const N: usize>(
        &mut self,
        length: u8,
        omitted: u8,
        default: Option<[u8; N]>,
    ) -> Result<[u8; N], Malformed> {
        let whole = usize::from(length).div_ceil(8);
        let omitted = usize::from(omitted);
        if whole > N || omitted > whole {
            return Err(Malformed::PrefixLength);
        }
        let mut octets = [0; N];
        if omitted > 0 {
            let default = default.ok_or(Malformed::NoDefaultPrefix)?;
            for (octet, known) in octets.iter_mut().zip(default).take(omitted) {
                *octet = known;
            }
        }
        let sent = self.take(whole - omitted)?;
        for (octet, sent) in octets.iter_mut().skip(omitted).zip(sent) {
            *octet = *sent;
        }
        if let (Some(last), spare @ 1..) = (octets.get_mut(whole.wrapping_sub(1)), whole * 8 - usize::from(length)) {
            *last &= 0xff << spare;
        }
        Ok(octets)
    }

    /// The prefix of a request, where encodings 1 and 4 mean the same (RFC 9229 §2.4); `None` is the wildcard.
    fn requested(&mut self, encoding: u8, length: u8) -> Result<Option<IpNet>, Malformed> {
        match encoding {
            ae::WILDCARD if length == 0 => Ok(None),
            ae::WILDCARD => Err(Malformed::WildcardPrefix),
            ae::IPV4 | ae::IPV4_VIA_IPV6 => ipv4(self.prefix(length, 0, None)?, length).map(Some),
            ae::IPV6 => ipv6(self.prefix(length, 0, None)?, length).map(Some),
            _ => Err(Malformed::AddressEncoding),
        }
    }

    /// The next sub-TLV but padding of one octet.
    fn sub_tlv(&mut self) -> Result<Option<(u8, Octets<'a>)>, Malformed> {
        while let Some((&kind, rest)) = self.0.split_first() {
            self.0 = rest;
            if kind != sub::PAD1 {
                let (value, rest) = counted(rest).ok_or(Malformed::SubTlvLength)?;
                self.0 = rest;
                return Ok(Some((kind, Octets(value))));
            }
        }
        Ok(None)
    }
}
