//! Networks in which one thing goes wrong.

use std::time::Duration;

use wattle::babel::speaker::NextHop;

use crate::net::{Net, host, link, prefix};

const WRAP: Duration = Duration::from_micros(1 << 32);

/// A (0) to C (2) directly, or through B (1).
fn triangle(seed: u64) -> Net {
    let mut net = Net::new(seed, 3);
    net.wire(0, 2, 132);
    net.wire(0, 1, 20);
    net.wire(1, 2, 20);
    for node in 0..3 {
        net.announce(node, &[&host(node)]);
    }
    net
}

#[test]
fn a_neighbour_is_usable_within_two_seconds() {
    for seed in 0..20 {
        let mut net = Net::new(seed, 2);
        net.announce(1, &["10.9.0.0/16"]);
        let wire = net.wire(0, 1, 132);
        net.set_up(wire, false);
        net.run(60);
        // One end comes up later than the other.
        net.wires[wire].up = true;
        net.tell_end(wire, 0, true);
        net.run_for(Duration::from_millis(seed * 250));
        net.tell_end(wire, 1, true);
        net.wait(2, "cost at both ends", |net| net.cost(0, 0) < 0xffff && net.cost(1, 0) < 0xffff);
        net.wait(2, "route", |net| net.has_route(0, "10.9.0.0/16"));
        assert_eq!(net.neighbour(0, 0).unwrap().rtt, Some(Duration::from_millis(264)));
        assert_eq!(net.cost(0, 0), 1069);
    }
}

#[test]
fn a_link_that_lost_its_first_packets_is_usable_soon() {
    for seed in 0..20 {
        let mut net = Net::new(seed, 2);
        net.announce(0, &["10.8.0.0/16"]);
        net.announce(1, &["10.9.0.0/16"]);
        let wire = net.wire(0, 1, 20);
        net.set_up(wire, false);
        net.run(60);
        net.wires[wire].loss = [100, if seed % 2 == 0 { 100 } else { 0 }];
        net.set_up(wire, true);
        net.run_for(Duration::from_millis(400));
        net.wires[wire].loss = [0, 0];
        net.wait(2, "usable", |net| net.cost(0, 0) < 0xffff && net.cost(1, 0) < 0xffff);
        net.wait(1, "routes", |net| net.has_route(0, "10.9.0.0/16") && net.has_route(1, "10.8.0.0/16"));
    }
}

/// A new session under a link that lives on: nothing waits for the next Hello, whatever happened in between.
#[test]
fn a_renewed_link_is_usable_soon() {
    for seed in 0..20 {
        let mut net = triangle(seed);
        net.set_up(0, false);
        net.run(60 + seed % 4);
        net.wires[1].up = false;
        net.run(20);
        assert_eq!((net.cost(0, 1), net.cost(1, 1)), (0xffff, 0xffff));
        net.announce(0, &["10.8.0.0/16"]);
        net.announce(1, &["10.9.0.0/16"]);
        net.run(5);
        net.wires[1].up = true;
        net.renew(1);
        net.wait(2, "usable", |net| net.cost(0, 1) < 0xffff && net.cost(1, 1) < 0xffff);
        net.wait(1, "routes", |net| net.has_route(0, "10.9.0.0/16") && net.has_route(1, "10.8.0.0/16"));
        assert!(!net.has_route(0, &host(1)), "withdrawn during the outage");
    }
}

#[test]
fn traffic_takes_the_faster_way_and_comes_back() {
    for seed in 0..20 {
        let mut net = triangle(seed);
        let to_c = host(2);
        net.wait(5, "relay", |net| net.goes(0, &to_c, 1));
        net.run(60);
        assert!(net.goes(0, &to_c, 1));
        net.set_delay(0, 2);
        net.wait(30, "back to the direct link", |net| net.goes(0, &to_c, 0));
        net.run(120);
        assert_eq!(net.route(0, &to_c).unwrap().metric, 28);
        assert!(net.nodes[0].switches[&prefix(&to_c)] <= 2);
        net.set_up(0, false);
        // The relay's route was never as good as what we announced: its feasibility has to be asked for.
        net.wait(1, "the relay again", |net| net.goes(0, &to_c, 1));
    }
}

#[test]
fn jitter_does_not_move_traffic() {
    for seed in 0..10 {
        let mut net = triangle(seed);
        for wire in 0..3 {
            net.wires[wire].jitter = 20;
        }
        net.run(600);
        let to_c = host(2);
        assert!(net.goes(0, &to_c, 1));
        assert!(net.nodes[0].switches.get(&prefix(&to_c)).copied().unwrap_or(0) <= 2, "seed {seed}");
    }
}

#[test]
fn near_equal_paths_do_not_flap() {
    for seed in 0..10 {
        let mut net = Net::new(seed, 3);
        net.wire(0, 2, 30);
        net.wire(0, 1, 15);
        net.wire(1, 2, 15);
        net.wires[0].jitter = 25;
        net.announce(2, &["10.9.0.0/16"]);
        net.run(600);
        let switches = net.nodes[0].switches.get(&prefix("10.9.0.0/16")).copied().unwrap_or(0);
        assert!(switches <= 2, "seed {seed}: {switches}");
        net.set_delay(0, 60);
        net.wait(30, "the real change is followed", |net| net.goes(0, "10.9.0.0/16", 1));
    }
}

/// The first packets are lost in one direction or both: everything is asked for again.
#[test]
fn a_lossy_start() {
    for seed in 0..40 {
        let mut net = Net::new(seed, 2);
        net.announce(0, &["10.8.0.0/16"]);
        net.announce(1, &["10.9.0.0/16"]);
        net.wire(0, 1, 20);
        net.wires[0].loss = if seed % 2 == 0 { [40, 40] } else { [80, 0] };
        net.run_for(Duration::from_millis(seed * 100));
        net.wires[0].loss = [0, 0];
        net.wait(9, "routes", |net| net.has_route(0, "10.9.0.0/16") && net.has_route(1, "10.8.0.0/16"));
    }
}

/// An outage that nobody announces.
#[test]
fn silence_is_found_in_time() {
    for seed in 0..20 {
        let mut net = triangle(seed);
        net.run(60 + seed);
        net.run_for(Duration::from_millis(seed * 170));
        net.wires[1].up = false;
        let took = net.wait(15, "down", |net| net.cost(0, 1) == 0xffff);
        assert!(took >= Duration::from_secs(5) && took <= Duration::from_secs(14), "{took:?}");
        net.wait(1, "direct", |net| net.goes(0, &host(2), 0));
        net.wires[1].up = true;
        net.wait(9, "again", |net| net.cost(0, 1) < 0xffff);
    }
}

#[test]
fn everything_follows_the_hello_interval() {
    for (hello_ms, at_most_ms) in [(250, 875), (1000, 3500), (10_000, 35_000)] {
        let mut net = Net::with_hello(1, 3, Duration::from_millis(hello_ms));
        net.wire(0, 2, 132);
        net.wire(0, 1, 20);
        net.wire(1, 2, 20);
        net.announce(2, &["10.9.0.0/16"]);
        net.wait(5, "relay", |net| net.goes(0, "10.9.0.0/16", 1));
        net.run(10 * hello_ms / 1000);
        net.wires[1].up = false;
        let took = net.wait(60, "direct", |net| net.goes(0, "10.9.0.0/16", 0));
        assert!(took <= Duration::from_millis(at_most_ms + 300), "{hello_ms} ms: {took:?}");
        net.wires[2].up = false;
        net.wires[0].up = false;
        let took = net.wait(60, "nothing", |net| !net.has_route(0, "10.9.0.0/16"));
        assert!(took <= Duration::from_millis(at_most_ms + 300), "{hello_ms} ms: {took:?}");
    }
}

/// The only way stays in use although a third of its packets is lost, and costs accordingly.
#[test]
fn loss_costs_but_does_not_cut() {
    let mut net = Net::new(1, 2);
    net.wire(0, 1, 10);
    net.announce(1, &["10.9.0.0/16"]);
    net.run(60);
    assert_eq!(net.cost(0, 0), 92);
    net.wires[0].loss = [25, 25];
    let (mut up, mut all, mut sum) = (0, 0, 0);
    for _ in 0..3600 {
        net.run(1);
        all += 1;
        up += u32::from(net.has_route(0, "10.9.0.0/16"));
        let cost = net.cost(0, 0);
        sum += if cost < 0xffff { u32::from(cost) } else { 0 };
    }
    assert!(up * 100 > all * 94, "{up} of {all}");
    let mean = sum / up;
    assert!((110..150).contains(&mean), "{mean}");
}

/// E7: a neighbour that hears but is not heard, and neighbours that restart.
#[test]
fn half_open_heals() {
    let mut net = Net::new(7, 2);
    net.wire(0, 1, 10);
    net.announce(1, &["10.9.0.0/16"]);
    net.run(30);
    net.wires[0].deaf = [false, true];
    net.run(60);
    let neighbour = net.neighbour(0, 0).unwrap();
    assert_eq!((neighbour.rxcost, neighbour.txcost, neighbour.cost), (16, 0xffff, 0xffff));
    let silent = net.clock(0).since(neighbour.last_ihu.unwrap()).as_secs();
    assert!((59..=64).contains(&silent), "{silent}");
    assert!(!net.has_route(0, "10.9.0.0/16"));
    net.wires[0].deaf = [false, false];
    net.wait(12, "cost", |net| net.cost(0, 0) == 92);
    net.wait(1, "route", |net| net.has_route(0, "10.9.0.0/16"));

    for pause in [0, 1, 5, 9, 11, 30, 90] {
        net.wires[0].up = false;
        net.run(pause);
        net.wires[0].up = true;
        net.restart(1, Duration::ZERO);
        net.announce(1, &["10.9.0.0/16"]);
        net.wait(12, "both hear each other", |net| {
            let both = [net.neighbour(0, 0), net.neighbour(1, 0)];
            both.iter().all(|n| n.as_ref().is_some_and(|n| n.cost == 92 && n.rxcost == 16 && n.txcost == 16))
        });
        net.wait(2, "route", |net| net.has_route(0, "10.9.0.0/16"));
    }

    // It restarts while we have heard two of three Hellos.
    net.set_up(0, false);
    net.set_up(0, true);
    net.run_for(Duration::from_millis(30));
    net.restart(1, Duration::from_secs(1000));
    net.wait(12, "cost", |net| net.cost(0, 0) == 92 && net.cost(1, 0) == 92);
}

/// H1: all but the stale route are unfeasible.
#[test]
fn starvation_is_healed_by_one_seqno() {
    // X 0, Y1 1, Y2 2, S 3
    for seed in 0..10 {
        let mut net = Net::new(seed, 4);
        net.wire(0, 1, 5);
        net.wire(1, 3, 20);
        net.wire(0, 2, 5);
        net.wire(2, 3, 45);
        let p = "10.9.0.0/16";
        net.announce(3, &[p]);
        net.run(300);
        assert!(net.goes(0, p, 0));
        assert_eq!(net.route(0, p).unwrap().metric, 224);
        let seqno = net.route(3, p).unwrap().seqno;
        net.set_delay(1, 60);
        net.wait(60, "Y2", |net| {
            assert!(net.has_route(0, p), "never without a route");
            net.goes(0, p, 2)
        });
        let crossed = net.now;
        net.run(60);
        assert!(net.now.since(crossed) <= Duration::from_secs(61));
        assert_eq!(net.route(0, p).unwrap().metric, 424);
        assert_eq!(net.route(3, p).unwrap().seqno, seqno.wrapping_add(1), "seed {seed}");
        net.set_delay(1, 20);
        net.wait(90, "Y1 again", |net| net.goes(0, p, 0));
    }
}

/// A node that lost its seqno is believed again at once, whatever the new one is.
#[test]
fn a_restart_is_healed_by_requests() {
    for seed in 0..20 {
        let mut net = triangle(seed);
        net.wire(2, 0, 50);
        net.allow_loops();
        net.run(60);
        let old = net.route(1, &host(1)).unwrap().seqno;
        net.restart(1, Duration::from_secs(seed * 77));
        net.announce(1, &[&host(1), "10.7.0.0/16"]);
        net.wait(5, "its routes", |net| {
            [0, 2].iter().all(|node| net.has_route(*node, &host(1)) && net.has_route(*node, "10.7.0.0/16"))
        });
        net.wait(10, "its neighbours' routes", |net| net.has_route(1, &host(0)) && net.has_route(1, &host(2)));
        let new = net.route(1, &host(1)).unwrap().seqno;
        assert_ne!(old, new);
    }
}

/// H7: two nodes announce the same prefixes.
#[test]
fn two_origins() {
    // A 0, B 1, D 2
    let mut net = Net::new(3, 3);
    net.wire(0, 2, 10);
    net.wire(1, 2, 20);
    net.wire(0, 1, 1);
    let prefixes = ["0.0.0.0/0", "10.9.0.0/16"];
    prefixes.iter().for_each(|p| net.share(p));
    net.announce(0, &prefixes);
    net.announce(1, &prefixes);
    net.run(60);
    for p in prefixes {
        assert_eq!(net.next_hop(0, p), Some(NextHop::Local));
        assert_eq!(net.next_hop(1, p), Some(NextHop::Local));
        let route = net.route(2, p).unwrap();
        assert_eq!((route.next_hop, route.router_id), (NextHop::Link(link(0)), crate::net::router_id(0)));
    }
    net.announce(0, &[]);
    net.wait(5, "the other origin", |net| {
        prefixes.iter().all(|p| net.route(2, p).unwrap().router_id == crate::net::router_id(1))
    });
    net.wait(5, "A uses B's", |net| prefixes.iter().all(|p| net.goes(0, p, 2)));
}

/// H9: the microseconds wrap on one side, then on the other.
#[test]
fn clocks_wrap() {
    let mut net = Net::new(5, 2);
    net.wire(0, 1, 12);
    net.set_clock(0, WRAP - Duration::from_secs(20));
    net.set_clock(1, WRAP * 3 - Duration::from_secs(40));
    for second in 1..120 {
        net.run(1);
        for node in 0..2 {
            let neighbour = net.neighbour(node, 0).unwrap();
            assert_eq!(neighbour.rtt, Some(Duration::from_millis(24)), "node {node} at {second} s");
            assert_eq!(neighbour.cost, 108);
        }
    }
}

/// H15: what is withdrawn is gone everywhere within a second, and stays unreachable for a while.
#[test]
fn withdrawal_is_quick() {
    for seed in 0..10 {
        let mut net = Net::new(seed, 4);
        for node in 1..4 {
            net.wire(node - 1, node, 10);
        }
        net.announce(0, &["10.1.0.0/16", "10.2.0.0/16", "::/0 from fd00:1::/32"]);
        net.announce(3, &["10.0.0.0/8"]);
        net.wait(30, "routes", |net| net.has_route(3, "10.1.0.0/16") && net.has_route(3, "::/0 from fd00:1::/32"));
        net.run(20);
        net.announce(0, &["10.2.0.0/16"]);
        net.wait(1, "gone", |net| !net.has_route(3, "10.1.0.0/16") && !net.has_route(3, "::/0 from fd00:1::/32"));
        assert_eq!(net.next_hop(1, "10.1.0.0/16"), Some(NextHop::Unreachable), "not by 10.0.0.0/8");
        net.run(50);
        assert_eq!(net.next_hop(1, "10.1.0.0/16"), Some(NextHop::Unreachable));
        net.run(12);
        assert_eq!(net.next_hop(1, "10.1.0.0/16"), None);
        assert!(net.has_route(3, "10.2.0.0/16"));

        let now = net.clock(0);
        net.nodes[0].speaker.shut_down(now);
        net.drain(0);
        net.wait(1, "all gone", |net| !net.has_route(3, "10.2.0.0/16"));
        assert_eq!(net.nodes[0].speaker.poll_timeout(), None);
    }
}

/// A retraction that is lost is repeated; if all copies are, the next full update tells.
#[test]
fn withdrawal_survives_loss() {
    let mut late = 0;
    for seed in 0..50 {
        let mut net = Net::new(seed, 2);
        net.wire(0, 1, 10);
        net.announce(0, &["10.1.0.0/16"]);
        net.run(20);
        net.wires[0].loss = [50, 0];
        net.announce(0, &[]);
        let took = net.wait(60, "gone", |net| !net.has_route(1, "10.1.0.0/16"));
        late += u32::from(took > Duration::from_millis(1100));
    }
    assert!(late <= 13, "an eighth of 50 is expected: {late}");
}

#[test]
fn static_prefixes_are_announced_while_given() {
    let mut net = Net::new(1, 2);
    net.wire(0, 1, 10);
    let now = net.clock(0);
    net.nodes[0].speaker.set_static(now, link(9), vec![prefix("10.5.0.0/16")]);
    net.drain(0);
    assert_eq!(net.next_hop(0, "10.5.0.0/16"), Some(NextHop::Static(link(9))));
    net.wait(5, "route", |net| net.has_route(1, "10.5.0.0/16"));
    net.run(10);
    assert_eq!(net.route(1, "10.5.0.0/16").unwrap().metric, 96 + 92);
    net.announce(0, &["10.5.0.0/16"]);
    assert_eq!(net.next_hop(0, "10.5.0.0/16"), Some(NextHop::Local));
    net.wait(17, "our own metric", |net| net.route(1, "10.5.0.0/16").unwrap().metric == 92);
    net.announce(0, &[]);
    assert_eq!(net.next_hop(0, "10.5.0.0/16"), Some(NextHop::Static(link(9))));
    let now = net.clock(0);
    net.nodes[0].speaker.set_static(now, link(9), Vec::new());
    net.drain(0);
    net.wait(1, "gone", |net| !net.has_route(1, "10.5.0.0/16"));
}

/// With three idle neighbours a speaker wakes less than once a second.
#[test]
fn idle_costs_nothing() {
    let mut net = Net::new(1, 4);
    for node in 1..4 {
        net.wire(0, node, 10);
    }
    for node in 0..4 {
        net.announce(node, &[&host(node)]);
    }
    net.run(60);
    (net.wakes, net.packets, net.octets) = (0, 0, vec![0; 3]);
    net.run(400);
    assert!(net.wakes <= 4 * 130, "{} wakes of four nodes in 400 s", net.wakes);
    assert!(net.packets <= 6 * 120, "{} packets", net.packets);
    assert!(net.octets[0] < 400 * 2 * 25, "{} octets a wire", net.octets[0]);
}

/// 10 000 routes: everything arrives, in paced packets, and losing them all at once does not fill the queues.
#[test]
fn ten_thousand_routes() {
    let mut net = Net::new(1, 3);
    net.wire(0, 1, 10);
    net.wire(1, 2, 10);
    let prefixes: Vec<String> = (0..10_000).map(|n| format!("10.{}.{}.0/24", n / 256, n % 256)).collect();
    net.announce(0, &prefixes.iter().map(String::as_str).collect::<Vec<_>>());
    let count = |net: &Net, node: usize| net.nodes[node].speaker.selected().filter(|r| r.metric < 0xffff).count();
    net.run(20);
    assert_eq!((count(&net, 1), count(&net, 2)), (10_000, 10_000));
    net.octets = vec![0; 2];
    let mut most = 0;
    for _ in 0..160 {
        let before = net.octets[0];
        net.run_for(Duration::from_millis(100));
        most = most.max(net.octets[0] - before);
    }
    assert!(most <= 2 * 9 * 1352, "{most} octets in 100 ms");
    assert!(net.octets[0] > 100_000 && net.octets[0] < 500_000, "{} octets in 16 s", net.octets[0]);
    net.set_up(0, false);
    assert_eq!(count(&net, 1), 0);
    net.run(4);
    assert_eq!(count(&net, 2), 0, "retracted");
    net.run(70);
    assert_eq!(net.nodes[2].speaker.selected().count(), 0, "and forgotten");
}

/// A wobble of a millisecond changes nothing, and ten milliseconds that are gained for some seconds do.
#[test]
fn a_millisecond_is_noise_and_ten_are_not() {
    let to = "10.9.0.0/16";
    for (hello_ms, within) in [(1000, 12), (4000, 32)] {
        for seed in 0..10 {
            // Two relays at equal distance.
            let mut net = Net::with_hello(seed, 4, Duration::from_millis(hello_ms));
            for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
                net.wire(a, b, 30);
            }
            net.announce(3, &[to]);
            net.run(120);
            let used = if net.goes(0, to, 0) { 0 } else { 2 };
            for step in 0..60 {
                // Either way gains half a millisecond each way, in turns.
                net.wires[used].delay = [Duration::from_micros(30_000 + 500 * (step % 2)); 2];
                net.wires[2 - used].delay = [Duration::from_micros(30_500 - 500 * (step % 2)); 2];
                net.run(10);
            }
            assert!(net.goes(0, to, used), "seed {seed}: moved by a millisecond");
            // The other way gains ten for two seconds, then for good.
            net.set_delay(used, 30);
            net.set_delay(2 - used, 30);
            net.run(20);
            net.set_delay(2 - used, 25);
            net.run(2);
            net.set_delay(2 - used, 30);
            net.run(60);
            assert!(net.goes(0, to, used), "seed {seed}: moved by a moment");
            assert_eq!(net.nodes[0].switches.get(&prefix(to)), None, "seed {seed}");
            net.set_delay(2 - used, 25);
            net.wait(within, "the way that is faster by 10 ms", |net| net.goes(0, to, 2 - used));
        }
    }
}

/// Acknowledged at once, urgent updates are sent once and not five times; without answers they are repeated.
#[test]
fn urgent_updates_are_acknowledged() {
    let sent = |loss: u32| {
        let mut net = Net::new(1, 2);
        net.wire(0, 1, 10);
        net.announce(0, &["10.1.0.0/16"]);
        net.run(21);
        net.octets = vec![0];
        net.announce(0, &[]);
        net.wires[0].loss = [0, loss];
        net.run_for(Duration::from_millis(2500));
        assert!(!net.has_route(1, "10.1.0.0/16"));
        net.octets[0]
    };
    let (once, often) = (sent(0), sent(100));
    assert!(once + 4 * 20 <= often, "{once} octets with and {often} without acknowledgement");
}
