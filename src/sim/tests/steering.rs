//! Segment routing: random topologies with random policies, and waypoints that go away and come back.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::super::{Mesh, World, address4, address6};
use super::{all_up, seconds};
use crate::config::plan::{Peer, Policy, Segment, Suites, Terms};
use crate::identity::Identity;
use crate::prefix::Prefix;
use crate::status::model::PolicyState;
use crate::wire::srv6;

fn locator(host: usize) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd77, 0, 0, host as u16 + 1, 0, 0, 0, 0), 64)
}

fn segment(host: usize, function: u16) -> Segment {
    Segment { name: format!("n{host}"), sid: srv6::sid(locator(host), function) }
}

/// Every host has a locator and knows all the others'.
fn with_locators(mut world: World) -> World {
    let everybody: Vec<Peer> = (0..world.hosts.len())
        .map(|host| Peer {
            name: format!("n{host}"),
            public_key: world.hosts[host].plan.private_key.public(),
            endpoints: Vec::new(),
            locator: Some(locator(host)),
            routes: Vec::new(),
            pin_port: false,
            babel: Terms::default(),
            remote_id: Identity::fqdn(&format!("n{host}")),
            local_id: Identity::fqdn(""),
            suites: Suites::default_for(true),
        })
        .collect();
    for host in 0..world.hosts.len() {
        let plan = &mut world.hosts[host].plan;
        plan.locator = Some(locator(host));
        let mut peers = everybody.clone();
        peers.iter_mut().for_each(|peer| peer.local_id = Identity::fqdn(&format!("n{host}")));
        for known in &plan.peers {
            let same = peers.iter_mut().find(|peer| peer.name == known.name).unwrap();
            same.endpoints.clone_from(&known.endpoints);
        }
        peers.retain(|peer| peer.name != format!("n{host}"));
        plan.peers = peers;
    }
    world
}

fn policy(to: Prefix, path: Vec<Segment>) -> Policy {
    Policy {
        name: "p".to_owned(),
        prefix: to,
        protocol: None,
        ports: None,
        dscp: None,
        path,
        reduced: true,
        route_if_unreachable: false,
    }
}

fn steer(world: &mut World, host: usize, policies: Vec<Policy>) {
    let mut plan = world.hosts[host].plan.clone();
    plan.steering.policies = policies;
    assert!(world.reload(host, plan).steering);
}

fn drops(world: &World) -> u64 {
    let hosts = (0..world.hosts.len()).filter(|host| world.hosts[*host].node.is_some());
    hosts.flat_map(|host| world.snapshot(host).drops).map(|drop| drop.count).sum()
}

/// The SIDs that were acted on anywhere since the last call, in the order of time.
fn visited(world: &mut World) -> Vec<Ipv6Addr> {
    let nodes = world.hosts.iter_mut().filter_map(|host| host.node.as_mut());
    let mut all: Vec<_> = nodes.flat_map(crate::node::Node::take_visited).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, sid)| sid).collect()
}

/// A connected mesh of 4 to 7 hosts.
fn random_mesh(seed: u64) -> World {
    let mut rng = crate::crypto::rng::Rng::from_number(seed);
    let hosts = 4 + rng.below(4) as usize;
    let mut wires = Vec::new();
    for host in 1..hosts {
        wires.push((rng.below(host as u32) as usize, host, 1 + u64::from(rng.below(30))));
    }
    for _ in 0..rng.below(4) {
        let (a, b) = (rng.below(hosts as u32) as usize, rng.below(hosts as u32) as usize);
        if a < b && !wires.iter().any(|(c, d, _)| (*c, *d) == (a, b)) {
            wires.push((a, b, 1 + u64::from(rng.below(30))));
        }
    }
    with_locators(Mesh::of(seed, hosts, wires).build())
}

/// What is delivered has visited the waypoints in order, and nothing else; the rest is counted under a name.
#[test]
fn delivered_by_the_path_or_counted() {
    let (mut delivered, mut counted) = (0, 0);
    for seed in 0..8 {
        let mut world = random_mesh(1000 + seed);
        let hosts = world.hosts.len();
        world.start_all();
        world.run(seconds(40));
        for round in 0..12 {
            let pick = |world: &mut World| world.rng.below(hosts as u32) as usize;
            let (from, to, exit) = (pick(&mut world), pick(&mut world), pick(&mut world));
            if from == to {
                continue;
            }
            let length = world.rng.below(16);
            let mut path: Vec<Segment> = (0..length).map(|_| segment(pick(&mut world), srv6::END)).collect();
            path.push(segment(exit, srv6::END_DT46));
            // Now and then a waypoint that nobody is, or a SID that its node does not have.
            match world.rng.below(8) {
                0 => path[0] = segment(99, srv6::END),
                1 => path[0].sid = srv6::sid(locator(to), 77),
                _ => {}
            }
            let ipv6 = world.rng.below(2) == 0;
            let (source, destination) =
                if ipv6 { (address6(from), address6(to)) } else { (address4(from), address4(to)) };
            let mut wanted = policy(Prefix::host(destination), path);
            wanted.reduced = world.rng.below(2) == 0;
            let sids: Vec<Ipv6Addr> = wanted.path.iter().map(|segment| segment.sid).collect();
            steer(&mut world, from, vec![wanted]);
            visited(&mut world);
            let before = drops(&world);
            let ping = world.ping(from, source, destination);
            world.run(seconds(3));
            let seen = visited(&mut world);
            let story = format!("seed {seed}, round {round}: {from} to {to} by {sids:?}, seen {seen:?}");
            if world.answer(ping).is_some() {
                assert_eq!(seen, sids, "{story}");
                delivered += 1;
            } else {
                assert!(drops(&world) > before, "{story}: lost without a word");
                counted += 1;
            }
            steer(&mut world, from, Vec::new());
        }
    }
    assert!(delivered > 40 && counted > 5, "{delivered} delivered, {counted} counted");
}

fn state(world: &World) -> PolicyState {
    world.snapshot(0).policies[0].state
}

#[test]
fn a_waypoint_that_dies_and_comes_back() {
    for route_if_unreachable in [false, true] {
        // 0 reaches 2 directly, too.
        let mut world = with_locators(Mesh::of(7, 3, [(0, 1, 5), (1, 2, 5), (0, 2, 5)]).build());
        world.start_all();
        assert!(world.run_until(seconds(20), |world| all_up(world)).is_some());
        let path = vec![segment(1, srv6::END), segment(2, srv6::END_DT46)];
        steer(&mut world, 0, vec![Policy { route_if_unreachable, ..policy(Prefix::host(address4(2)), path) }]);
        assert!(world.run_until(seconds(20), |world| state(world) == PolicyState::Active).is_some());
        let prefix = Prefix::host(address4(2));
        assert!(world.hosts[0].kernel.contains(&prefix));
        world.kill(1);
        let gone = if route_if_unreachable { PolicyState::Routed } else { PolicyState::Dropping };
        assert!(world.run_until(seconds(60), |world| state(world) == gone).is_some());
        let reason = world.snapshot(0).policies[0].reason.clone().unwrap();
        assert!(reason.starts_with("no route to n1 (fd77:0:0:2::1): its packets are "), "{reason}");
        world.run(seconds(30));
        let ping = world.ping(0, address4(0), address4(2));
        world.run(seconds(2));
        assert_eq!(world.answer(ping).is_some(), route_if_unreachable);
        world.start(1);
        let took = world.run_until(seconds(10), |world| state(world) == PolicyState::Active);
        assert!(took.is_some(), "not back within ten seconds");
        visited(&mut world);
        let ping = world.ping(0, address4(0), address4(2));
        world.run(seconds(2));
        assert!(world.answer(ping).is_some());
        assert_eq!(visited(&mut world), [segment(1, srv6::END).sid, segment(2, srv6::END_DT46).sid]);
    }
}

#[test]
fn a_trace_hears_every_waypoint_and_says_who_is_silent() {
    let mut world = with_locators(Mesh::of(9, 3, [(0, 1, 10), (1, 2, 20)]).build());
    world.start_all();
    assert!(world.run_until(seconds(30), |world| all_up(world)).is_some());
    world.run(seconds(20));
    let [one, two] = [1, 2].map(|host| segment(host, srv6::END));
    let path = vec![one.clone(), two, one, segment(2, srv6::END_DT46)];
    steer(&mut world, 0, vec![policy(Prefix::host(address4(2)), path)]);
    let report = trace(&mut world);
    assert_eq!(report.policy.as_deref(), Some("p"));
    let rtts: Vec<u64> = report.steps.iter().map(|step| step.rtt_us.unwrap() / 1000).collect();
    // There by the path, back by the shortest way.
    assert_eq!(rtts, [20, 60, 60, 100]);
    assert!(report.steps.iter().all(|step| step.reached));
    // A SID that nobody has: its node says so, for everything behind it.
    let nobody = Segment { name: "x".to_owned(), sid: srv6::sid(locator(1), 77) };
    let path = vec![segment(1, srv6::END), nobody, segment(2, srv6::END_DT46)];
    steer(&mut world, 0, vec![policy(Prefix::host(address4(2)), path)]);
    let report = trace(&mut world);
    let told: Vec<(bool, Option<String>)> = report.steps.into_iter().map(|step| (step.reached, step.answer)).collect();
    let no = Some("n1 says: no route from here".to_owned());
    assert_eq!(told, [(true, Some("answers".to_owned())), (false, no.clone()), (false, no)]);
}

fn trace(world: &mut World) -> crate::status::model::TraceReport {
    world.trace(0, address4(2)).unwrap();
    let mut report = None;
    for _ in 0..80 {
        world.run(super::millis(50));
        report = world.trace_result(0);
        if report.as_ref().is_none_or(|report| report.done) {
            break;
        }
    }
    report.expect("no trace")
}
