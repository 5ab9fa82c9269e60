//! Addresses and ports: where peers are dialled, and what the mesh may claim.

use super::folder::{Folder, node, short};

#[test]
fn port_500_alone_carries_nothing() {
    let folder = Folder::new();
    let loaded = folder.load("\"listen\": [500]");
    let seen: Vec<String> = loaded.report.errors.iter().map(short).collect();
    assert!(seen.len() == 1 && seen[0].starts_with("listen: port 500 is only for the first messages"), "{seen:?}");
    assert_eq!(folder.load("\"listen\": [500, 4500]").plan.expect("a plan").listen, [500, 4500]);
}

#[test]
fn endpoints_that_are_none() {
    let folder = Folder::new();
    let error = |endpoint: &str| {
        let error =
            folder.error(&format!("\"nodes\": [{}]", node("a", 2, &format!(", \"endpoints\": [\"{endpoint}\"]"))));
        let path = "nodes[0].endpoints[0]: ";
        error.strip_prefix(path).unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    for (endpoint, why) in [
        ("", "the host is missing"),
        (":4500", "the host is missing"),
        ("203.0.113.7:", "the port is a number from 1 to 65535, not \"\""),
        ("203.0.113.7:65536", "the port is a number from 1 to 65535, not \"65536\""),
        ("203.0.113.7:+80", "the port is a number from 1 to 65535, not \"+80\""),
        ("203.0.113.256:4500", "not an IPv4 address"),
        ("203.0.113:4500", "not an IPv4 address"),
        ("2001:db8::7:4500", "an IPv6 address stands in brackets: write \"[2001:db8::7:4500]:4500\""),
        ("[2001:db8::7", "] is missing after the IPv6 address"),
        ("[2001:db8::7]4500", "expected : and the port after ]"),
        ("[203.0.113.7]:4500", "\"203.0.113.7\" is not an IPv6 address"),
        ("udp://vpn.example:4500", "expected only host:port, such as \"203.0.113.7:4500\""),
        ("vpn_1.example", "not an address, and not a host name"),
        ("-a.example", "not an address, and not a host name"),
        ("a..example", "not an address, and not a host name"),
        (" 203.0.113.7", "not an IPv4 address"),
        ("0.0.0.0:4500", "the unspecified address cannot be dialled"),
        ("224.0.0.1", "a multicast address cannot be dialled"),
        ("[fe80::1]:4500", "a link-local address is not enough: use one that is valid beyond its link"),
        ("[::ffff:203.0.113.7]", "write the IPv4 address itself"),
    ] {
        let message = error(endpoint);
        assert_eq!(message, format!("\"{endpoint}\": {why}"));
    }
}

#[test]
fn claims_that_collide() {
    let folder = Folder::new();
    let twice = |a: &str, b: &str| format!("\"nodes\": [{},\n{}]", node("a", 2, a), node("b", 3, b));
    let endpoint = ", \"endpoints\": [\"203.0.113.7:4500\"]";
    assert_eq!(
        folder.error(&twice(endpoint, ", \"endpoints\": [\"203.0.113.7\"]")),
        "nodes[1].endpoints[0]: 203.0.113.7:4500 is nodes[0].endpoints[0] in line 3 already"
    );
    assert_eq!(
        folder.error(&twice(", \"routes\": [\"10.9.0.0/16\"]", ", \"routes\": [\"10.9.0.0/16\"]")),
        "nodes[1].routes[0]: 10.9.0.0/16 belongs to nodes[0].routes[0] in line 3 already"
    );
    assert_eq!(
        folder.error(&format!("\"announce\": [\"10.9.0.0/16\"], {}", twice("", ", \"routes\": [\"10.9.0.0/16\"]"))),
        "nodes[1].routes[0]: 10.9.0.0/16 belongs to announce[0] in line 3 already"
    );
    assert_eq!(
        folder.error(&twice(", \"locator\": \"fd66::/48\"", ", \"locator\": \"fd66:0:0:1::/64\"")),
        "nodes[1].locator: the locator fd66:0:0:1::/64 overlaps fd66::/48 of nodes[0].locator in line 3"
    );
    assert_eq!(
        folder.error("\"tun\": { \"addresses\": [\"10.66.0.3/32\", \"10.66.0.4/24\"] }"),
        "tun.addresses[1]: the network 10.66.0.0/24 overlaps 10.66.0.3/32 of tun.addresses[0] in line 3"
    );
    assert_eq!(
        folder.error("\"announce\": [\"10.9.0.0/16\", { \"to\": \"10.9.0.0/16\" }]"),
        "announce[1]: 10.9.0.0/16 is listed twice, first as announce[0] in line 3"
    );
    assert_eq!(
        folder.error("\"tun\": null, \"announce\": [\"10.9.0.0/16\"]"),
        "announce[0]: a node without a TUN device only relays: nothing can be reached behind it"
    );
}

/// Case C5: the underlay must not lie inside the mesh.
#[test]
fn endpoints_inside_the_mesh() {
    let folder = Folder::new();
    let dialled = format!("\"nodes\": [{}]", node("a", 2, ", \"endpoints\": [\"10.66.0.1:4500\"]"));
    assert_eq!(
        folder.error(&format!("\"tun\": {{ \"addresses\": [\"10.66.0.3/24\"] }}, {dialled}")),
        "nodes[0].endpoints[0]: 10.66.0.1 lies in 10.66.0.0/24 of tun.addresses[0]: an endpoint is outside of the mesh"
    );
    let routed = format!(
        "\"nodes\": [{},{}]",
        node("a", 2, ", \"endpoints\": [\"172.17.0.5\"]"),
        node("b", 3, ", \"routes\": [\"172.17.0.0/16\", \"0.0.0.0/0\"]")
    );
    assert_eq!(
        folder.warning(&routed),
        "nodes[0].endpoints[0]: 172.17.0.5 lies in 172.17.0.0/16, which nodes[1].routes[0] in line 3 leads into the mesh"
    );
}

#[test]
fn addresses_that_nobody_may_have() {
    let folder = Folder::new();
    let error = |fields: &str| folder.error(fields).split_once(": ").unwrap().1.to_owned();
    let address = |text: &str| error(&format!("\"tun\": {{ \"addresses\": [\"{text}\"] }}"));
    assert_eq!(address("10.66.0.0/24"), "10.66.0.0/24 is a network: give this node an address in it");
    assert_eq!(address("10.66.0.255/24"), "10.66.0.255 is the broadcast address of its network");
    assert_eq!(address("fe80::1/64"), "fe80::1 cannot be an address of a node: it is link-local");
    assert_eq!(address("127.0.0.1/8"), "127.0.0.1 cannot be an address of a node: it is loopback");
    assert_eq!(address("10.0.0.1/33"), "\"10.0.0.1/33\": the length after / is a number from 0 to 32");
    let announce = |text: &str| error(&format!("\"announce\": [\"{text}\"]"));
    assert_eq!(announce("ff00::/8"), "ff00::/8 cannot be routed: it is multicast");
    assert_eq!(announce("fe80::/10"), "fe80::/10 cannot be routed: it is link-local");
    assert_eq!(announce("lan"), "\"lan\" is not a prefix such as \"192.168.88.0/24\" or \"2001:db8:88::/48\"");
    assert_eq!(announce("10.0.0.0/255.0.0.0"), "\"10.0.0.0/255.0.0.0\": the length after / is a number from 0 to 32");
    assert_eq!(error("\"locator\": \"fd66::/120\""), "a locator is /16 to /112, not /120");
    let plan = folder.plan("\"announce\": [\"0.0.0.0/0\", \"::/0\"], \"tun\": { \"addresses\": [\"10.0.0.0/31\"] }");
    assert_eq!(plan.announce.len(), 2);
}
