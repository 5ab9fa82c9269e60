//! Four Babel speakers, wires that come and go, and everything that can happen to them; the network itself looks for loops and
//! unfeasible routes after every event. In the end, when all wires are sound, everybody reaches everybody.

use super::input::Input;
#[path = "../../tests/babel/net.rs"]
#[allow(dead_code, reason = "the stories of tests/babel use the rest")]
mod net;

use net::{Net, host};

const OPERATIONS: usize = 60;
const NODES: usize = 4;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut net = Net::new(input.u8().into(), NODES);
    // A ring and a chord.
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)] {
        net.wire(a, b, 1 + u64::from(input.u8()));
    }
    for node in 0..NODES {
        net.announce(node, &[&host(node)]);
    }
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        let [operation, argument] = input.array();
        let (wire, node) = (usize::from(argument) % 5, usize::from(argument) % NODES);
        match operation & 15 {
            0..=3 => net.run(u64::from(argument) & 31),
            4 => net.set_up(wire, false),
            5 => net.set_up(wire, true),
            6 => net.tell_end(wire, net.wires[wire].ends[usize::from(argument >> 7)], argument & 0x40 != 0),
            7 => net.set_delay(wire, u64::from(input.u8())),
            8 => net.wires[wire].loss = [u32::from(input.u8()) * 100 / 255, u32::from(input.u8()) * 100 / 255],
            9 => net.wires[wire].deaf = [argument & 0x20 != 0, argument & 0x40 != 0],
            10 => net.wires[wire].jitter = u32::from(argument >> 4) * 5,
            11 => net.renew(wire),
            12 => net.announce(node, &[&host(node)]),
            13 => net.announce(node, &[]),
            _ => net.run_for(std::time::Duration::from_millis(u64::from(argument) * 10)),
        }
    }
    for wire in 0..net.wires.len() {
        (net.wires[wire].loss, net.wires[wire].deaf, net.wires[wire].jitter) = ([0; 2], [false; 2], 0);
        net.set_up(wire, true);
    }
    for node in 0..NODES {
        net.announce(node, &[&host(node)]);
    }
    net.run(120);
    net.assert_no_loop();
    for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))) {
        assert!(net.has_route(from, &host(to)), "{from} has no route to {to}\n{}", net.show());
    }
}
