//! The file as a whole: what every field becomes, and that one run reports every mistake.

use super::folder::{Folder, key, node, public, short};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use wattle::config::file::FIELDS;
use wattle::config::load::load;
use wattle::config::plan::{Host, Kernel, PostQuantum, Rekey, Suites};
use wattle::crypto::aead::{Cipher, hardware_aes};
use wattle::crypto::keyfile;
use wattle::offload::{Offload, Switch};

#[test]
fn everything_has_a_default_but_name_and_key() {
    let plan = Folder::new().plan("");
    assert_eq!(plan.name, "riga");
    assert_eq!(plan.private_key.public(), key(1).public());
    assert_eq!(plan.listen, [4500]);
    let tun = plan.tun.unwrap();
    assert_eq!((tun.name.as_str(), tun.mtu, tun.addresses.len()), ("wattle0", 1400, 0));
    assert_eq!(plan.suites, Suites::default_for(hardware_aes()));
    assert_eq!(plan.suites.post_quantum, PostQuantum::Preferred);
    assert_eq!(plan.kernel, Kernel::default());
    assert_eq!(plan.rekey, Rekey::default());
    assert_eq!(plan.babel.hello_interval, Duration::from_secs(4));
    assert_eq!(plan.control, Path::new("/run/wattle.sock"));
    assert!(plan.announce.is_empty() && plan.peers.is_empty() && plan.locator.is_none());
}

#[test]
fn every_field_arrives_in_the_plan() {
    let folder = Folder::new();
    let pem = keyfile::public_pem(&key(3).public()).replace('\n', "\\n");
    let text = format!(
        r#""description": "the router in the attic",
        "listen": [4500, 4501],
        "tun": {{ "name": "mesh", "mtu": 1380, "addresses": ["10.66.0.3/24", "fd66::3/128"], "description": "t" }},
        "announce": ["192.168.88.0/24", {{ "to": "::/0", "from": "2001:db8:88::/48", "description": "uplink" }},
            {{ "kernel": 254, "prefixes": ["10.0.0.0/8"] }}],
        "locator": "fd66:0:0:3::/64",
        "steer": [
            {{ "name": "video", "from": "192.168.88.0/24", "to": "0.0.0.0/0", "protocol": "udp", "port": "443-500", "dscp": 46,
              "via": ["frankfurt", "riga", "frankfurt", "fcbb:2::1"], "exit": "frankfurt", "srh": "full",
              "if_unreachable": "route", "description": "s" }},
            {{ "name": "not", "to": "10.9.0.0/16" }}
        ],
        "segment_sources": ["fc00:12::/64"],
        "exit": true,
        "nodes": [
            {{ "name": "frankfurt", "public_key": "{}", "locator": "fd66:0:0:1::/64", "pin_port": true, "description": "f",
              "endpoints": ["203.0.113.7", "203.0.113.7:4501", "[2001:db8::7]", "[2001:db8::7]:4501", "VPN.example:500", "b.example"] }},
            {{ "name": "legacy", "public_key": "{pem}", "routes": ["10.9.0.0/16", {{ "to": "10.8.0.0/16", "from": "10.7.0.0/16" }}],
              "remote_id": "C=CH, CN=legacy", "local_id": "keyid:riga", "proposals": ["aes256gcm16-prfsha256-mlkem512"],
              "esp": ["aes128gcm16"], "pq": "required" }}
        ],
        "proposals": ["chacha20poly1305-prfsha512-x25519", "aes128gcm16-prfsha384-x25519-ke1_mlkem1024-ke2_mlkem512"],
        "esp": ["chacha20poly1305"],
        "pq": "preferred",
        "babel": {{ "hello_ms": 2000, "rxcost": 17, "rtt_cost": 18, "rtt_min_ms": 19, "rtt_max_ms": 20, "description": "b",
            "accept": [{{ "to": "10.0.0.0/8", "ge": 9, "le": 10, "deny": true }}], "announce": ["10.0.0.0/8"] }},
        "rekey": {{ "child_s": 600, "child_mb": 25, "ike_s": 7200, "description": "r" }},
        "kernel": {{ "table": 77, "mark": 78, "rule": 79, "description": "k" }},
        "offload": {{ "tun": "off", "udp_gso": "on", "udp_gro": "auto", "description": "o" }},
        "control": "run/wattle.sock",
        "log": "info,wattle::ike=debug""#,
        public(2)
    );
    let loaded = folder.load(&text);
    assert_eq!(loaded.report.errors, []);
    assert_eq!(loaded.report.warnings, []);
    let plan = loaded.plan.unwrap();
    assert_eq!(plan.log.as_deref(), Some("info,wattle::ike=debug"));
    assert_eq!(plan.listen, [4500, 4501]);
    let tun = plan.tun.unwrap();
    assert_eq!((tun.name.as_str(), tun.mtu), ("mesh", 1380));
    assert_eq!(tun.addresses, ["10.66.0.3/24".parse().unwrap(), "fd66::3/128".parse().unwrap()]);
    let announce: Vec<String> = plan.announce.iter().map(ToString::to_string).collect();
    assert_eq!(announce, ["192.168.88.0/24", "::/0 from 2001:db8:88::/48"]);
    assert_eq!(plan.locator, Some("fd66:0:0:3::/64".parse().unwrap()));
    assert_eq!(plan.steering.sources, ["fc00:12::/64".parse().unwrap()]);
    assert!(plan.steering.exit);
    let [video, not] = plan.steering.policies.as_slice() else { panic!("{:?}", plan.steering) };
    assert_eq!((video.name.as_str(), video.prefix.to_string().as_str()), ("video", "0.0.0.0/0 from 192.168.88.0/24"));
    assert_eq!((video.protocol, video.ports.clone(), video.dscp), (Some(17), Some(443..=500), Some(46)));
    assert!(!video.reduced && video.route_if_unreachable);
    let path: Vec<(String, String)> = video.path.iter().map(|s| (s.name.clone(), s.sid.to_string())).collect();
    let expected = [
        ("frankfurt", "fd66:0:0:1::1"),
        ("riga", "fd66:0:0:3::1"),
        ("frankfurt", "fd66:0:0:1::1"),
        ("fcbb:2::1", "fcbb:2::1"),
        ("frankfurt", "fd66:0:0:1::14"),
    ];
    assert_eq!(path, expected.map(|(name, sid)| (name.to_owned(), sid.to_owned())));
    assert!(not.path.is_empty() && not.reduced && !not.route_if_unreachable);
    let [frankfurt, legacy] = plan.peers.as_slice() else { panic!("{:?}", plan.peers) };
    assert_eq!(
        (frankfurt.name.as_str(), frankfurt.public_key, frankfurt.pin_port),
        ("frankfurt", key(2).public(), true)
    );
    assert_eq!(frankfurt.locator, Some("fd66:0:0:1::/64".parse().unwrap()));
    let endpoints: Vec<String> = frankfurt.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(
        endpoints,
        [
            "203.0.113.7:4500",
            "203.0.113.7:4501",
            "[2001:db8::7]:4500",
            "[2001:db8::7]:4501",
            "vpn.example:500",
            "b.example:4500"
        ]
    );
    assert_eq!(frankfurt.endpoints[2].host, Host::Address("2001:db8::7".parse::<IpAddr>().unwrap()));
    assert_eq!((legacy.public_key, legacy.pin_port, legacy.endpoints.len()), (key(3).public(), false, 0));
    let routes: Vec<String> = legacy.routes.iter().map(ToString::to_string).collect();
    assert_eq!(routes, ["10.9.0.0/16", "10.8.0.0/16 from 10.7.0.0/16"]);
    let suites: Vec<String> = plan.suites.ike.iter().map(ToString::to_string).collect();
    assert_eq!(
        suites,
        ["aes128gcm16-prfsha384-x25519-ke1_mlkem1024-ke2_mlkem512", "chacha20poly1305-prfsha512-x25519"],
        "with ML-KEM first"
    );
    assert_eq!(plan.suites.esp, [Cipher::ChaCha20Poly1305]);
    assert_eq!(plan.suites.post_quantum, PostQuantum::Preferred);
    assert_eq!(frankfurt.suites, plan.suites);
    assert_eq!((frankfurt.remote_id.to_string(), frankfurt.local_id.to_string()), ("frankfurt".into(), "riga".into()));
    assert_eq!(
        (legacy.remote_id.to_string(), legacy.local_id.to_string()),
        ("C=CH, CN=legacy".into(), "keyid:riga".into())
    );
    let own: Vec<String> = legacy.suites.ike.iter().map(ToString::to_string).collect();
    assert_eq!(own, ["aes256gcm16-prfsha256-mlkem512"]);
    assert_eq!((&*legacy.suites.esp, legacy.suites.post_quantum), (&[Cipher::Aes128Gcm][..], PostQuantum::Required));
    assert_eq!(plan.babel.hello_interval, Duration::from_secs(2));
    let tuning = legacy.babel.tuning;
    assert_eq!((tuning.rxcost, tuning.rtt_cost), (17, 18));
    assert_eq!((tuning.rtt_min, tuning.rtt_max), (Duration::from_millis(19), Duration::from_millis(20)));
    assert_eq!((legacy.babel.accept.0.as_ref().map(Vec::len), plan.from_kernel.len()), (Some(1), 1));
    let life = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(plan.rekey, Rekey { child: life(600), ike: life(7200), octets: Some(25_000_000) });
    assert_eq!(plan.kernel, Kernel { table: 77, mark: 78, rule: 79 });
    assert_eq!(plan.offload, Offload { tun: Switch::Off, udp_gso: Switch::On, udp_gro: Switch::Auto });
    assert_eq!(plan.control, folder.path("run/wattle.sock"));
    for (object, fields) in FIELDS {
        for field in *fields {
            let elsewhere = *field == "private_key" || *field == "registry" || *object == "the registry";
            assert!(
                elsewhere || text.contains(&format!("\"{field}\"")) || *field == "name",
                "{object}.{field} is not in this test"
            );
        }
    }
}

/// Case J1: misspelt and double keys in a file that Winbox has written.
#[test]
fn crlf_byte_order_mark_misspelt_and_double_keys() {
    let folder = Folder::new();
    let mut octets = b"\xef\xbb\xbf\x7b\x0d\x0a".to_vec();
    octets.extend_from_slice(
        b" \"name\": \"riga\",\r\n \"privte_key\": \"riga.key\",\r\n \"listen\": [4500], \"listen\": [4501],\r\n \
          \"nodes\": [ { \"name\": \"a\", \"endpoint\": \"203.0.113.7:4500\" } ]\r\n}\r\n",
    );
    let loaded = load(&folder.write("riga.json", &octets));
    assert!(loaded.plan.is_none());
    let seen: Vec<(u32, String)> = loaded.report.errors.iter().map(|e| (e.line.unwrap(), short(e))).collect();
    let line = |number, start: &str| seen.iter().any(|(line, text)| *line == number && text.starts_with(start));
    assert!(line(3, "privte_key: unknown field; did you mean \"private_key\"?"), "{seen:#?}");
    assert!(line(4, "listen: given twice, first in line 4"), "{seen:#?}");
    assert!(line(5, "nodes[0].endpoint: unknown field; did you mean \"endpoints\"?"), "{seen:#?}");
    assert!(line(5, "nodes[0].public_key: missing"), "{seen:#?}");
    assert_eq!(seen.len(), 4, "{seen:#?}");

    let corrected = format!(
        "\u{feff}{{\r\n \"name\": \"riga\",\r\n \"private_key\": \"riga.key\",\r\n \"listen\": [4500],\r\n \"nodes\": [ {} ]\r\n}}\r\n",
        node("a", 2, ", \"endpoints\": [\"203.0.113.7:4500\"]")
    );
    let loaded = load(&folder.write("riga.json", corrected));
    assert!(loaded.plan.is_some(), "{:#?}", loaded.report);
}

#[test]
fn twenty_mistakes_are_reported_in_one_run() {
    let folder = Folder::new();
    let text = format!(
        r#""lisen": [4500],
        "listen": [0, 4500, 4500],
        "tun": {{ "name": "a-name-that-is-too-long", "mtu": 1000, "addresses": ["10.66.0.3"] }},
        "announce": ["192.168.88.1/24", {{ "to": "::/0", "from": "10.0.0.0/8" }}, 17],
        "locator": "10.0.0.0/8",
        "nodes": [
            {},
            {},
            {{ "name": "b!", "public_key": "no key", "endpoints": ["2001:db8::7", "vpn.example:0"] }},
            {}
        ],
        "registry": "missing.json",
        "proposals": ["aes256gcm16-prfsha256-x25519-ke1_mlkem769"],
        "esp": ["aes256"],
        "pq": "requird",
        "babel": {{ "hello_ms": 1 }},
        "kernel": {{ "table": 254 }},
        "steer": {{}},
        "log": "verbose""#,
        node("a", 2, ""),
        node("a", 3, ", \"colour\": 1"),
        node("c", 2, ", \"endpoints\": \"203.0.113.7\"")
    );
    let loaded = folder.load(&text);
    assert!(loaded.plan.is_none());
    let seen: Vec<String> = loaded.report.errors.iter().map(short).collect();
    let expected = [
        "lisen: unknown field; did you mean \"listen\"?",
        "listen[0]: expected a whole number from 1 to 65535, found 0",
        "listen[2]: port 4500 is listed twice",
        "tun.name: names of interfaces have at most 15 characters",
        "tun.mtu: expected a whole number from 1280 to 9000, found 1000",
        "tun.addresses[0]: \"10.66.0.3\" has no length: write \"10.66.0.3/32\"",
        "announce[0]: \"192.168.88.1/24\" has bits set beyond its length: write 192.168.88.0/24",
        "announce[1]: \"to\" and \"from\" must both be IPv4 or both be IPv6",
        "announce[2]: expected a prefix such as \"192.168.88.0/24\", or { \"to\", \"from\" }, found a number",
        "locator: a locator is an IPv6 prefix, such as \"fd66:0:0:3::/64\"",
        "nodes[1].name: a second node of the name \"a\", first in nodes[0].name in line 9",
        "nodes[1].colour: unknown field; known here: name, public_key, endpoints, locator, routes, pin_port, remote_id, local_id, proposals, esp, pq, babel",
        "nodes[2].name: names are made of the letters a to z, digits and - . _: write e.g. \"b-\"",
        "nodes[2].public_key: not an Ed25519 public key: run \"wattle pubkey FILE\" on that node and put the output here",
        "nodes[2].endpoints[0]: \"2001:db8::7\": an IPv6 address stands in brackets: write \"[2001:db8::7]:4500\"",
        "nodes[2].endpoints[1]: \"vpn.example:0\": the port is a number from 1 to 65535, not \"0\"",
        "nodes[3].public_key: the same key as nodes[0].public_key in line 9",
        "nodes[3].endpoints: expected a list, found a string: write [\"203.0.113.7\"]",
        "registry: cannot read the registry \"missing.json\": No such file or directory",
        "proposals[0]: unknown key exchange \"mlkem769\"; did you mean mlkem768? valid: x25519, mlkem512, mlkem768, mlkem1024",
        "esp[0]: unknown cipher \"aes256\": write aes256gcm16; valid: aes256gcm16, chacha20poly1305, aes128gcm16",
        "pq: \"requird\" is neither \"required\" nor \"preferred\"; did you mean \"required\"?",
        "babel.hello_ms: expected a whole number from 100 to 60000, found 1",
        "kernel.table: table 254 is the system's own; wattle empties its table: choose another",
        "steer: expected a list, found an object",
        "log: log levels are off, error, warn, info, debug, trace; not \"verbose\"",
    ];
    assert!(expected.len() >= 20);
    assert_eq!(seen, expected, "{seen:#?}");
    assert!(loaded.report.errors.iter().all(|e| e.line.is_some() && e.column.is_some()));
}

#[test]
fn syntax_errors_do_not_hide_the_rest() {
    let folder = Folder::new();
    let loaded = folder.load("\"listen\": [4500,],\n\"tunn\": null");
    let seen: Vec<String> = loaded.report.errors.iter().map(ToString::to_string).collect();
    let file = folder.path("riga.json").display().to_string();
    assert_eq!(
        seen,
        [
            format!("{file}:3:17: no comma may stand after the last value"),
            format!("{file}:4:1: tunn: unknown field; did you mean \"tun\"?")
        ]
    );
    for (text, message) in [
        (&b"\xff\xfe{\0}\0"[..], "the file is in UTF-16: save it as UTF-8"),
        (b"{ \"name\": \"r\xe9ga\" }", "this line is not UTF-8 text"),
        (b"", "the file is empty: expected { … }"),
        (b"[]", "expected an object, found a list"),
        (b"{ \"name\" \"riga\" }", "expected : after \"name\", found \"\"\""),
    ] {
        let loaded = load(&folder.write("riga.json", text));
        assert!(loaded.plan.is_none());
        assert_eq!(loaded.report.errors[0].message, message, "{:#?}", loaded.report);
    }
}

#[test]
fn a_node_that_can_do_nothing_is_told_so() {
    let report = Folder::new().load("").report;
    let warnings: Vec<String> = report.warnings.iter().map(short).collect();
    assert_eq!(
        warnings,
        [
            ": no tun.addresses and nothing to announce: nobody can reach this node",
            ": no nodes: there is nobody to connect to"
        ]
    );
    assert_eq!(Folder::new().load("\"colour\": 1").report.warnings, []);
}

#[test]
fn a_registry_is_shared_and_everyone_skips_himself() {
    let folder = Folder::new();
    let registry = format!(
        "{{ \"description\": \"all of us\", \"nodes\": [\n{},\n{},\n{} ] }}",
        node("frankfurt", 2, ", \"endpoints\": [\"203.0.113.7:4500\"]"),
        node("riga", 1, ", \"endpoints\": [\"203.0.113.8:4500\"], \"locator\": \"fd66:0:0:3::/64\""),
        node("tokyo", 3, "")
    );
    folder.write("registry.json", &registry);
    let inline = format!("\"registry\": \"registry.json\", \"nodes\": [{}]", node("laptop", 4, ""));
    let names: Vec<String> = folder.plan(&inline).peers.into_iter().map(|peer| peer.name).collect();
    assert_eq!(names, ["laptop", "frankfurt", "tokyo"]);

    // Both places of a duplicate are named, and the registry's own problems have its name and lines.
    folder.write("registry.json", registry.replace("tokyo", "laptop"));
    let loaded = folder.load(&inline);
    let error = &loaded.report.errors[0];
    assert!(error.file.ends_with("registry.json") && error.line == Some(4), "{error:?}");
    assert_eq!(
        short(error),
        "nodes[2].name: a second node of the name \"laptop\", first in nodes[0].name in line 3 of riga.json"
    );

    folder.write("registry.json", registry.replace(&public(1), &public(5)));
    let error = folder.error(&inline);
    assert!(error.contains("the registry has for us the key SHA256:"), "{error}");
    assert!(
        error.contains(&key(5).public().fingerprint()) && error.ends_with(&key(1).public().fingerprint()),
        "{error}"
    );

    folder.write("registry.json", registry.replace("\"riga\"", "\"rigga\"").replace(&public(1), &public(6)));
    assert_eq!(
        folder.warning(&inline),
        "nodes: we are not in the registry by our name \"riga\"; did you mean \"rigga\"?"
    );
    folder.write("registry.json", registry.replace("\"riga\"", "\"rigga\""));
    assert!(folder.error(&inline).contains("this is our own key: if the node is ourselves, its name must be \"riga\""));

    folder.write("registry.json", "{ \"node\": [] }");
    assert_eq!(folder.error(&inline), "node: unknown field; did you mean \"nodes\"?");
    folder.write("registry.json", "{ \"nodes\": [ }");
    assert_eq!(folder.error(&inline), ": expected a value, found \"}\"");
    folder.write("registry.json", registry.replace("fd66:0:0:3::/64", "fd66:0:0:4::/64"));
    let error = folder.error(&format!("\"locator\": \"fd66:0:0:3::/64\", {inline}"));
    assert_eq!(error, "nodes[1].locator: fd66:0:0:4::/64 is not our locator, which locator says is fd66:0:0:3::/64");
}

#[test]
fn ourselves_inline() {
    let folder = Folder::new();
    let error = folder.error(&format!("\"nodes\": [{}]", node("riga", 2, "")));
    assert!(error.starts_with("nodes[0].public_key: this node has our name but the key SHA256:"), "{error}");
    assert!(folder.plan(&format!("\"nodes\": [{}]", node("riga", 1, ""))).peers.is_empty());
    let error = folder.error(&format!("\"nodes\": [{}]", node("Riga", 2, "")));
    assert_eq!(error, "nodes[0].name: differs from our own name only in small and capital letters");
}

#[test]
fn names() {
    let folder = Folder::new();
    let name = |name: &str| {
        let text = format!("{{ \"name\": \"{name}\", \"private_key\": \"riga.key\" }}");
        let loaded = load(&folder.write("name.json", text));
        loaded.report.errors.first().map(short)
    };
    assert_eq!(name("a"), None);
    assert_eq!(name(&"a".repeat(63)), None);
    assert_eq!(name("r1.example_net-2"), None);
    assert_eq!(name(""), Some("name: the name is empty".to_owned()));
    assert_eq!(name(&"a".repeat(64)), Some("name: the name is 64 octets long; at most 63 are allowed".to_owned()));
    for odd in ["a b", "r\u{ef}ga", "\\u0000", "--", "a\\r"] {
        assert!(name(odd).unwrap().starts_with("name: names are made of"), "{odd:?}");
    }
    assert_eq!(
        name("local"),
        Some("name: \"wattle routes\" has another meaning for \"local\": choose another name".to_owned())
    );
}

#[test]
fn wrong_types_and_other_values() {
    let folder = Folder::new();
    for (fields, message) in [
        ("\"listen\": 4500", "listen: expected a list, found a number: write [4500]"),
        ("\"listen\": []", "listen: at least one UDP port is needed; leave the field out for [4500]"),
        ("\"listen\": [4500.5]", "listen[0]: expected a whole number from 1 to 65535, found 4500.5"),
        ("\"listen\": [\"4500\"]", "listen[0]: expected a number, found a string"),
        ("\"tun\": \"wattle0\"", "tun: expected an object, found a string"),
        ("\"tun\": { \"name\": \"a b\" }", "tun.name: names of interfaces have no blanks and none of / : %"),
        ("\"tun\": { \"name\": \"\" }", "tun.name: the name of the TUN device is empty"),
        ("\"tun\": { \"name\": \"lo\" }", "tun.name: this name is taken by the system"),
        ("\"registry\": null", "registry: expected a string, found null"),
        ("\"description\": 1", "description: expected a string, found a number"),
        ("\"nodes\": {}", "nodes: expected a list, found an object"),
        ("\"nodes\": [1]", "nodes[0]: expected an object, found a number"),
        ("\"announce\": [{ \"from\": \"10.0.0.0/8\" }]", "announce[0].to: missing"),
        (
            "\"announce\": [{ \"to\": \"10.0.0.0/8\", \"from\": 1 }]",
            "announce[0].from: expected a string, found a number",
        ),
        ("\"babel\": { \"hello_ms\": 4005 }", "babel.hello_ms: hello_ms counts in steps of 10: write 4000"),
        ("\"rekey\": { \"child_mb\": 0 }", "rekey.child_mb: expected a whole number from 1 to 1000000000, found 0"),
        ("\"rekey\": { \"child_s\": 9 }", "rekey.child_s: expected a whole number from 10 to 604800, found 9"),
        ("\"kernel\": { \"mark\": 0 }", "kernel.mark: expected a whole number from 1 to 4294967295, found 0"),
        (
            "\"offload\": { \"udp_gso\": \"offf\" }",
            "offload.udp_gso: expected \"auto\", \"on\" or \"off\", found \"offf\"; did you mean \"off\"?",
        ),
        ("\"offload\": { \"tun\": true }", "offload.tun: expected a string, found true or false"),
        ("\"control\": \"\"", "control: expected the name of a file for the unix socket"),
        ("\"log\": \"wattle=\"", "log: log levels are off, error, warn, info, debug, trace; not \"\""),
        (
            "\"colour\": 1",
            "colour: unknown field; known here: name, private_key, listen, tun, announce, locator, steer, segment_sources, exit, nodes, registry, proposals, esp, pq, babel, rekey, …",
        ),
    ] {
        assert_eq!(folder.error(fields), message);
    }
    let twice = "\"announce\": [\"10.66.0.0/24\"], \"tun\": { \"addresses\": [\"10.66.0.3/24\"] }";
    assert_eq!(folder.warning(twice), "announce[0]: announced anyway, because it is tun.addresses[0]");
    let long = folder.error(&format!("\"control\": \"/{}\"", "x".repeat(107)));
    assert_eq!(long, "control: the path of a unix socket has at most 107 octets");
    let pinned = format!("\"nodes\": [{}]", node("a", 2, ", \"pin_port\": true"));
    assert_eq!(folder.warning(&pinned), "nodes[0]: pin_port is of no use without endpoints: this node dials us");
    assert!(folder.plan("\"tun\": null").tun.is_none());
}

#[test]
fn nothing_in_a_file_makes_loading_panic_or_hang() {
    let folder = Folder::new();
    let many: Vec<String> = (0..20_000)
        .map(|n| format!("{{\"name\":\"n{n}\",\"public_key\":\"x\",\"endpoints\":[\"10.{}.{}.1\"],\"locator\":\"fd66:{n:x}::/32\"}}", n / 256, n % 256))
        .collect();
    let loaded = folder.load(&format!("\"nodes\": [{}]", many.join(",")));
    assert_eq!(loaded.report.errors.len(), 20_000, "one bad key each");
    for octets in
        [&b"\x00"[..], b"{\"name\":{\"name\":{}}}", b"{\"\":[{}],\"\":null}", b"{\"nodes\":[[],{},null,\"\"]}"]
    {
        let loaded = load(&folder.write("odd.json", octets));
        assert!(loaded.plan.is_none() && !loaded.report.errors.is_empty());
        loaded.report.errors.iter().for_each(|error| drop(short(error)));
    }
    let loaded = load(Path::new("/dev/zero"));
    assert_eq!(loaded.report.errors[0].message, "cannot read the configuration: file too large");
}
