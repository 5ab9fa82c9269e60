//! A Babel speaker among hostile neighbours: any TLVs, any octets, at any time.
//!
//! Always: no panic, timers go on, its own packets are well-formed and no larger than the link, what it selects is feasible, and
//! tables are no larger than what was told. In the end, when nobody speaks any more: nothing is left of what they told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use wattle::babel::Speaker;
use wattle::babel::speaker::{NextHop, Settings};
use wattle::crypto::rng::Rng;
use wattle::path::LinkId;
use wattle::prefix::Prefix;
use wattle::time::Time;
use wattle::wire::babel::{GROUP, Hello, Ihu, Origin, Packet, SeqnoRequest, Stamps, Tlv, Update, parse};

use super::input::Input;

const OPERATIONS: usize = 400;
const MTU: u16 = 1280;
const OURS: [u8; 8] = [9; 8];

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let settings = Settings { router_id: OURS, hello_interval: Duration::from_secs(4) };
    let start = Time::from_micros(u64::from(input.u32()) << 8);
    let mut one = One { now: start, speaker: Speaker::new(settings, Rng::from_number(1), start), told: 0, out: 0 };
    one.speaker.announce(one.now, vec![prefix(0)]);
    for link in 0..2 {
        one.speaker.link_up(one.now, LinkId(link), address(link, 0), MTU);
    }
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        one.operate(&mut input);
        one.check();
    }
    one.forget();
}

struct One {
    now: Time,
    speaker: Speaker,
    /// TLVs that came in.
    told: usize,
    /// Packets that went out since the last input.
    out: usize,
}

impl One {
    fn operate(&mut self, input: &mut Input<'_>) {
        let [operation, argument] = input.array();
        let link = u32::from(argument & 1);
        match operation & 15 {
            0..=4 => {
                let from = address(link, u16::from(argument >> 1 & 3) + 1);
                let to = if argument & 8 == 0 { GROUP } else { address(link, 0) };
                let mut packet = Packet::new(1232, from);
                for _ in 0..=argument >> 5 {
                    let tlv = self.tlv(input, link);
                    if packet.push(&tlv) {
                        self.told += 1;
                    }
                }
                self.speaker.receive(self.now, LinkId(link), from, to, &packet.finish());
            }
            // Both directions of a link work.
            5 | 6 => {
                let from = address(link, u16::from(argument >> 1 & 3) + 1);
                let mut packet = Packet::new(1232, from);
                let hello = Hello { unicast: false, seqno: input.u16(), interval: 400, stamp: None };
                let ihu = Ihu { address: None, rxcost: 96, interval: 1200, stamps: None };
                assert!(packet.push(&Tlv::Hello(hello)) && packet.push(&Tlv::Ihu(ihu)));
                self.speaker.receive(self.now, LinkId(link), from, GROUP, &packet.finish());
            }
            7 => {
                let mut octets = vec![42, 2, 0, 0];
                octets.extend(input.string());
                octets[3] = u8::try_from(octets.len() - 4).unwrap_or(u8::MAX);
                self.told += octets.len();
                let from = address(link, u16::from(argument >> 1 & 3) + 1);
                self.speaker.receive(self.now, LinkId(link), from, GROUP, &octets);
            }
            8 | 9 => self.pass(Duration::from_millis(u64::from(argument) * 20)),
            10 => self.pass(Duration::from_secs(u64::from(argument))),
            11 => {
                let own = (0..argument & 3).map(|at| prefix(at << 2 | argument >> 6)).collect();
                self.speaker.announce(self.now, own);
            }
            12 => self.speaker.link_up(self.now, LinkId(link), address(link, 0), MTU),
            13 => self.speaker.link_down(self.now, LinkId(link)),
            14 => self.speaker.link_renewed(self.now, LinkId(link)),
            _ => {
                let own = (0..argument & 3).map(|at| prefix(at << 2 | argument >> 6)).collect();
                self.speaker.set_static(self.now, LinkId(link + 5), own);
            }
        }
        self.drain();
    }

    fn tlv(&self, input: &mut Input<'_>, link: u32) -> Tlv {
        let [kind, argument] = input.array();
        let router_id = [OURS, [1; 8], [2; 8], [3; 8]][usize::from(argument & 3)];
        match kind & 7 {
            0 => Tlv::AckRequest { opaque: input.u16(), interval: input.u16().max(1) },
            1 => Tlv::Ack { opaque: input.u16() },
            2 => Tlv::Hello(Hello {
                unicast: argument & 1 != 0,
                seqno: input.u16(),
                interval: input.u16(),
                stamp: (argument & 2 != 0).then(|| self.stamp(input)),
            }),
            3 => Tlv::Ihu(Ihu {
                address: [None, Some(IpAddr::V6(address(link, u16::from(argument >> 2 & 1))))]
                    [usize::from(argument & 1)],
                rxcost: input.u16(),
                interval: input.u16().max(1),
                stamps: (argument & 2 != 0).then(|| Stamps { origin: self.stamp(input), receive: self.stamp(input) }),
            }),
            4 | 5 => {
                let metric = [input.u16(), 0xffff][usize::from(argument >> 7)];
                let next_hop =
                    if argument & 4 == 0 { IpAddr::V6(address(link, 1)) } else { Ipv4Addr::LOCALHOST.into() };
                let prefix = prefix(argument >> 2);
                Tlv::Update(Update {
                    prefix: (metric < 0xffff || argument & 0x40 == 0).then_some(prefix),
                    interval: input.u16().max(1),
                    seqno: input.u16(),
                    metric,
                    origin: (metric < 0xffff).then_some(Origin { router_id, next_hop }),
                })
            }
            6 => Tlv::RouteRequest { prefix: (argument & 1 != 0).then(|| prefix(argument >> 2)) },
            _ => Tlv::SeqnoRequest(SeqnoRequest {
                prefix: prefix(argument >> 2),
                seqno: input.u16(),
                hop_count: input.u8().max(1),
                router_id,
            }),
        }
    }

    /// About now, or not at all.
    fn stamp(&self, input: &mut Input<'_>) -> u32 {
        let offset = u32::from(input.u16());
        if offset & 1 == 0 { self.now.stamp().wrapping_sub(offset << 4) } else { input.u32() }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some((due, why)) = self.speaker.poll_timeout().filter(|due| due.0 <= end) {
            wakes += 1;
            // Two links, one tick a second at most, and what was triggered.
            assert!(wakes < 1000 + 20 * time.as_secs(), "woken too often for {why}");
            self.now = self.now.max(due);
            self.speaker.handle_timeout(self.now);
            self.out = 0;
            self.drain();
            let next = self.speaker.poll_timeout();
            assert!(next.is_none_or(|next| next.0 > self.now), "handled and still due: {next:?}");
        }
        self.now = end;
        self.out = 0;
    }

    fn drain(&mut self) {
        while let Some(packet) = self.speaker.poll_transmit(self.now) {
            self.out += 1;
            assert!(self.out < 300, "it never stops talking");
            assert!(packet.payload.len() <= usize::from(MTU) - 48, "{} octets", packet.payload.len());
            let from = address(packet.link.0, 0);
            let tlvs: Result<Vec<Tlv>, _> = parse(&packet.payload, from).expect("a packet").collect();
            assert!(!tlvs.expect("TLVs").is_empty(), "an empty packet");
        }
        self.speaker.take_changed();
    }

    fn check(&mut self) {
        self.out = 0;
        for route in self.speaker.selected() {
            assert!(route.selected && route.feasible, "{route:?}");
        }
        assert!(self.speaker.routes().count() <= self.told + 20);
        assert!(self.speaker.neighbours(self.now).len() <= 8);
    }

    /// The longest interval that a TLV can name is eleven minutes. A neighbour is kept for sixteen of them.
    fn forget(&mut self) {
        // Late, as on a busy machine, which is also faster here.
        for _ in 0..120 {
            self.now += Duration::from_secs(120);
            self.speaker.handle_timeout(self.now);
            self.out = 0;
            self.drain();
        }
        assert!(
            self.speaker.neighbours(self.now).is_empty(),
            "a neighbour that has been silent for hours: {:?}",
            self.speaker.neighbours(self.now)
        );
        for route in self.speaker.routes() {
            assert!(matches!(route.next_hop, NextHop::Local | NextHop::Static(_)), "{route:?}");
        }
        self.speaker.shut_down(self.now);
        self.drain();
        assert_eq!(self.speaker.poll_timeout(), None);
    }
}

/// 0 is ours.
fn address(link: u32, neighbour: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, u16::from(link != 0), neighbour + 1)
}

/// Of one address family or the other, nested, and some for one source only.
fn prefix(number: u8) -> Prefix {
    const PREFIXES: [(&str, Option<&str>); 8] = [
        ("10.0.0.0/8", None),
        ("10.1.0.0/16", None),
        ("0.0.0.0/0", None),
        ("10.1.2.3/32", Some("10.2.0.0/16")),
        ("fd00::/8", None),
        ("fd00:1::/64", None),
        ("::/0", Some("fd00::/48")),
        ("fd00::1/128", None),
    ];
    let (to, from) = PREFIXES[usize::from(number & 7)];
    let net = |text: &str| text.parse::<IpNet>().expect("a prefix");
    from.map_or_else(|| Prefix::to(net(to)), |from| Prefix::new(net(to), net(from)).expect("one family"))
}
