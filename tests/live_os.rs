//! The doors to the system, against the real kernel: each test works in network namespaces of its own and removes them.
//! They need root; without it they fail and say so.

#![expect(clippy::unwrap_used, reason = "a test fails where its helper does")]
#![expect(clippy::disallowed_methods, reason = "the other side of the system is played here")]

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use smol::Timer;
use wattle::offload::{Offload, Switch};
use wattle::os::kernel::{Kernel, Link, Settings};
use wattle::os::netns::within;
use wattle::os::resolve::Resolver;
use wattle::os::tun::{Tun, TunError};
use wattle::os::udp::{Batch, OpenError, Udp};
use wattle::path::{Path, SocketId};
use wattle::prefix::Prefix;

/// A network namespace that goes away with its test.
struct Namespace(String);

impl Namespace {
    fn new() -> Namespace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wattle-os-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).status();
        assert!(made.is_ok_and(|status| status.success()), "live tests need root and iproute2");
        let namespace = Namespace(name);
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `ip` inside and gives its output.
    fn ip(&self, arguments: &str) -> String {
        let output = Command::new("ip").args(["-n", &self.0]).args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        within(&self.0, || Ok(work())).unwrap()
    }

    fn rules(&self) -> Vec<String> {
        let lines = self.ip("rule") + &self.ip("-6 rule");
        lines.lines().filter(|line| line.contains("proto 87")).map(|line| line.trim().replace('\t', " ")).collect()
    }

    fn routes(&self, table: u32) -> Vec<String> {
        let mut lines = String::new();
        for family in ["-4", "-6"] {
            let table = table.to_string();
            let arguments = ["-n", &self.0, family, "route", "show", "table", &table];
            // An empty table does not exist, which `ip` calls an error.
            let output = Command::new("ip").args(arguments).output().unwrap();
            lines += &String::from_utf8(output.stdout).unwrap();
        }
        lines.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

const SETTINGS: Settings = Settings { table: 5270, mark: 0x5774, preference: 5270, exit: false };

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn link(tun: &Tun) -> Link {
    let addresses = vec![net("10.66.0.3/24"), net("fd66::3/128")];
    Link { device: tun.index(), name: tun.name().to_owned(), mtu: 1400, addresses }
}

fn open(namespace: &Namespace) -> (Tun, Kernel) {
    namespace.within(|| {
        let tun = Tun::open("wattle0", Switch::Auto).unwrap();
        let mut kernel = Kernel::open(SETTINGS).unwrap();
        kernel.attach(link(&tun)).unwrap();
        (tun, kernel)
    })
}

/// Lets the kernel's news come in and be acted upon, until `done` or the time is up.
fn settle(kernel: &mut Kernel, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    smol::block_on(async {
        loop {
            let mut timer = Timer::after(Duration::from_millis(20));
            poll_fn(|context| {
                kernel.poll_events(context, Instant::now());
                std::pin::Pin::new(&mut timer).poll(context).map(drop)
            })
            .await;
            kernel.repair(Instant::now());
            if done() {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
        }
    })
}

#[test]
fn live_kernel_state_appears_and_goes() {
    let namespace = Namespace::new();
    let (tun, mut kernel) = open(&namespace);
    let addresses = namespace.ip("addr show wattle0");
    for expected in ["mtu 1400", "<POINTOPOINT,NOARP,UP,LOWER_UP>", "10.66.0.3/24", "fd66::3/128"] {
        assert!(addresses.contains(expected), "{expected}: {addresses}");
    }
    assert!(!addresses.contains("fe80::"), "the kernel would talk by itself: {addresses}");
    assert_eq!(
        namespace.rules(),
        [
            "5270: from all lookup main suppress_prefixlength 0 proto 87",
            "5271: not from all fwmark 0x5774 lookup 5270 proto 87",
            "5270: from all lookup main suppress_prefixlength 0 proto 87",
            "5271: not from all fwmark 0x5774 lookup 5270 proto 87",
        ]
    );
    // The addresses' own network leads to the device by our table, not by main.
    assert_eq!(namespace.routes(5270), ["10.66.0.0/24"]);
    assert_eq!(namespace.routes(254).iter().filter(|route| route.starts_with("10.")).count(), 0);

    let ordinary = ["0.0.0.0/0", "192.168.88.0/24", "2001:db8:7::/48", "10.66.0.0/24"].map(|to| Prefix::to(net(to)));
    for prefix in ordinary {
        kernel.add(prefix);
    }
    let specific = Prefix::new(net("::/0"), net("2001:db8:88::/48")).unwrap();
    let specific_v4 = Prefix::new(net("0.0.0.0/0"), net("192.168.77.0/24")).unwrap();
    kernel.add(specific);
    kernel.add(specific_v4);
    assert_eq!(namespace.routes(5270), ["default", "10.66.0.0/24", "192.168.88.0/24", "2001:db8:7::/48"]);
    assert_eq!(namespace.routes(5270 + 65536), ["default"]);
    assert_eq!(namespace.routes(5270 + 2 * 65536), ["default"]);
    let rules = namespace.rules();
    assert!(
        rules.contains(&"5271: from 2001:db8:88::/48 fwmark 0/0x4000 lookup 70806 proto 87".to_owned()),
        "{rules:?}"
    );

    for prefix in ordinary {
        kernel.delete(prefix);
    }
    kernel.delete(specific);
    kernel.delete(specific_v4);
    assert_eq!(namespace.routes(5270), ["10.66.0.0/24"], "the network of our own address stays");
    assert_eq!(namespace.rules().len(), 4);
    namespace.within(|| kernel.close());
    assert!(namespace.rules().is_empty());
    assert!(namespace.routes(5270).is_empty());
    drop(tun);
    assert!(!namespace.ip("link").contains("wattle0"));
}

#[test]
fn live_source_decides_what_comes_to_us() {
    let namespace = Namespace::new();
    let (_tun, mut kernel) = open(&namespace);
    for command in [
        "tuntap add dev up0 mode tap",
        "link set up0 up",
        "addr add 192.0.2.2/24 dev up0",
        "addr add 192.168.77.1/24 dev up0",
        "route add default via 192.0.2.1",
    ] {
        namespace.ip(command);
    }
    kernel.add(Prefix::new(net("0.0.0.0/0"), net("192.168.77.0/24")).unwrap());
    kernel.add(Prefix::to(net("203.0.113.0/24")));
    let device = |what: &str| {
        let output = namespace.ip(&format!("route get {what}"));
        output.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap().to_owned()
    };
    assert_eq!(device("198.51.100.1"), "up0");
    assert_eq!(device("198.51.100.1 from 192.168.77.1"), "wattle0");
    assert_eq!(device("198.51.100.1 from 192.168.77.1 mark 0x5774"), "up0", "our own sockets stay outside");
    assert_eq!(device("198.51.100.1 from 192.168.77.1 mark 0x100"), "wattle0", "other people's marks do not matter");
    assert_eq!(device("203.0.113.7"), "wattle0");
    assert_eq!(device("203.0.113.7 mark 0x5774"), "up0");
    // main knows better than its default route
    assert_eq!(device("192.0.2.9 from 192.168.77.1"), "up0");
    namespace.within(|| kernel.close());
}

/// The kernel has room for 64 source prefixes; the 65th gets the first place that becomes free.
#[test]
fn live_a_source_waits_for_a_table() {
    let namespace = Namespace::new();
    let (_tun, mut kernel) = open(&namespace);
    let prefix = |to: &str, site: u8| Prefix::new(net(to), net(&format!("10.77.{site}.0/24"))).unwrap();
    for site in 0..65 {
        kernel.add(prefix("0.0.0.0/0", site));
        kernel.add(prefix("192.0.2.0/24", site));
    }
    let served = |site: u8| namespace.rules().iter().any(|rule| rule.contains(&format!("from 10.77.{site}.0/24 ")));
    assert!(served(63) && !served(64));
    kernel.delete(prefix("0.0.0.0/0", 7));
    assert!(served(7) && !served(64));
    kernel.delete(prefix("192.0.2.0/24", 7));
    assert!(!served(7) && served(64));
    assert_eq!(namespace.routes(5270 + 8 * 65536), ["default", "192.0.2.0/24"]);
    namespace.within(|| kernel.close());
}

/// An error about what the kernel sends us comes from an address of ours, which a kernel takes for a forgery by default.
#[test]
fn live_the_kernel_believes_our_errors() {
    let namespace = Namespace::new();
    let (mut tun, mut kernel) = open(&namespace);
    kernel.add(Prefix::to(net("192.168.88.0/24")));
    let socket = namespace.within(|| UdpSocket::bind("10.66.0.3:0")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.connect("192.168.88.9:7001").unwrap();
    socket.send(b"out").unwrap();
    let mut buffer = [0; 70_000];
    let packet = smol::block_on(async {
        loop {
            poll_fn(|context| if tun.poll_readable(context) { Poll::Ready(()) } else { Poll::Pending }).await;
            if let Some(packet) = tun.read(&mut buffer).unwrap() {
                return packet.packet.to_vec();
            }
        }
    });
    // Port unreachable, which an application hears of at once.
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&packet);
    let sum = etherparse::Icmpv4Type::Unknown { type_u8: 3, code_u8: 3, bytes5to8: [0; 4] }.calc_checksum(&packet);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut error = Vec::new();
    let header = etherparse::PacketBuilder::ipv4([10, 66, 0, 3], [10, 66, 0, 3], 64);
    header.write(&mut error, etherparse::IpNumber::ICMP, &message).unwrap();
    tun.write(&error).unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn live_damage_is_put_right() {
    let namespace = Namespace::new();
    let (_tun, mut kernel) = open(&namespace);
    kernel.add(Prefix::to(net("192.168.88.0/24")));
    kernel.add(Prefix::to(net("2001:db8:7::/48")));
    let whole = |namespace: &Namespace| {
        let addresses = namespace.ip("addr show wattle0");
        namespace.rules().len() == 4
            && namespace.routes(5270) == ["10.66.0.0/24", "192.168.88.0/24", "2001:db8:7::/48"]
            && addresses.contains("UP")
            && addresses.contains("10.66.0.3/24")
            && addresses.contains("fd66::3/128")
    };
    assert!(whole(&namespace));
    for damage in [
        "route flush table 5270",
        "rule del pref 5271",
        "-6 rule del pref 5270",
        "addr del fd66::3/128 dev wattle0",
        "link set wattle0 down",
    ] {
        namespace.ip(damage);
        if damage == "link set wattle0 down" {
            namespace.ip("link set wattle0 up");
        }
        assert!(!whole(&namespace), "{damage} does no damage");
        assert!(namespace.within(|| settle(&mut kernel, || whole(&namespace))), "{damage} is not put right");
    }
    // Our own changes are not damage.
    kernel.delete(Prefix::to(net("192.168.88.0/24")));
    assert!(!namespace.within(|| settle(&mut kernel, || namespace.routes(5270).len() == 3)));
}

#[test]
fn live_repairs_have_a_limit() {
    let namespace = Namespace::new();
    let (_tun, mut kernel) = open(&namespace);
    let start = Instant::now();
    for _ in 0..3 {
        namespace.ip("rule del pref 5271");
        assert!(namespace.within(|| settle(&mut kernel, || namespace.rules().len() == 4)));
    }
    assert!(start.elapsed() >= Duration::from_millis(1200), "at most two a second, and ever slower");
}

#[test]
fn live_leftovers_go_at_the_next_start() {
    let namespace = Namespace::new();
    namespace.ip("tuntap add dev left0 mode tun");
    namespace.ip("link set left0 up");
    namespace.ip("route add 10.9.0.0/16 dev left0 table 5270 proto 87");
    namespace.ip("-6 route add 2001:db8:9::/48 dev left0 table 70806 proto 87");
    namespace.ip("route add 10.8.0.0/16 dev left0 table 5270 proto static");
    namespace.ip("rule add pref 5271 not fwmark 0x5774 lookup 5270 proto 87");
    namespace.ip("rule add pref 99 lookup 100 proto 87");
    drop(namespace.within(|| Kernel::open(SETTINGS)).unwrap());
    assert_eq!(namespace.routes(5270), ["10.8.0.0/16"], "what is not ours stays");
    assert!(namespace.routes(70806).is_empty());
    assert_eq!(namespace.rules(), ["99: from all lookup 100 proto 87"], "nor is a rule to another table");
}

#[test]
fn live_tun_carries_packets() {
    let namespace = Namespace::new();
    let (mut tun, mut kernel) = open(&namespace);
    kernel.add(Prefix::to(net("192.168.88.0/24")));
    assert!(matches!(namespace.within(|| Tun::open("wattle0", Switch::Auto)), Err(TunError::Busy { .. })));
    assert!(matches!(namespace.within(|| Tun::open("lo", Switch::Auto)), Err(TunError::Invalid { .. })));
    let mut buffer = [0; 2048];
    assert!(tun.read(&mut buffer).unwrap().is_none(), "the kernel has said something by itself");

    let socket = namespace.within(|| UdpSocket::bind("10.66.0.3:7000")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.send_to(b"out", "192.168.88.9:7001").unwrap();
    let packet = smol::block_on(async {
        loop {
            poll_fn(|context| if tun.poll_readable(context) { Poll::Ready(()) } else { Poll::Pending }).await;
            if let Some(packet) = tun.read(&mut buffer).unwrap() {
                return packet.packet.to_vec();
            }
        }
    });
    let sliced = etherparse::SlicedPacket::from_ip(&packet).unwrap();
    assert!(packet.ends_with(b"out") && sliced.transport.is_some());

    let answer = etherparse::PacketBuilder::ipv4([192, 168, 88, 9], [10, 66, 0, 3], 64).udp(7001, 7000);
    let mut packet = Vec::new();
    answer.write(&mut packet, b"back").unwrap();
    tun.write(&packet).unwrap();
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"back"[..], "192.168.88.9:7001".parse().unwrap()));
    assert!(tun.write(&[0x00; 20]).is_err(), "not an IP packet");

    namespace.ip("link del wattle0");
    let lost = smol::block_on(async {
        loop {
            poll_fn(|context| if tun.poll_readable(context) { Poll::Ready(()) } else { Poll::Pending }).await;
            if let Err(error) = tun.read(&mut buffer) {
                return error;
            }
        }
    });
    assert!(lost.raw_os_error().is_some());
}

/// Receives until `count` datagrams are there, as (path, interface, traffic class, truncated, octets).
fn receive(udp: &mut Udp, count: usize) -> Vec<(Path, u32, u8, bool, Vec<u8>)> {
    let mut batch = Batch::new();
    let mut all = Vec::new();
    smol::block_on(async {
        while all.len() < count {
            poll_fn(|context| if udp.poll_readable(context) { Poll::Ready(()) } else { Poll::Pending }).await;
            for socket in 0..udp.sockets() {
                if udp.receive(socket, &mut batch) {
                    batch.for_each(|arrival, datagram| {
                        all.push((arrival.path, arrival.interface, arrival.tos, arrival.truncated, datagram.to_vec()));
                    });
                }
            }
        }
    });
    all
}

#[test]
fn live_udp_both_families() {
    let namespace = Namespace::new();
    namespace.ip("addr add 2001:db8::1/128 dev lo nodad");
    namespace.ip("addr add 192.0.2.1/32 dev lo");
    let (a, b) = (SocketId(0), SocketId(1));
    let (mut udp, port) = namespace.within(|| {
        let mut udp = Udp::new(0x5774, Offload::default());
        assert_eq!(udp.open(a, 4500).unwrap(), 4500);
        let port = udp.open(b, 0).unwrap();
        (udp, port)
    });
    // The listening port has a door in each family.
    assert_eq!(udp.sockets(), 6);
    assert_eq!(udp.short_buffer(), None, "each got the room that it asked for");
    // From a chosen address, with a traffic class, more than one batch, the last one shorter
    for (remote, local) in [("127.0.0.1", "192.0.2.1"), ("::1", "2001:db8::1")] {
        let remote: IpAddr = remote.parse().unwrap();
        let local: IpAddr = local.parse().unwrap();
        let path = Path { socket: b, local: Some(local), remote: SocketAddr::new(remote, 4500) };
        let data: Vec<u8> = (0..40 * 100 - 1).map(|octet: u32| u8::try_from(octet % 251).unwrap()).collect();
        let sent = udp.send(&path, 0xb8, 100, &data);
        assert_eq!((sent.full, sent.failed, sent.source_gone), (0, 0, false));
        let all = receive(&mut udp, 40);
        assert_eq!(all.len(), 40);
        let expected = Path { socket: a, local: Some(remote), remote: SocketAddr::new(local, port) };
        for (path, interface, tos, truncated, _) in &all {
            assert_eq!((*path, *interface, *tos, *truncated), (expected, 1, 0xb8, false));
        }
        assert_eq!(all.into_iter().flat_map(|(.., octets)| octets).collect::<Vec<u8>>(), data);
    }
    // An address that is not ours (any more): the kernel chooses.
    let remote = "127.0.0.1:4500".parse().unwrap();
    let sent = udp.send(&Path { socket: b, local: Some("192.0.2.77".parse().unwrap()), remote }, 0, 3, b"abc");
    assert!(sent.source_gone && sent.failed == 0, "{sent:?}");
    assert_eq!(receive(&mut udp, 1)[0].0.remote.ip().to_string(), "127.0.0.1");
    // The longest that there is
    let sent = udp.send(&Path { socket: b, local: None, remote }, 0, 65_507, &[7; 65_507]);
    assert_eq!(sent.failed, 0);
    let longest = receive(&mut udp, 1).remove(0);
    assert_eq!((longest.3, longest.4), (false, vec![7; 65_507]));
    // Nowhere to send to, then nothing breaks
    let nowhere = Path { socket: b, local: None, remote: "203.0.113.9:1".parse().unwrap() };
    let sent = udp.send(&nowhere, 0, 2, b"abcde");
    assert_eq!((sent.failed, sent.error.unwrap().raw_os_error()), (3, Some(libc::ENETUNREACH)));
    // A closed port answers with ICMP, which does not reach us.
    let closed = Path { socket: b, local: None, remote: "127.0.0.1:9".parse().unwrap() };
    for _ in 0..3 {
        assert!(udp.send(&closed, 0, 3, b"abc").error.is_none());
    }
    assert_eq!(udp.send(&Path { socket: b, local: None, remote }, 0, 3, b"abc").failed, 0);
    assert_eq!(receive(&mut udp, 1)[0].4, b"abc");
    udp.close(b);
    assert_eq!(udp.sockets(), 4);
    assert_eq!(udp.send(&nowhere, 0, 2, b"abcde").failed, 3, "a closed port sends nothing");
}

/// Case F5: trains of equal datagrams and of a shorter last one, in one piece and singly, arrive as what they were.
#[test]
fn live_udp_trains() {
    let namespace = Namespace::new();
    let (a, b) = (SocketId(0), SocketId(1));
    for (udp_gso, udp_gro) in
        [(Switch::On, Switch::On), (Switch::Off, Switch::On), (Switch::On, Switch::Off), (Switch::Off, Switch::Off)]
    {
        let mut udp = namespace.within(|| {
            let mut udp = Udp::new(0x5774, Offload { udp_gso, udp_gro, ..Offload::default() });
            udp.open(a, 4500).unwrap();
            udp.open(b, 4501).unwrap();
            udp
        });
        for remote in ["127.0.0.1:4500", "[::1]:4500"] {
            let path = Path { socket: b, local: None, remote: remote.parse().unwrap() };
            for (equal, tail) in [(45, 0), (44, 7), (1, 0), (2, 0), (1, 1399)] {
                let mut data: Vec<u8> = (0..equal).flat_map(|i| [i; 1400]).collect();
                data.extend(vec![0xee; tail]);
                let sent = udp.send(&path, 0, 1400, &data);
                assert_eq!((sent.full, sent.failed), (0, 0));
                let expected: Vec<&[u8]> = data.chunks(1400).collect();
                let got = receive(&mut udp, expected.len());
                assert!(got.iter().all(|(_, _, _, truncated, _)| !truncated));
                let got: Vec<&[u8]> = got.iter().map(|(.., octets)| &octets[..]).collect();
                assert_eq!(got, expected, "{remote} {equal} {tail} {udp_gso:?} {udp_gro:?}");
            }
        }
    }
}

/// A path that takes less than the datagrams of a train: the kernel refuses the train, and nothing is lost.
#[test]
fn live_udp_trains_on_a_narrow_path() {
    let (left, right) = (Namespace::new(), Namespace::new());
    left.ip(&format!("link add v0 mtu 1300 type veth peer name v1 netns {}", right.0));
    for (namespace, device, address) in [(&left, "v0", "192.0.2.1/24"), (&right, "v1", "192.0.2.2/24")] {
        namespace.ip(&format!("addr add {address} dev {device}"));
        namespace.ip(&format!("link set {device} mtu 1300 up"));
    }
    let open = |namespace: &Namespace| {
        namespace.within(|| {
            let mut udp = Udp::new(0, Offload::default());
            udp.open(SocketId(0), 4500).unwrap();
            udp
        })
    };
    let (mut sender, mut receiver) = (open(&left), open(&right));
    let path = Path { socket: SocketId(0), local: None, remote: "192.0.2.2:4500".parse().unwrap() };
    let data: Vec<u8> = (0..20).flat_map(|i| [i; 1400]).collect();
    for _ in 0..2 {
        let sent = sender.send(&path, 0, 1400, &data);
        assert_eq!((sent.full, sent.failed), (0, 0));
        let got: Vec<Vec<u8>> = receive(&mut receiver, 20).into_iter().map(|(.., octets)| octets).collect();
        assert_eq!(got, data.chunks(1400).map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
    // What fits goes on in one piece.
    let sent = sender.send(&path, 0, 1200, &data[..12_000]);
    assert_eq!((sent.full, sent.failed), (0, 0));
    assert_eq!(receive(&mut receiver, 10).len(), 10);
}

/// Strangers' first messages fill their own queue, which is counted; what peers send, and answers to ours, find room.
#[test]
fn live_udp_a_flood_of_strangers() {
    let namespace = Namespace::new();
    let (mut udp, mut sender) = namespace.within(|| {
        let (mut udp, mut sender) = (Udp::new(0, Offload::default()), Udp::new(0, Offload::default()));
        udp.open(SocketId(0), 4500).unwrap();
        sender.open(SocketId(0), 0).unwrap();
        // Not even another one of us gets the port.
        let error = Udp::new(0, Offload::default()).open(SocketId(0), 4500).unwrap_err();
        assert!(matches!(error, OpenError::Taken(4500)), "{error}");
        (udp, sender)
    });
    let ike = |exchange: u8, flags: u8, length: usize| {
        let mut message = vec![0; 4 + length];
        (message[4], message[22], message[23]) = (1, exchange, flags);
        message
    };
    for remote in ["127.0.0.1:4500", "[::1]:4500"] {
        let path = Path { socket: SocketId(0), local: None, remote: remote.parse().unwrap() };
        let mut send = |datagram: &[u8]| {
            let sent = sender.send(&path, 0, datagram.len(), datagram);
            assert_eq!((sent.full, sent.failed), (0, 0));
        };
        // Between ports one of which is 500 there is no marker.
        let first = ike(34, 0x08, 600);
        let bare = first[4..].to_vec();
        (0..1500).for_each(|_| [&first, &bare].into_iter().for_each(|datagram| send(datagram)));
        let others =
            [vec![7; 1400], vec![0xff], ike(34, 0x20, 600), ike(35, 0x08, 600), ike(37, 0x20, 60), vec![0; 22]];
        let others = [&others[..], &[ike(34, 0x20, 600)[4..].to_vec(), ike(35, 0x08, 600)[4..].to_vec()]].concat();
        others.iter().for_each(|datagram| send(datagram));
        // The kernel says how many it has lost with the next one that it has room for.
        let (mut came, mut lost, mut sent) = (Vec::new(), 0, 3000);
        let mut batch = Batch::new();
        for _ in 0..200 {
            smol::block_on(async {
                Timer::after(Duration::from_millis(20)).await;
                poll_fn(|context| Poll::Ready(udp.poll_readable(context))).await
            });
            for nth in 0..udp.sockets() {
                while udp.receive(nth, &mut batch) {
                    lost += usize::try_from(batch.lost).unwrap();
                    batch.for_each(|_, datagram| came.push(datagram.to_vec()));
                }
            }
            if came.len() + lost == sent + others.len() {
                break;
            }
            send(&first);
            sent += 1;
        }
        let firsts = came.iter().filter(|datagram| **datagram == first || **datagram == bare).count();
        assert!((50..2500).contains(&firsts), "{firsts}");
        assert_eq!(firsts + lost, sent, "{remote}: {lost} lost");
        came.retain(|datagram| *datagram != first && *datagram != bare);
        assert_eq!(came, others, "{remote}");
    }
}

#[test]
fn live_udp_port_taken() {
    let namespace = Namespace::new();
    for taken in ["0.0.0.0:4500", "[::]:4500"] {
        let _other = namespace.within(|| UdpSocket::bind(taken)).unwrap();
        let error = namespace.within(|| Udp::new(0, Offload::default()).open(SocketId(0), 4500)).unwrap_err();
        assert!(matches!(error, OpenError::Taken(4500)), "{error}");
        assert!(error.to_string().len() <= 160);
    }
}

#[test]
fn live_udp_without_ipv6() {
    let namespace = Namespace::new();
    namespace.within(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
        let mut udp = Udp::new(0, Offload::default());
        udp.open(SocketId(0), 4500).unwrap();
        let v4 = Path { socket: SocketId(0), local: None, remote: "127.0.0.1:4500".parse().unwrap() };
        assert_eq!(udp.send(&v4, 0, 3, b"abc").failed, 0);
        assert_eq!(receive(&mut udp, 1)[0].4, b"abc");
        let v6 = Path { remote: "[2001:db8::1]:4500".parse().unwrap(), ..v4 };
        assert_eq!(udp.send(&v6, 0, 3, b"abc").failed, 1);
        // The rest of the system comes up without it, too.
        let tun = Tun::open("wattle0", Switch::Auto).unwrap();
        let mut kernel = Kernel::open(SETTINGS).unwrap();
        kernel.attach(link(&tun)).unwrap();
        kernel.add(Prefix::to(net("2001:db8:7::/48")));
        kernel.add(Prefix::to(net("192.168.88.0/24")));
        assert!(namespace.routes(5270).contains(&"192.168.88.0/24".to_owned()));
        kernel.close();
    });
}

/// A name server that answers, refuses or keeps silent by the first label of the name.
fn serve_names(socket: UdpSocket) {
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let mut answer = query[..length].to_vec();
            let label = query[13..13 + usize::from(query[12])].to_vec();
            let aaaa = query[length - 3] == 28;
            answer[2] = 0x81;
            let address: &[u8] = match (&label[..], aaaa) {
                (b"silent", _) | (b"v4only", true) => continue,
                (b"nobody", _) => {
                    answer[3] = 0x83;
                    &[]
                }
                (b"broken", _) => {
                    answer[3] = 0x82;
                    &[]
                }
                (b"v6only", false) => &[],
                (_, true) => &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
                (_, false) => &[203, 0, 113, 7],
            };
            if !address.is_empty() {
                answer[7] = 1;
                answer.extend_from_slice(&[0xc0, 12, 0, if aaaa { 28 } else { 1 }, 0, 1, 0, 0, 0, 60, 0]);
                answer.push(u8::try_from(address.len()).unwrap());
                answer.extend_from_slice(address);
            }
            // A forger's answer first, with another identifier
            let mut forged = answer.clone();
            forged[0] ^= 0xff;
            let _ = socket.send_to(&forged, client);
            let _ = socket.send_to(&answer, client);
        }
    });
}

#[test]
fn live_names() {
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().unwrap();
    let (hosts, resolv_conf) = (folder.path().join("hosts"), folder.path().join("resolv.conf"));
    std::fs::write(&hosts, "198.51.100.1 known.example\n").unwrap();
    serve_names(namespace.within(|| UdpSocket::bind("127.0.0.53:53")).unwrap());
    let _silent = namespace.within(|| UdpSocket::bind("127.0.0.54:53")).unwrap();
    let resolver = Resolver { hosts, resolv_conf: resolv_conf.clone(), mark: 0x5774 };
    let resolve = |name: &str| {
        let start = Instant::now();
        let result = namespace.within(|| smol::block_on(resolver.resolve(name)));
        let addresses = result.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        (addresses, start.elapsed())
    };
    let none = resolve("vpn.example").0.unwrap_err();
    assert!(none.starts_with("there is no /") && none.ends_with("resolv.conf"), "{none}");
    std::fs::write(&resolv_conf, "").unwrap();
    assert!(resolve("vpn.example").0.unwrap_err().starts_with("no nameserver in /"));
    assert_eq!(resolve("known.example").0.unwrap(), "198.51.100.1");
    assert_eq!(resolve("192.0.2.7").0.unwrap(), "192.0.2.7");

    std::fs::write(&resolv_conf, "nameserver 127.0.0.53\n").unwrap();
    assert_eq!(resolve("vpn.example").0.unwrap(), "2001:db8::7 203.0.113.7");
    assert_eq!(resolve("v6only.example").0.unwrap(), "2001:db8::7");
    let (addresses, time) = resolve("v4only.example");
    assert_eq!(addresses.unwrap(), "203.0.113.7");
    assert!(time < Duration::from_secs(1), "a dropped AAAA costs {time:?}");
    assert_eq!(resolve("nobody.example").0.unwrap_err(), "nobody.example does not exist");
    assert_eq!(resolve("broken.example").0.unwrap_err(), "127.0.0.53: server failure");
    assert_eq!(resolve("a..b").0.unwrap_err(), "not a name that DNS can hold");

    // The first server is dead (nobody listens) or silent: the next one answers.
    std::fs::write(&resolv_conf, "nameserver 127.0.0.55\nnameserver 127.0.0.53\n").unwrap();
    let (addresses, time) = resolve("vpn.example");
    assert_eq!(addresses.unwrap(), "2001:db8::7 203.0.113.7");
    assert!(time < Duration::from_secs(1), "a refused port costs {time:?}");
    std::fs::write(&resolv_conf, "nameserver 127.0.0.54\nnameserver 127.0.0.53\n").unwrap();
    assert_eq!(resolve("vpn.example").0.unwrap(), "2001:db8::7 203.0.113.7");

    std::fs::write(&resolv_conf, "nameserver 127.0.0.54\n").unwrap();
    let (addresses, time) = resolve("vpn.example");
    assert_eq!(addresses.unwrap_err(), "no answer from 127.0.0.54");
    assert!(time < Duration::from_secs(5), "{time:?}");
}
