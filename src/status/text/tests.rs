use super::super::model::{ChildRole, ChildSa, Policy, SCHEMA, Sa, TraceReport, TraceStep, Tun};
use super::*;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

fn link(id: u32, endpoint: &str, state: State) -> Link {
    let up = state == State::Up;
    Link {
        id,
        endpoint: endpoint.to_owned(),
        remote: up.then(|| endpoint.to_owned()),
        local_port: up.then_some(4500),
        state,
        reason: None,
        since_us: 3 * DAY,
        role: up.then(|| "initiator".to_owned()),
        ike_suite: up.then(|| "aes256gcm16-prfsha256-x25519-ke1_mlkem768".to_owned()),
        esp_suite: up.then(|| "aes256gcm16".to_owned()),
        spi_in: up.then_some(0x0102_0304),
        spi_out: up.then_some(0xfedc_ba98),
        rtt_us: up.then_some(12_300),
        loss: up.then_some(0.0),
        cost: up.then_some(61),
        packets_in: if up { 900_000 } else { 0 },
        octets_in: if up { 1_234_567_890 } else { 0 },
        packets_out: if up { 400_000 } else { 0 },
        octets_out: if up { 310_000_000 } else { 0 },
        heard_us: up.then_some(300_000),
    }
}

fn peer(name: &str, state: State, reason: Option<&str>, links: Vec<Link>) -> Peer {
    Peer {
        name: name.to_owned(),
        fingerprint: "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".to_owned(),
        state,
        via: None,
        reason: reason.map(str::to_owned),
        since_us: 3 * DAY,
        links,
    }
}

fn route(to: &str, from: Option<&str>, via: &str, metric: u16, selected: bool, feasible: bool) -> Route {
    Route {
        to: to.to_owned(),
        from: from.map(str::to_owned),
        via: via.to_owned(),
        link: (via != "local").then_some(1),
        metric,
        received_metric: metric,
        selected,
        feasible,
        unused: match (selected, feasible) {
            (true, _) => None,
            (false, _) if metric == 0xffff => Some(Unused::LinkLost),
            (false, true) => Some(Unused::Longer),
            (false, false) => Some(Unused::Unfeasible),
        },
        origin: "tokyo".to_owned(),
        router_id: "02:00:00:00:00:00:00:01".to_owned(),
        seqno: 7,
    }
}

fn snapshot(peers: Vec<Peer>) -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        version: "0.1.0".to_owned(),
        name: "riga".to_owned(),
        fingerprint: "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".to_owned(),
        uptime_us: 3 * DAY + 4 * 3600 * SECOND,
        tun: Some(Tun {
            name: "wattle0".to_owned(),
            mtu: 1400,
            addresses: vec!["10.66.0.3/32".to_owned(), "fd66::3/128".to_owned()],
        }),
        listen: vec![4500],
        ike_suite: "aes256gcm16-prfsha256-x25519-ke1_mlkem768".to_owned(),
        esp_suite: "aes256gcm16".to_owned(),
        octets_in: 1 << 40,
        octets_out: 1 << 30,
        bits_in_per_s: 124_000_000,
        bits_out_per_s: 31_000_000,
        peers,
        neighbours: Vec::new(),
        routes: vec![
            route("10.66.0.3/32", None, "local", 0, true, true),
            route("10.66.0.9/32", None, "frankfurt", 212, true, true),
            route("10.66.0.9/32", None, "tokyo", 1073, false, false),
        ],
        policies: Vec::new(),
        drops: Vec::new(),
        sas: Vec::new(),
        refused: Vec::new(),
        half_open: 0,
        config: Config::default(),
    }
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

fn shows(text: String, golden: &str) {
    fits(&text);
    assert_eq!(text, golden, "\n{text}");
}

#[test]
fn status_says_what_works_and_why_the_rest_does_not() {
    let mut tokyo = peer("tokyo", State::Up, None, vec![link(2, "198.51.100.2:4500", State::Up)]);
    tokyo.via = Some("sydney".to_owned());
    tokyo.links[0].rtt_us = Some(265_000);
    let mut rio = peer("rio", State::Down, Some("no answer to IKE_SA_INIT, 6 tries, next in 34 s"), vec![]);
    rio.since_us = 7 * 60 * SECOND;
    rio.links.push(link(3, "203.0.113.90:4500", State::Down));
    let frankfurt = peer("frankfurt", State::Up, None, vec![link(1, "203.0.113.7:4500", State::Up)]);
    let snapshot = snapshot(vec![frankfurt, tokyo, rio, peer("laptop", State::Waiting, None, vec![])]);
    shows(
        status(&snapshot, 80),
        "\
riga  up 3d 4h   2 addresses   wattle0 mtu 1400
   aes256gcm16-prfsha256-x25519-ke1_mlkem768 / aes256gcm16
4 peers: 2 up, 1 down, 1 waiting   2 routes   124 Mbit/s in  31 Mbit/s out

PEER       STATE          PATH               RTT     LOSS  RX     TX     SINCE
frankfurt  up             203.0.113.7:4500   12 ms   0 %   1.2 G  310 M  3d
tokyo      up via sydney  198.51.100.2:4500  265 ms  0 %   1.2 G  310 M  3d
rio        down           203.0.113.90:4500  -       -     0      0      7m
           no answer to IKE_SA_INIT, 6 tries, next in 34 s
laptop     waiting        -                  -       -     -      -      3d
           has no endpoint here and has not dialled us
",
    );
    assert!(has_problem(&snapshot));
}

#[test]
fn status_without_a_problem() {
    let mut snapshot = snapshot(vec![peer("laptop", State::Waiting, None, vec![])]);
    assert!(!has_problem(&snapshot));
    // Strangers at the door are none.
    snapshot.half_open = 16;
    assert!(!has_problem(&snapshot) && status(&snapshot, 80).contains("31 Mbit/s out   16 half-open\n"));
    snapshot.peers[0].state = State::Up;
    assert!(!has_problem(&snapshot));
    for state in [State::NoData, State::Connecting, State::Down] {
        snapshot.peers[0].state = state;
        assert!(has_problem(&snapshot), "{state:?}");
    }
}

#[test]
fn a_peer_without_words_of_its_own_shows_those_of_its_tunnel() {
    let mut dead = link(1, "203.0.113.7:4500", State::Down);
    dead.reason = Some("cannot resolve vpn.example: no answer from 192.0.2.53".to_owned());
    let text = status(&snapshot(vec![peer("frankfurt", State::Down, None, vec![dead])]), 80);
    assert!(text.contains("\n           cannot resolve vpn.example: no answer from 192.0.2.53\n"), "{text}");
}

#[test]
fn status_of_a_relay_without_peers() {
    let mut snapshot = snapshot(vec![]);
    snapshot.tun = None;
    snapshot.ike_suite = "x25519+mlkem768".to_owned();
    shows(
        status(&snapshot, 80),
        "\
riga  up 3d 4h   relay only, no TUN device   x25519+mlkem768 / aes256gcm16
0 peers   2 routes   124 Mbit/s in  31 Mbit/s out
",
    );
}

#[test]
fn a_tunnel_that_fails_is_named_though_the_peer_is_up() {
    let mut dead = link(2, "[2001:db8::7]:4500", State::NoData);
    dead.reason = Some("IKE answers, no data arrives (inbound)".to_owned());
    let links = vec![dead, link(1, "203.0.113.7:4500", State::Up)];
    let text = status(&snapshot(vec![peer("frankfurt", State::Up, None, links)]), 80);
    fits(&text);
    let note = "           1 of 2 tunnels not up: [2001:db8::7]:4500 no data: IKE answers, no\n           data arrives (inbound)\n";
    assert!(text.ends_with(note), "{text}");
    assert!(text.contains("frankfurt  up     203.0.113.7:4500"), "{text}");
}

#[test]
fn long_names_and_addresses_fit_the_width() {
    let endpoint = "[2001:db8:1234:5678:9abc:def0:1234:5678]:45000";
    let reason = "x".repeat(20) + " " + &"word ".repeat(28);
    let name = "a-very-long-name-of-a-router-in-a-branch-office";
    let mut peers = vec![
        peer(name, State::Down, Some(&reason), vec![link(1, endpoint, State::Down)]),
        peer("b", State::Up, None, vec![link(2, endpoint, State::Up)]),
    ];
    peers[1].via = Some(name.to_owned());
    let snapshot = snapshot(peers);
    fits(&status(&snapshot, 80));
    fits(&super::peers(&snapshot.peers, 80));
    let text = status(&snapshot, 80);
    assert!(text.contains("…  "), "{text}");
    assert!(text.contains("SINCE"), "{text}");
}

#[test]
fn hundreds_of_dead_peers_fit_one_screen() {
    let mut peers = vec![peer("frankfurt", State::Up, None, vec![link(1, "203.0.113.7:4500", State::Up)])];
    for number in 0..235u32 {
        let reason = match number % 47 {
            0 => format!("cannot resolve vpn{number}.example: no answer from 192.0.2.53"),
            n if n < 5 => "refused us: AUTHENTICATION_FAILED".to_owned(),
            _ => format!("no answer to IKE_SA_INIT, {number} tries, next in {} s", number % 60),
        };
        let endpoint = format!("198.51.100.{}:4500", number % 200);
        peers.push(peer(
            &format!("site-{number:03}"),
            State::Down,
            Some(&reason),
            vec![link(9, &endpoint, State::Down)],
        ));
    }
    let snapshot = snapshot(peers);
    let text = status(&snapshot, 80);
    fits(&text);
    assert!(text.lines().count() <= 24, "{} lines\n{text}", text.lines().count());
    assert!(text.contains("236 peers: 1 up, 235 down"), "{text}");
    assert!(text.contains("\n210 peers down: no answer to IKE_SA_INIT\n  site-005, site-006"), "{text}");
    assert!(text.contains("\n20 peers down: refused us: AUTHENTICATION_FAILED\n"), "{text}");
    assert!(text.contains("and 19"), "{text}");
    assert!(text.contains("cannot resolve vpn0.example: no answer from 192.0.2.53"), "{text}");
    let all = super::peers(&snapshot.peers, 80);
    fits(&all);
    assert!(
        (0..235)
            .all(|number| all.contains(&format!("site-{number:03}  ")) || all.contains(&format!("site-{number:03} ")))
    );
}

#[test]
fn peers_in_full() {
    let mut rio = peer("rio", State::Down, Some("no answer to IKE_SA_INIT, 6 tries, next in 34 s"), vec![]);
    rio.links.push(link(3, "203.0.113.90:4500", State::Down));
    rio.links[0].reason.clone_from(&rio.reason);
    let mut frankfurt = peer("frankfurt", State::Up, None, vec![link(1, "vpn.example:4500", State::Up)]);
    frankfurt.links[0].remote = Some("203.0.113.7:4501".to_owned());
    shows(
        peers(&[frankfurt, rio], 80),
        "\
frankfurt   up for 3d
  key       SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
  link 1    vpn.example:4500, up for 3d, initiator, from port 4500, now at
            203.0.113.7:4501
            RTT 12 ms, loss 0 %, cost 61
            ESP aes256gcm16, SPI in 01020304, out fedcba98
            IKE aes256gcm16-prfsha256-x25519-ke1_mlkem768
            in 1.2 G (900000 packets), out 310 M (400000 packets), last heard 0s
            ago

rio   down for 3d
  key       SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
  link 3    203.0.113.90:4500, down for 3d
            no answer to IKE_SA_INIT, 6 tries, next in 34 s
",
    );
    assert_eq!(peers(&[], 80), "no peers\n");
}

#[test]
fn routes_with_their_marks() {
    let list = [
        route("10.66.0.3/32", None, "local", 0, true, true),
        route("10.66.0.9/32", None, "frankfurt", 212, true, true),
        route("10.66.0.9/32", None, "tokyo", 1073, false, false),
        route("::/0", Some("2001:db8:88:1234::/64"), "frankfurt", 65535, false, true),
    ];
    shows(
        routes(&list, 80),
        "   TO            VIA        LINK  METRIC  SEQNO  ORIGIN
*  10.66.0.3/32  local      -     0       7      tokyo
*  10.66.0.9/32  frankfurt  1     212     7      tokyo
!  10.66.0.9/32  tokyo      1     1073    7      tokyo
x  ::/0 from 2001:db8:88:1234::/64
                 frankfurt  1     inf     7      tokyo
* selected   ! not feasible: it might lead in a circle   x link lost
",
    );
    assert_eq!(routes(&[], 80), "no routes\n");
}

#[test]
fn neighbours_and_what_is_wrong_with_them() {
    let good = Neighbour {
        peer: "frankfurt".to_owned(),
        link: 1,
        address: "fe80::2ff:fe00:1".to_owned(),
        rtt_us: Some(12_300),
        loss: 0.0,
        rxcost: 16,
        txcost: 16,
        cost: 61,
        last_hello_us: Some(2 * SECOND),
        last_ihu_us: Some(7 * SECOND),
    };
    let deaf = Neighbour {
        peer: "rio".to_owned(),
        link: 12,
        rtt_us: None,
        loss: 0.5,
        txcost: 0xffff,
        cost: 0xffff,
        last_ihu_us: Some(60 * SECOND),
        ..good.clone()
    };
    shows(
        neighbours(&[good, deaf], 80),
        "\
PEER       LINK  ADDRESS           RTT    LOSS  COST  RXCOST  TXCOST  HELLO  IHU
frankfurt  1     fe80::2ff:fe00:1  12 ms  0 %   61    16      16      2s     7s
rio        12    fe80::2ff:fe00:1  -      50 %  inf   16      inf     2s     1m
           does not hear us (no IHU for 1m)
",
    );
    assert_eq!(neighbours(&[], 80), "no Babel neighbours\n");
}

#[test]
fn path_of_a_packet() {
    let mut report = PathReport {
        schema: SCHEMA,
        to: "10.66.0.9".to_owned(),
        from: Some("192.168.88.1".to_owned()),
        route: Some("10.66.0.9/32".to_owned()),
        metric: Some(212),
        next_hop: "frankfurt".to_owned(),
        link: Some(link(1, "203.0.113.7:4500", State::Up)),
        origin: Some("tokyo".to_owned()),
        policy: None,
        segments: Vec::new(),
        overhead: None,
    };
    shows(
        path(&report, 80),
        "\
10.66.0.9 from 192.168.88.1 via frankfurt link 1 to 203.0.113.7:4500 rtt 12 ms
metric 212
  route     10.66.0.9/32, announced by tokyo
  link 1    203.0.113.7:4500, up for 3d, initiator, from port 4500
            RTT 12 ms, loss 0 %, cost 61
            ESP aes256gcm16, SPI in 01020304, out fedcba98
            IKE aes256gcm16-prfsha256-x25519-ke1_mlkem768
            in 1.2 G (900000 packets), out 310 M (400000 packets), last heard 0s
            ago
",
    );
    assert!(!is_lost(&report));
    report.link = None;
    report.metric = None;
    report.next_hop = "unreachable".to_owned();
    shows(
        path(&report, 80),
        "\
10.66.0.9 from 192.168.88.1: unreachable
  route     10.66.0.9/32, announced by tokyo, was withdrawn or lost a moment ago
",
    );
    report.route = None;
    report.next_hop = "no route".to_owned();
    shows(
        path(&report, 80),
        "\
10.66.0.9 from 192.168.88.1: no route
  route     no node announces a prefix that covers it: the kernel's own routes
            decide
",
    );
    assert!(is_lost(&report));
}

#[test]
fn drops_and_the_refused_cannot_command_the_terminal() {
    let refused = Refused {
        from: "203.0.113.9:500".to_owned(),
        name: Some("a\u{1b}[2J\u{202e}b".to_owned()),
        reason: "not in nodes; its key is SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".to_owned(),
        ago_us: 5 * SECOND,
        count: 3,
    };
    let counted = |reason: &str, count| Drop { reason: reason.to_owned(), count };
    let list = [counted("unknown_spi", 99_874), counted("too_big", 0), counted("replay_old", 7)];
    shows(
        drops(&list, std::slice::from_ref(&refused), 80),
        "\
DROPPED      COUNT
unknown_spi  99874
replay_old   7

REFUSED, newest first
  'a?[2J?b' from 203.0.113.9:500: not in nodes; its key is
  SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU, 3 times, last 5s ago
",
    );
    assert_eq!(drops(&[], &[], 80), "nothing was dropped\n");
    let mut snapshot = snapshot(vec![]);
    snapshot.refused.push(refused);
    let text = status(&snapshot, 80);
    fits(&text);
    assert!(text.contains("last refused, 5s ago: 'a?[2J?b' from 203.0.113.9:500: not in nodes"), "{text}");
}

/// Names come from the configuration, answers from the network: neither commands the terminal.
#[test]
fn policies_and_traces_say_what_is_wrong() {
    let policy = |state, reason: Option<&str>| Policy {
        name: "video".to_owned(),
        to: "0.0.0.0/0".to_owned(),
        from: Some("192.168.88.0/24".to_owned()),
        protocol: Some(17),
        ports: Some("443".to_owned()),
        dscp: None,
        path: ["frankfurt", "laptop", "frankfurt", "a\u{1b}[2Jb", "tokyo", "sydney", "tokyo"].map(str::to_owned).into(),
        state,
        reason: reason.map(str::to_owned),
        mtu: Some(1304),
        packets: 12_000,
        octets: 9_000_000,
    };
    let list = [policy(PolicyState::Active, None), policy(PolicyState::Dropping, Some("no route to tokyo (fd66::1)"))];
    let text = policies(&list, 80);
    fits(&text);
    for words in
        ["video", "active", "dropping", "to 0.0.0.0/0 from 192.168.88.0/24 protocol 17 port 443", "1304", "no route"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let mut snapshot = snapshot(vec![]);
    assert!(!has_problem(&snapshot));
    snapshot.policies = list.to_vec();
    assert!(has_problem(&snapshot));
    assert!(status(&snapshot, 80).contains("policy video: no route to tokyo"));
    let step = |rtt_us, reached, answer: Option<&str>| TraceStep {
        name: "tokyo".to_owned(),
        sid: "fd66:1234:5678:9abc:def0::1".to_owned(),
        rtt_us,
        reached,
        answer: answer.map(str::to_owned),
    };
    let mut report = TraceReport {
        schema: 1,
        to: "10.0.0.1".to_owned(),
        policy: Some("video".to_owned()),
        done: true,
        steps: vec![step(Some(12_000), true, Some("answers"))],
    };
    assert!(!trace_failed(&report));
    report.steps.push(step(None, false, None));
    assert!(trace_failed(&report));
    let text = trace(&report, 80);
    fits(&text);
    for words in ["10.0.0.1 by policy video", "12 ms", "answers", "no answer"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_configuration_that_is_not_in_force_is_told_and_is_a_problem() {
    let mut snapshot = snapshot(Vec::new());
    assert!(!has_problem(&snapshot));
    snapshot.config.problem = Some("2 errors, the first: wattle.json:3:3: privte_key: unknown field".to_owned());
    snapshot.config.needs_restart = vec!["listen".to_owned(), "tun".to_owned()];
    let text = status(&snapshot, 80);
    fits(&text);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("the new configuration is not in force: 2 errors, the first: wattle.json:3:3: privte_key"),
        "{text}"
    );
    assert!(flat.contains("needs a restart: listen, tun"), "{text}");
    assert!(has_problem(&snapshot));
}

#[test]
fn sas_and_what_has_none() {
    let child = |role, suite: &str| ChildSa {
        spi_in: 0x0102_0304,
        spi_out: 0xfedc_ba98,
        suite: suite.to_owned(),
        role,
        age_us: 190 * SECOND,
        rekey_us: (role == ChildRole::Sending).then_some(3300 * SECOND),
        packets_in: 900_000,
        octets_in: 1_234_567_890,
        packets_out: 400_000,
        octets_out: 310_000_000,
        replays: 3,
    };
    let frankfurt = Sa {
        peer: Some("frankfurt".to_owned()),
        state: "established".to_owned(),
        established: true,
        role: "initiator".to_owned(),
        spi_initiator: "8f3a0c1122334455".to_owned(),
        spi_responder: "00000000000000a7".to_owned(),
        remote: "203.0.113.7:4500".to_owned(),
        local_port: Some(4500),
        suite: Some("aes256gcm16-prfsha256-x25519-ke1_mlkem768".to_owned()),
        age_us: 2 * 3600 * SECOND,
        rekey_us: Some(2 * 3600 * SECOND - 60 * SECOND),
        children: vec![
            child(ChildRole::Sending, "aes256gcm16-x25519-ke1_mlkem768"),
            child(ChildRole::Leaving, "aes256gcm16"),
        ],
    };
    let caller = Sa {
        peer: None,
        state: "waiting for IKE_AUTH".to_owned(),
        established: false,
        role: "responder".to_owned(),
        local_port: None,
        suite: None,
        age_us: 0,
        rekey_us: None,
        children: Vec::new(),
        ..frankfurt.clone()
    };
    let mut rio = link(3, "203.0.113.90:4500", State::Down);
    rio.reason = Some("no answer to IKE_SA_INIT, 6 tries, next in 34 s".to_owned());
    let peers = [
        peer("frankfurt", State::Up, None, vec![link(1, "203.0.113.7:4500", State::Up)]),
        peer("rio", State::Down, None, vec![rio]),
        peer("laptop", State::Waiting, None, vec![]),
    ];
    shows(
        sas(&[frankfurt, caller], &not_up(&peers), 80),
        "\
frankfurt   203.0.113.7:4500 from port 4500   established, initiator
  IKE  aes256gcm16-prfsha256-x25519-ke1_mlkem768
       SPI 8f3a0c1122334455 (initiator) 00000000000000a7 (responder)
       age 2h, rekeyed in 1h 59m
  ESP  aes256gcm16-x25519-ke1_mlkem768, SPI in 01020304, out fedcba98
       age 3m 10s, rekeyed in 55m
       in 1.2 G (900000 packets), out 310 M (400000 packets), 3 replays dropped
  ESP  aes256gcm16, SPI in 01020304, out fedcba98, replaced
       age 3m 10s
       in 1.2 G (900000 packets), out 310 M (400000 packets), 3 replays dropped

somebody   203.0.113.7:4500   waiting for IKE_AUTH, responder
  IKE  suite not agreed yet
       SPI 8f3a0c1122334455 (initiator) 00000000000000a7 (responder)
       age 0s

NOT UP
  rio 203.0.113.90:4500 down: no answer to IKE_SA_INIT, 6 tries, next in 34 s
  laptop waiting: has no endpoint here and has not dialled us
",
    );
    shows(sas(&[], &[], 80), "no SAs\n");
}
