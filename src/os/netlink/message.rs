//! rtnetlink messages as octets: `struct nlmsghdr`, a fixed structure, then attributes aligned to four octets.
//!
//! Integers are in the machine's order. Reading never panics and never looks beyond the message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Our mark on routes and rules (`rtm_protocol`, `FRA_PROTOCOL`): what carries it is ours to remove.
pub const PROTOCOL: u8 = 0x57;

/// A unicast route to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub table: u32,
    pub to: IpNet,
    /// The interface index.
    pub device: u32,
}

/// A policy rule (`ip rule`) that looks a packet up in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub ipv6: bool,
    pub preference: u32,
    /// Only for packets from here.
    pub from: Option<IpNet>,
    /// Only for packets whose firewall mark is this one, under this mask.
    pub mark: Option<(u32, u32)>,
    /// For all packets that the rest of the rule does **not** match (`ip rule add not …`).
    pub invert: bool,
    pub table: u32,
    /// Only for packets that come from the device of this name, filled up with zeros.
    pub iif: Option<[u8; 16]>,
    /// Whatever the table's default routes say does not count (`suppress_prefixlength 0`).
    pub no_default: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub device: u32,
    pub address: IpNet,
}

/// What the kernel tells us: the entries of a dump, or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A route of ours.
    Route {
        route: Route,
        gone: bool,
    },
    /// A rule of ours.
    Rule {
        rule: Rule,
        gone: bool,
    },
    Link {
        device: u32,
        up: bool,
        gone: bool,
    },
    AddressGone {
        device: u32,
    },
}

/// A request without its length, sequence number and flags for the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    octets: Vec<u8>,
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
}

/// Sets a device up, with this MTU.
pub fn link_up(device: u32, mtu: u32) -> Request {
    link(device, mtu, 0)
}

/// The same for a TUN device, and without multicast: the kernel has nothing to say on it by itself (listener reports).
pub fn tun_up(device: u32, mtu: u32) -> Request {
    link(device, mtu, IFF_MULTICAST)
}

/// No IPv6 link-local address for this device, hence no router solicitations. Only before it is up.
pub fn no_link_local(device: u32) -> Request {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let mut request = Request::new(RTM_NEWLINK, 0, &fixed);
    let mode = attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
    request.attribute(IFLA_AF_SPEC, &attribute(u16::from(AF_INET6), &mode));
    request
}

/// Packets from the device may have an address of ours as their source: IPv4 takes such ICMP errors for forgeries otherwise.
pub fn accept_local(device: u32) -> Request {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let mut request = Request::new(RTM_NEWLINK, 0, &fixed);
    let settings = attribute(IFLA_INET_CONF, &attribute(IPV4_DEVCONF_ACCEPT_LOCAL, &1u32.to_ne_bytes()));
    request.attribute(IFLA_AF_SPEC, &attribute(u16::from(AF_INET), &settings));
    request
}

/// Adds an address. Its prefix makes no route: those belong into our own table.
pub fn address_add(address: &Address) -> Request {
    let family = family(&address.address);
    let mut fixed = [family, address.address.prefix_len(), 0, 0, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&address.device.to_ne_bytes());
    let mut request = Request::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &fixed);
    let octets = octets(address.address.addr());
    request.attribute(IFA_LOCAL, &octets);
    request.attribute(IFA_ADDRESS, &octets);
    request.attribute(IFA_FLAGS, &(IFA_F_NODAD | IFA_F_NOPREFIXROUTE).to_ne_bytes());
    request
}

pub fn route_add(route: &Route) -> Request {
    route_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route)
}

pub fn route_delete(route: &Route) -> Request {
    route_request(RTM_DELROUTE, 0, route)
}

/// An IPv6 default route in the main table, of the lowest preference: one that a router advertises (1024) comes first.
pub fn default_route_add(gateway: Ipv6Addr) -> Request {
    let mut request = default_route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
    request.attribute(RTA_GATEWAY, &gateway.octets());
    request
}

/// Ours, wherever it leads.
pub fn default_route_delete() -> Request {
    default_route(RTM_DELROUTE, 0)
}

pub fn rule_add(rule: &Rule) -> Request {
    rule_request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)
}

pub fn rule_delete(rule: &Rule) -> Request {
    rule_request(RTM_DELRULE, 0, rule)
}

/// All routes of ours in one family; a kernel before 4.20 gives those of others too, which [`decode`] leaves out.
pub fn dump_routes(ipv6: bool) -> Request {
    let family = if ipv6 { AF_INET6 } else { AF_INET };
    Request::new(RTM_GETROUTE, NLM_F_DUMP, &[family, 0, 0, 0, 0, PROTOCOL, 0, 0, 0, 0, 0, 0])
}

/// All rules of one family.
pub fn dump_rules(ipv6: bool) -> Request {
    let family = if ipv6 { AF_INET6 } else { AF_INET };
    Request::new(RTM_GETRULE, NLM_F_DUMP, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Reads a message; `None` for what does not concern us.
pub fn decode(kind: u16, payload: &[u8]) -> Option<Event> {
    match kind {
        RTM_NEWROUTE | RTM_DELROUTE => Some(Event::Route { route: read_route(payload)?, gone: kind == RTM_DELROUTE }),
        RTM_NEWRULE | RTM_DELRULE => Some(Event::Rule { rule: read_rule(payload)?, gone: kind == RTM_DELRULE }),
        RTM_NEWLINK | RTM_DELLINK => {
            let up = read_u32(payload.get(8..)?)? & IFF_UP != 0;
            Some(Event::Link { device: read_u32(payload.get(4..)?)?, up, gone: kind == RTM_DELLINK })
        }
        RTM_DELADDR => Some(Event::AddressGone { device: read_u32(payload.get(4..)?)? }),
        _ => None,
    }
}

impl Request {
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Request {
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        octets.extend_from_slice(fixed);
        Request { octets }
    }

    fn attribute(&mut self, kind: u16, data: &[u8]) {
        self.octets.extend_from_slice(&attribute(kind, data));
    }

    pub(super) fn is_dump(&self) -> bool {
        u16::from_ne_bytes([self.octets[6], self.octets[7]]) & NLM_F_DUMP == NLM_F_DUMP
    }

    /// The octets for the wire; everything but a dump asks for an acknowledgement.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.octets.len()).unwrap_or(0);
        self.octets[..4].copy_from_slice(&length.to_ne_bytes());
        if !self.is_dump() {
            let flags = u16::from_ne_bytes([self.octets[6], self.octets[7]]) | NLM_F_ACK;
            self.octets[6..8].copy_from_slice(&flags.to_ne_bytes());
        }
        self.octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.octets
    }
}

/// The messages of what one read gave; a damaged one ends it.
pub(super) fn messages(mut buffer: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(read_u32(buffer)?).ok()?;
        let message = buffer.get(..length)?;
        let kind = read_u16(message.get(4..)?)?;
        let sequence = read_u32(message.get(8..)?)?;
        let payload = message.get(HEADER..)?;
        buffer = buffer.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message { kind, sequence, payload })
    })
}

/// The kernel's verdict in an acknowledgement: zero or an errno.
pub(super) fn read_error(payload: &[u8]) -> Option<i32> {
    payload.first_chunk().map(|octets| i32::from_ne_bytes(*octets).wrapping_neg())
}

fn link(device: u32, mtu: u32, without: u32) -> Request {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    fixed[8..12].copy_from_slice(&IFF_UP.to_ne_bytes());
    fixed[12..].copy_from_slice(&(IFF_UP | without).to_ne_bytes());
    let mut request = Request::new(RTM_NEWLINK, 0, &fixed);
    request.attribute(IFLA_MTU, &mtu.to_ne_bytes());
    request
}

fn route_request(kind: u16, flags: u16, route: &Route) -> Request {
    // An IPv4 route to a device without a gateway has the scope of the link; IPv6 has no scopes.
    let scope = if matches!(route.to, IpNet::V4(_)) { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
    let small = u8::try_from(route.table).unwrap_or(RT_TABLE_UNSPEC);
    let fixed = [family(&route.to), route.to.prefix_len(), 0, 0, small, PROTOCOL, scope, RTN_UNICAST, 0, 0, 0, 0];
    let mut request = Request::new(kind, flags, &fixed);
    request.attribute(RTA_DST, &octets(route.to.network()));
    if small == RT_TABLE_UNSPEC {
        request.attribute(RTA_TABLE, &route.table.to_ne_bytes());
    }
    request.attribute(RTA_OIF, &route.device.to_ne_bytes());
    request
}

fn default_route(kind: u16, flags: u16) -> Request {
    let fixed = [AF_INET6, 0, 0, 0, RT_TABLE_MAIN, PROTOCOL, RT_SCOPE_UNIVERSE, RTN_UNICAST, 0, 0, 0, 0];
    let mut request = Request::new(kind, flags, &fixed);
    request.attribute(RTA_PRIORITY, &LAST_RESORT.to_ne_bytes());
    request
}

fn rule_request(kind: u16, flags: u16, rule: &Rule) -> Request {
    let family = if rule.ipv6 { AF_INET6 } else { AF_INET };
    let from_length = rule.from.map_or(0, |from| from.prefix_len());
    let small = u8::try_from(rule.table).unwrap_or(RT_TABLE_UNSPEC);
    let mut fixed = [family, 0, from_length, 0, small, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let invert = if rule.invert { FIB_RULE_INVERT } else { 0 };
    fixed[8..].copy_from_slice(&invert.to_ne_bytes());
    let mut request = Request::new(kind, flags, &fixed);
    request.attribute(FRA_PRIORITY, &rule.preference.to_ne_bytes());
    if let Some(from) = rule.from {
        request.attribute(FRA_SRC, &octets(from.network()));
    }
    if let Some(name) = rule.iif {
        let end = name.iter().position(|octet| *octet == 0).map_or(name.len(), |zero| zero + 1);
        request.attribute(FRA_IIFNAME, name.get(..end).unwrap_or_default());
    }
    if let Some((mark, mask)) = rule.mark {
        request.attribute(FRA_FWMARK, &mark.to_ne_bytes());
        // The kernel takes a whole mask for granted, except with the mark zero.
        if mark == 0 || mask != u32::MAX {
            request.attribute(FRA_FWMASK, &mask.to_ne_bytes());
        }
    }
    if small == RT_TABLE_UNSPEC {
        request.attribute(FRA_TABLE, &rule.table.to_ne_bytes());
    }
    if rule.no_default {
        request.attribute(FRA_SUPPRESS_PREFIXLEN, &0u32.to_ne_bytes());
    }
    request.attribute(FRA_PROTOCOL, &[PROTOCOL]);
    request
}

fn read_route(payload: &[u8]) -> Option<Route> {
    let (&[family, length, _, _, table, protocol, _, _, _, _, _, _], rest) = payload.split_first_chunk()?;
    if protocol != PROTOCOL {
        return None;
    }
    let mut route = Route { table: table.into(), to: read_net(family, length, None)?, device: 0 };
    for (kind, data) in attributes(rest) {
        match kind {
            RTA_DST => route.to = read_net(family, length, Some(data))?,
            RTA_OIF => route.device = read_u32(data)?,
            RTA_TABLE => route.table = read_u32(data)?,
            _ => {}
        }
    }
    Some(route)
}

fn read_rule(payload: &[u8]) -> Option<Rule> {
    let (&[family, _, from_length, _, table, _, _, _, a, b, c, d], rest) = payload.split_first_chunk()?;
    let invert = u32::from_ne_bytes([a, b, c, d]) & FIB_RULE_INVERT != 0;
    let ipv6 = family == AF_INET6;
    let mut rule =
        Rule { ipv6, preference: 0, from: None, mark: None, invert, table: table.into(), iif: None, no_default: false };
    let (mut ours, mut mark, mut mask) = (false, 0, None);
    for (kind, data) in attributes(rest) {
        match kind {
            FRA_PRIORITY => rule.preference = read_u32(data)?,
            FRA_TABLE => rule.table = read_u32(data)?,
            FRA_PROTOCOL => ours = data == [PROTOCOL],
            FRA_SRC => rule.from = Some(read_net(family, from_length, Some(data))?),
            FRA_IIFNAME => {
                let mut name = [0; 16];
                name.get_mut(..data.len())?.copy_from_slice(data);
                rule.iif = Some(name);
            }
            FRA_FWMARK => mark = read_u32(data)?,
            FRA_FWMASK => mask = Some(read_u32(data)?),
            // The kernel shows -1 for "suppresses nothing".
            FRA_SUPPRESS_PREFIXLEN => rule.no_default = read_u32(data)? == 0,
            _ => {}
        }
    }
    rule.mark = match mask {
        None if mark == 0 => None,
        mask => Some((mark, mask.unwrap_or(u32::MAX))),
    };
    ours.then_some(rule)
}

pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(read_u16(rest)?);
        let kind = read_u16(rest.get(2..)?)? & NLA_TYPE_MASK;
        let data = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, data))
    })
}

fn attribute(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = 4 + data.len();
    let mut octets = Vec::with_capacity(length.next_multiple_of(4));
    octets.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_ne_bytes());
    octets.extend_from_slice(&kind.to_ne_bytes());
    octets.extend_from_slice(data);
    octets.resize(length.next_multiple_of(4), 0);
    octets
}

fn family(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => AF_INET,
        IpNet::V6(_) => AF_INET6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// A prefix; the kernel leaves the address of a default route out.
pub(super) fn read_net(family: u8, length: u8, data: Option<&[u8]>) -> Option<IpNet> {
    let address = match (family, data) {
        (AF_INET, None) => Ipv4Addr::UNSPECIFIED.into(),
        (AF_INET, Some(data)) => IpAddr::from(*data.first_chunk::<4>()?),
        (AF_INET6, None) => Ipv6Addr::UNSPECIFIED.into(),
        (AF_INET6, Some(data)) => IpAddr::from(*data.first_chunk::<16>()?),
        _ => return None,
    };
    IpNet::new(address, length).ok()
}

pub(super) fn read_u32(octets: &[u8]) -> Option<u32> {
    octets.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

fn read_u16(octets: &[u8]) -> Option<u16> {
    octets.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

/// `sizeof(struct nlmsghdr)`.
const HEADER: usize = 16;

pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x0001;
const NLM_F_ACK: u16 = 0x0004;
pub(super) const NLM_F_DUMP: u16 = 0x0300;
const NLM_F_REPLACE: u16 = 0x0100;
const NLM_F_EXCL: u16 = 0x0200;
const NLM_F_CREATE: u16 = 0x0400;
/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const NLA_TYPE_MASK: u16 = 0x3fff;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
pub(super) const RTM_NEWROUTE: u16 = 24;
pub(super) const RTM_DELROUTE: u16 = 25;
pub(super) const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;

pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

const IFF_UP: u32 = 0x0001;
const IFF_MULTICAST: u32 = 0x1000;
const IFLA_MTU: u16 = 4;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET_CONF: u16 = 1;
const IPV4_DEVCONF_ACCEPT_LOCAL: u16 = 23;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;

const RT_TABLE_UNSPEC: u8 = 0;
const RT_TABLE_MAIN: u8 = 254;
const LAST_RESORT: u32 = 4096;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_OIF: u16 = 4;
pub(super) const RTA_TABLE: u16 = 15;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;

const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 0x2;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_PROTOCOL: u16 = 21;

/// The expected octets are what `ip` of iproute2 6.1 sends for the command in the comment (strace, little-endian).
#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    /// Checks the octets, and that reading them gives `event` again.
    fn check(request: Request, expected: &str, event: Event) {
        let octets = request.finish(SEQUENCE);
        assert_eq!(octets, hex(expected));
        let all: Vec<Message<'_>> = messages(&octets).collect();
        let [message] = all[..] else { panic!("{all:?}") };
        assert_eq!(decode(message.kind, message.payload), Some(event));
    }

    const SEQUENCE: u32 = 0x6b0d_ed79;
    const MAIN_V6: Rule = Rule {
        ipv6: true,
        preference: 5270,
        from: None,
        mark: None,
        invert: false,
        table: 254,
        iif: None,
        no_default: true,
    };

    #[test]
    fn routes() {
        // ip route replace 10.1.0.0/16 dev tun9 table 5270 proto 87
        let route = Route { table: 5270, to: "10.1.0.0/16".parse().unwrap(), device: 2 };
        let expected = "34000000 18000505 79ed0d6b 00000000 02100000 0057fd01 00000000 08000100
                        0a010000 08000f00 96140000 08000400 02000000";
        check(route_add(&route), expected, Event::Route { route, gone: false });
        // ip -6 route replace 2001:db8::/32 dev tun9 table 5270 proto 87
        let route = Route { table: 5270, to: "2001:db8::/32".parse().unwrap(), device: 2 };
        let expected = "40000000 18000505 79ed0d6b 00000000 0a200000 00570001 00000000 14000100
                        20010db8 00000000 00000000 00000000 08000f00 96140000 08000400 02000000";
        check(route_add(&route), expected, Event::Route { route, gone: false });
    }

    #[test]
    fn rules() {
        // ip rule add pref 5271 not fwmark 0x5774 lookup 5270 proto 87
        let mark = Some((0x5774, u32::MAX));
        let rule = Rule {
            ipv6: false,
            preference: 5271,
            from: None,
            mark,
            invert: true,
            table: 5270,
            iif: None,
            no_default: false,
        };
        let expected = "3c000000 20000506 79ed0d6b 00000000 02000000 00000001 02000000 08000600
                        97140000 08000a00 74570000 08000f00 96140000 05001500 57000000";
        check(rule_add(&rule), expected, Event::Rule { rule, gone: false });
        // ip rule add pref 5271 not from 192.168.88.0/24 fwmark 0x5774 lookup 70806 proto 87
        let from = Some("192.168.88.0/24".parse().unwrap());
        let rule = Rule { from, table: 70806, ..rule };
        let expected = "44000000 20000506 79ed0d6b 00000000 02001800 00000001 02000000 08000600
                        97140000 08000200 c0a85800 08000a00 74570000 08000f00 96140100 05001500 57000000";
        check(rule_add(&rule), expected, Event::Rule { rule, gone: false });
        // ip -6 rule add pref 5270 lookup main suppress_prefixlength 0 proto 87
        let expected = "34000000 20000506 79ed0d6b 00000000 0a000000 fe000001 00000000 08000600
                        96140000 08000e00 00000000 05001500 57000000";
        check(rule_add(&MAIN_V6), expected, Event::Rule { rule: MAIN_V6, gone: false });
    }

    #[test]
    fn links_and_addresses() {
        // ip link set tun9 mtu 1400 up
        let expected = "28000000 10000500 79ed0d6b 00000000 00000000 02000000 01000000 01000000 08000400 78050000";
        check(link_up(2, 1400), expected, Event::Link { device: 2, up: true, gone: false });
        // ip link set tun9 addrgenmode none
        let expected = "30000000 10000500 79ed0d6b 00000000 00000000 02000000 00000000 00000000
                        10001a00 0c000a00 05000800 01000000";
        assert_eq!(no_link_local(2).finish(SEQUENCE), hex(expected));
        // ip addr replace 10.66.0.3/24 dev tun9 noprefixroute, its attributes in our order and with IFA_F_NODAD
        let expected = "30000000 14000505 79ed0d6b 00000000 02180000 02000000 08000200 0a420003
                        08000100 0a420003 08000800 02020000";
        let address = Address { device: 2, address: "10.66.0.3/24".parse().unwrap() };
        assert_eq!(address_add(&address).finish(SEQUENCE), hex(expected));
    }

    #[test]
    fn what_is_not_ours_is_left_out() {
        let mut octets = route_add(&Route { table: 254, to: "10.0.0.0/8".parse().unwrap(), device: 2 }).finish(1);
        octets[21] = 4; // RTPROT_STATIC
        assert_eq!(decode(RTM_NEWROUTE, &octets[HEADER..]), None);
        let octets = rule_add(&MAIN_V6).finish(1);
        assert_eq!(decode(RTM_NEWRULE, &octets[HEADER..octets.len() - 8]), None);
    }

    proptest! {
        #[test]
        fn never_panics(octets: Vec<u8>, at in 0usize..64, value: u8) {
            for message in messages(&octets) {
                let _ = decode(message.kind, message.payload);
            }
            let mut real = rule_add(&MAIN_V6).finish(1);
            if let Some(octet) = real.get_mut(at) {
                *octet = value;
            }
            for message in messages(&real) {
                let _ = decode(message.kind, message.payload);
            }
        }
    }
}
