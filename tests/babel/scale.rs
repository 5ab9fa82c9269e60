//! How meshes of different shapes and sizes behave: the table of docs/scale.md.

use std::fs;
use std::time::Duration;

use wattle::crypto::rng::Rng;

use crate::net::{Net, host};

const DOC: &str = include_str!("../../docs/scale.md");

/// A shape's name and its wires.
type Shape = (&'static str, fn(usize) -> Vec<(usize, usize)>);

const SHAPES: [Shape; 5] = [("line", line), ("ring", ring), ("grid", grid), ("random", random), ("full", full)];

fn line(nodes: usize) -> Vec<(usize, usize)> {
    (1..nodes).map(|node| (node - 1, node)).collect()
}

fn ring(nodes: usize) -> Vec<(usize, usize)> {
    line(nodes).into_iter().chain([(nodes - 1, 0)]).collect()
}

fn grid(nodes: usize) -> Vec<(usize, usize)> {
    let width = nodes.isqrt();
    let right = (0..nodes).filter(|node| node % width + 1 < width && node + 1 < nodes).map(|node| (node, node + 1));
    let down = (width..nodes).map(|node| (node - width, node));
    right.chain(down).collect()
}

/// Connected, with two wires for each node.
fn random(nodes: usize) -> Vec<(usize, usize)> {
    let mut rng = Rng::from_number(u64::try_from(nodes).unwrap());
    let mut pick = |bound: usize| usize::try_from(rng.below(u32::try_from(bound).unwrap())).unwrap();
    let mut wires: Vec<(usize, usize)> = (1..nodes).map(|node| (pick(node), node)).collect();
    while wires.len() < 2 * nodes {
        let (a, b) = (pick(nodes), pick(nodes));
        if a != b && !wires.contains(&(a.min(b), a.max(b))) {
            wires.push((a.min(b), a.max(b)));
        }
    }
    wires
}

fn full(nodes: usize) -> Vec<(usize, usize)> {
    (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect()
}

/// Runs until everybody reaches whom wires lead to, and nobody else has a route; seconds it took.
fn settle(net: &mut Net, name: &str) -> f64 {
    let step = Duration::from_millis(if net.nodes.len() > 300 { 1000 } else { 100 });
    let start = net.now;
    while net.wrong_pairs() > 0 {
        net.run_for(step);
        assert!(net.now.since(start) < Duration::from_secs(200), "{name}: {} pairs are wrong", net.wrong_pairs());
    }
    net.now.since(start).as_secs_f64()
}

/// What these wires cost when they go silently, and when they come back.
fn outage(net: &mut Net, wires: &[usize], name: &str) -> (f64, f64) {
    wires.iter().for_each(|wire| net.wires[*wire].up = false);
    let lost = settle(net, name);
    net.run(20);
    wires.iter().for_each(|wire| net.wires[*wire].up = true);
    let found = settle(net, name);
    net.run(60);
    (lost, found)
}

/// One row but for the memory, and the memory of a node in KiB, with what the simulation needs for it.
fn measure(shape: &str, nodes: usize, wires: &[(usize, usize)]) -> (String, usize) {
    let name = format!("{shape} of {nodes}");
    let before = resident();
    let mut net = Net::new(1, nodes);
    let mut rng = Rng::from_number(7);
    for (a, b) in wires {
        net.wire(*a, *b, u64::from(5 + rng.below(45)));
    }
    for node in 0..nodes {
        net.announce(node, &[&host(node)]);
    }
    let start = settle(&mut net, &name);
    net.run(60);
    (net.packets, net.octets) = (0, vec![0; wires.len()]);
    net.run(32);
    let per_node = |sum: f64| sum / 32.0 / f64::from(u32::try_from(nodes).unwrap());
    let packets = per_node(f64::from(u32::try_from(net.packets).unwrap()));
    let octets = per_node(f64::from(u32::try_from(net.octets.iter().sum::<usize>()).unwrap()));
    let memory = resident().saturating_sub(before) / nodes;
    // A wire in use, the most central of them in a line.
    let middle = wires.len() / 2;
    let used = (middle..wires.len()).chain(0..middle).find(|wire| {
        net.wires[*wire].up = false;
        let used = net.wrong_pairs() > 0;
        net.wires[*wire].up = true;
        used
    });
    let link = outage(&mut net, &[used.unwrap()], &name);
    let those = |chosen: &dyn Fn(usize, usize) -> bool| -> Vec<usize> {
        wires.iter().enumerate().filter(|(_, (a, b))| chosen(*a, *b)).map(|(wire, _)| wire).collect()
    };
    let half = nodes / 2;
    let node = outage(&mut net, &those(&|a, b| a == half || b == half), &name);
    let parts = outage(&mut net, &those(&|a, b| (a < half) != (b < half)), &name);
    let row = format!(
        "| {shape} | {nodes} | {start:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {packets:.1} | {octets:.0} |",
        link.0, link.1, node.0, node.1, parts.0, parts.1
    );
    (row, memory)
}

/// KiB.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What the document says of the smallest meshes is what comes out now; after a change that is meant, run scripts/scale.
#[test]
fn the_table_is_true() {
    for (shape, wires) in SHAPES {
        let (row, _) = measure(shape, 10, &wires(10));
        assert!(DOC.contains(&row), "docs/scale.md has not: {row}");
    }
}

/// Made by scripts/scale, which gives the sizes: `line:50 random:1000`.
#[test]
#[ignore = "takes minutes to hours: scripts/scale runs it"]
fn table() {
    let wanted = std::env::var("WATTLE_SCALE").unwrap_or_default();
    for (shape, nodes) in wanted.split_whitespace().filter_map(|item| item.split_once(':')) {
        let nodes: usize = nodes.parse().unwrap();
        let (_, wires) = SHAPES.iter().find(|(name, _)| *name == shape).unwrap();
        let (row, memory) = measure(shape, nodes, &wires(nodes));
        println!("{row} {memory} |");
    }
}
