//! Random graphs with random trouble.

use wattle::crypto::rng::Rng;

use crate::net::{Net, host};

fn link_cost(delay_ms: u64) -> u64 {
    let rtt = 2 * delay_ms * 1000;
    16 + (4000 * rtt.clamp(1000, 1_000_000).saturating_sub(1000) + 499_500) / 999_000
}

/// The lowest cost between any two nodes, over the wires that are up.
fn shortest(net: &Net, nodes: usize) -> Vec<Vec<u64>> {
    let mut costs = vec![vec![u64::MAX / 4; nodes]; nodes];
    for (node, costs) in costs.iter_mut().enumerate() {
        costs[node] = 0;
    }
    for wire in net.wires.iter().filter(|wire| wire.up) {
        let [a, b] = wire.ends;
        let cost = link_cost(u64::try_from(wire.delay[0].as_millis()).unwrap());
        costs[a][b] = costs[a][b].min(cost);
        costs[b][a] = costs[b][a].min(cost);
    }
    for via in 0..nodes {
        for a in 0..nodes {
            for b in 0..nodes {
                costs[a][b] = costs[a][b].min(costs[a][via] + costs[via][b]);
            }
        }
    }
    costs
}

/// A connected graph in which every node announces its address.
fn graph(seed: u64, nodes: usize) -> Net {
    let mut choose = Rng::from_number(seed ^ 0x5eed);
    let mut pick = |bound: usize| usize::try_from(choose.below(u32::try_from(bound).unwrap())).unwrap();
    let mut net = Net::new(seed, nodes);
    for node in 1..nodes {
        let delay = 1 + u64::try_from(pick(120)).unwrap();
        net.wire(node, pick(node), delay);
    }
    for _ in 0..nodes {
        let (a, b) = (pick(nodes), pick(nodes));
        let delay = 1 + u64::try_from(pick(120)).unwrap();
        if a != b {
            net.wire(a, b, delay);
        }
    }
    net.share("0.0.0.0/0");
    for node in 0..nodes {
        net.announce(node, &[&host(node), "0.0.0.0/0"][..if node < 2 { 2 } else { 1 }]);
    }
    net
}

/// Every route within a sixteenth of the best (nobody asks for a new seqno for less), and most of them the best.
#[track_caller]
fn assert_shortest(net: &Net, seed: u64) {
    net.assert_no_loop();
    let nodes = net.nodes.len();
    let costs = shortest(net, nodes);
    let (mut exact, mut all) = (0, 0);
    for (a, costs) in costs.iter().enumerate() {
        for (b, best) in costs.iter().enumerate().filter(|(b, _)| *b != a) {
            let metric = net.route(a, &host(b)).map_or(0xffff, |route| u64::from(route.metric));
            if *best < 0xffff {
                assert!(
                    metric >= *best && metric <= best + best / 15,
                    "seed {seed}: {a} to {b}: {metric}, best {best}\n{}",
                    net.show()
                );
                all += 1;
                exact += u32::from(metric == *best);
            } else {
                assert_eq!(metric, 0xffff, "seed {seed}: {a} to {b} is cut off");
            }
        }
    }
    assert!(exact * 4 >= all * 3, "seed {seed}: {exact} of {all}");
}

/// Every node's own seqno.
fn seqnos(net: &Net) -> Vec<u16> {
    (0..net.nodes.len()).filter_map(|node| net.route(node, &host(node))).map(|route| route.seqno).collect()
}

fn trouble(seed: u64, nodes: usize) {
    let mut net = graph(seed, nodes);
    net.run(120);
    assert_shortest(&net, seed);
    let mut choose = Rng::from_number(seed);
    let wires = u32::try_from(net.wires.len()).unwrap();
    for _ in 0..40 {
        let wire = usize::try_from(choose.below(wires)).unwrap();
        match choose.below(6) {
            0 => net.set_up(wire, !net.wires[wire].up),
            // One end notices earlier than the other.
            1 => {
                net.wires[wire].up = false;
                let end = net.wires[wire].ends[0];
                net.tell_end(wire, end, false);
            }
            2 => net.set_delay(wire, u64::from(1 + choose.below(300))),
            3 => net.wires[wire].loss = [choose.below(60), choose.below(60)],
            4 => net.wires[wire].loss = [0; 2],
            _ => net.wires[wire].deaf = [choose.below(2) == 0, false],
        }
        net.run_for(std::time::Duration::from_millis(choose.below(12_000).into()));
    }
    for wire in 0..net.wires.len() {
        net.wires[wire].loss = [0; 2];
        net.wires[wire].deaf = [false; 2];
        net.set_up(wire, true);
    }
    // Small gains wait for a minute at every hop, after so much trouble.
    net.run(500);
    let before = seqnos(&net);
    net.run(100);
    assert_eq!(seqnos(&net), before, "seed {seed}: nobody asks for seqnos when all is quiet");
    assert_shortest(&net, seed);
}

#[test]
fn three_nodes() {
    (0..40).for_each(|seed| trouble(seed, 3));
}

#[test]
fn five_nodes() {
    (100..120).for_each(|seed| trouble(seed, 5));
}

#[test]
fn twelve_nodes() {
    (200..205).for_each(|seed| trouble(seed, 12));
}

#[test]
fn fifteen_nodes() {
    (2009..2012).for_each(|seed| trouble(seed, 15));
}

#[test]
fn thirty_nodes() {
    trouble(300, 30);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let mut net = graph(seed, 8);
        net.run(100);
        (net.packets, net.octets.clone(), net.show())
    };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7).0, history(8).0);
}

/// With jitter everywhere, requests and switches stay rare.
#[test]
fn jitter_is_not_passed_on() {
    for seed in 0..3 {
        let mut net = graph(seed, 8);
        for wire in &mut net.wires {
            wire.jitter = 20;
        }
        net.run(120);
        let before = seqnos(&net);
        net.nodes.iter_mut().for_each(|node| node.switches.clear());
        let octets: usize = net.octets.iter().sum();
        net.run(600);
        let raised: u32 = seqnos(&net).iter().zip(before).map(|(now, then)| u32::from(now.wrapping_sub(then))).sum();
        let switches: u32 = net.nodes.iter().flat_map(|node| node.switches.values()).sum();
        let octets = net.octets.iter().sum::<usize>() - octets;
        assert!(raised <= 20, "seed {seed}: {raised} seqnos in ten minutes");
        assert!(switches <= 40, "seed {seed}: {switches} switches of 72 routes in ten minutes");
        assert!(octets < net.wires.len() * 600 * 2 * 40, "seed {seed}: {octets} octets");
    }
}
