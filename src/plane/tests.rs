//! Planes talking to each other by what their egresses hold.

mod inbound;
mod moves;
mod mss;
mod outbound;
mod relay;
mod steered;
mod supers;

use etherparse::PacketBuilder;
use ipnet::IpNet;

use super::*;
use crate::crypto::aead::Cipher;
use crate::crypto::secret::Secret;
use crate::fib::Target;
use crate::path::SocketId;
use crate::prefix::Prefix;
use crate::wire::ip::{self, Header};

const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
const NOW: Time = Time::from_micros(1_000_000);
const MTU: u16 = 1400;

/// The path by which a node sees the node with this number.
fn path(node: u8) -> Path {
    Path { socket: SocketId(0), local: None, remote: ([192, 0, 2, node], 4500).into() }
}

/// Both ends of a Child SA; every number gives other SPIs and keys.
fn children(cipher: Cipher, number: u8) -> (ChildSa, ChildSa) {
    let key = |direction: u8| Secret::new(vec![number ^ direction; cipher.keymat_len()]);
    let spi = |side: u32| 0x1000 * side + u32::from(number);
    let left = ChildSa {
        cipher,
        exchanges: Vec::new(),
        spi_in: spi(1),
        spi_out: spi(2),
        key_in: key(0x40),
        key_out: key(0x80),
    };
    let right = ChildSa {
        cipher,
        exchanges: Vec::new(),
        spi_in: spi(2),
        spi_out: spi(1),
        key_in: key(0x80),
        key_out: key(0x40),
    };
    (left, right)
}

/// A node with addresses 10.66.0.`number` and fd66::`number`.
fn node(number: u8, routes: &[(&str, Target)]) -> Plane {
    let mut plane = Plane::new(MTU);
    plane.set_addresses(vec![address4(number), address6(number)]);
    route(&mut plane, routes);
    plane
}

fn route(plane: &mut Plane, routes: &[(&str, Target)]) {
    let prefix = |to: &str| Prefix::to(to.parse::<IpNet>().unwrap());
    plane.set_fib(Arc::new(Fib::new(routes.iter().map(|&(to, target)| (prefix(to), target)))));
}

fn address4(number: u8) -> IpAddr {
    IpAddr::from([10, 66, 0, number])
}

fn address6(number: u8) -> IpAddr {
    IpAddr::from([0xfd66, 0, 0, 0, 0, 0, 0, u16::from(number)])
}

fn via(link: u32) -> Target {
    Target::Link(LinkId(link))
}

/// Nodes 1 and 2 with a link (number 2 at node 1, number 1 at node 2). Node n owns 10.n.0.0/16, fdnn::/16 and its addresses.
fn two(cipher: Cipher) -> (Plane, Plane) {
    let mut a = node(1, &routes(&[(1, Target::Local), (2, via(2))]));
    let mut b = node(2, &routes(&[(1, via(1)), (2, Target::Local)]));
    connect((&mut a, 1), (&mut b, 2), cipher, 1);
    (a, b)
}

fn routes(owners: &[(usize, Target)]) -> Vec<(&'static str, Target)> {
    const OWNED: [[&str; 4]; 3] = [
        ["10.1.0.0/16", "fd01::/16", "10.66.0.1/32", "fd66::1/128"],
        ["10.2.0.0/16", "fd02::/16", "10.66.0.2/32", "fd66::2/128"],
        ["10.3.0.0/16", "fd03::/16", "10.66.0.3/32", "fd66::3/128"],
    ];
    owners.iter().flat_map(|&(owner, target)| OWNED[owner - 1].map(|prefix| (prefix, target))).collect()
}

/// Installs a Child SA between two nodes; each names the link by the other's number.
fn connect((a, number_a): (&mut Plane, u8), (b, number_b): (&mut Plane, u8), cipher: Cipher, child: u8) {
    let (left, right) = children(cipher, child);
    a.install(LinkId(number_b.into()), path(number_b), &left, false);
    b.install(LinkId(number_a.into()), path(number_a), &right, false);
}

fn host4(site: u8) -> [u8; 4] {
    [10, site, 0, 9]
}

fn host6(site: u8) -> [u8; 16] {
    let mut host = [0; 16];
    (host[0], host[1], host[15]) = (0xfd, site, 9);
    host
}

/// UDP between the hosts of two sites, with DF.
fn udp4(from: u8, to: u8, tos: u8, ttl: u8, payload: usize) -> Vec<u8> {
    udp4_between(host4(from), host4(to), tos, ttl, payload)
}

fn udp4_between(from: [u8; 4], to: [u8; 4], tos: u8, ttl: u8, payload: usize) -> Vec<u8> {
    let mut ip = etherparse::Ipv4Header::new(0, ttl, etherparse::IpNumber::UDP, from, to).unwrap();
    ip.dscp = (tos >> 2).try_into().unwrap();
    ip.ecn = (tos & 3).try_into().unwrap();
    let mut packet = Vec::new();
    let headers = etherparse::IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default());
    PacketBuilder::ip(headers).udp(1000, 2000).write(&mut packet, &vec![0x5a; payload]).unwrap();
    packet
}

fn udp6(from: u8, to: u8, tos: u8, hops: u8, payload: usize) -> Vec<u8> {
    udp6_between(host6(from), host6(to), tos, hops, payload)
}

fn udp6_between(from: [u8; 16], to: [u8; 16], tos: u8, hops: u8, payload: usize) -> Vec<u8> {
    ip::udp6_packet(from.into(), to.into(), hops, tos, 1000, 2000, &vec![0x5a; payload])
}

/// As if the host had not set DF.
fn clear_df(packet: &mut [u8]) {
    packet[6] &= !0x40;
    packet[10..12].copy_from_slice(&[0, 0]);
    let sum = ip::Sum::default().plus(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn datagrams(out: &Egress) -> Vec<Vec<u8>> {
    out.trains.iter().flat_map(|train| train.datagrams().map(<[u8]>::to_vec)).collect()
}

fn inner(out: &Egress) -> Vec<Vec<u8>> {
    out.inner_packets().map(<[u8]>::to_vec).collect()
}

/// What `to` makes of the datagrams that node `from` put out, with their own marks.
fn pass(from: u8, out: &Egress, to: &mut Plane) -> Egress {
    let mut result = Egress::default();
    for train in &out.trains {
        for datagram in train.datagrams() {
            to.inbound(NOW, path(from), train.tos, &mut datagram.to_vec(), &mut result);
        }
    }
    result
}

fn outbound(plane: &mut Plane, packet: &[u8]) -> Egress {
    let mut out = Egress::default();
    plane.outbound(NOW, packet, &mut out);
    out
}

fn drops(plane: &Plane) -> Vec<(&'static str, u64)> {
    plane.drops().collect()
}

fn is_silent(out: &Egress) -> bool {
    out.trains.is_empty() && out.inner_ends.is_empty() && out.control.is_empty()
}

/// Source, destination, type, code and the last two octets of the ICMP header.
fn icmp(packet: &[u8]) -> (IpAddr, IpAddr, u8, u8, u16) {
    let header = Header::parse(packet).unwrap();
    let message = header.payload(packet);
    assert_eq!(header.protocol, if header.is_ipv4() { ip::ICMP } else { ip::ICMPV6 });
    (header.source, header.destination, message[0], message[1], u16::from_be_bytes([message[6], message[7]]))
}
