//! The configuration as a person writes it: what is right loads, and everything that is wrong is reported in one run.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, fail by panicking")]

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wattle::config::file::FIELDS;
use wattle::config::load::{Loaded, load};
use wattle::config::plan::{Filter, Host, Kernel, Plan, PostQuantum, Rekey, Suites};
use wattle::config::report::Problem;
use wattle::crypto::aead::{Cipher, hardware_aes};
use wattle::crypto::keyfile;
use wattle::crypto::sign::PrivateKey;
use wattle::offload::{Offload, Switch};
use wattle::prefix::Prefix;

/// A folder with `riga.key` in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("riga.key", keyfile::private_pem(&key(1)).as_bytes());
        folder.mode("riga.key", 0o600);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The configuration with these fields after `name` and `private_key`.
    fn load(&self, fields: &str) -> Loaded {
        let comma = if fields.is_empty() { "" } else { "," };
        let text = format!("{{\n\"name\": \"riga\", \"private_key\": \"riga.key\"{comma}\n{fields}\n}}\n");
        load(&self.write("riga.json", text))
    }

    fn plan(&self, fields: &str) -> Plan {
        let loaded = self.load(fields);
        loaded.plan.unwrap_or_else(|| panic!("{:#?}", loaded.report))
    }

    /// The only error, as `path: message`.
    fn error(&self, fields: &str) -> String {
        let loaded = self.load(fields);
        assert!(loaded.plan.is_none());
        let [error] = loaded.report.errors.as_slice() else { panic!("{:#?}", loaded.report.errors) };
        short(error)
    }

    fn warning(&self, fields: &str) -> String {
        let loaded = self.load(fields);
        assert!(loaded.plan.is_some(), "{:#?}", loaded.report);
        let warnings: Vec<String> = loaded.report.warnings.iter().map(short).collect();
        let others = |w: &&String| !w.starts_with(": no ");
        let ours: Vec<&String> = warnings.iter().filter(others).collect();
        let [warning] = ours.as_slice() else { panic!("{warnings:#?}") };
        (*warning).clone()
    }
}

fn short(problem: &Problem) -> String {
    assert!(problem.message.chars().count() <= 160, "{}", problem.message);
    assert!(!problem.to_string().contains(|c: char| c.is_control()), "{problem:?}");
    format!("{}: {}", problem.path, problem.message)
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_seed(&[number; 32])
}

fn public(number: u8) -> String {
    keyfile::public_base64(&key(number).public())
}

fn node(name: &str, number: u8, fields: &str) -> String {
    format!("{{ \"name\": \"{name}\", \"public_key\": \"{}\"{fields} }}", public(number))
}

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
fn key_files_as_editors_leave_them() {
    let folder = Folder::new();
    let pem = keyfile::private_pem(&key(1));
    for text in [pem.replace('\n', "\r\n"), pem.replace('\n', "  \n"), pem.trim_end().to_owned()] {
        folder.write("riga.key", &text);
        assert_eq!(folder.plan("").private_key.public(), key(1).public());
    }
}

#[test]
fn port_500_alone_carries_nothing() {
    let folder = Folder::new();
    let loaded = folder.load("\"listen\": [500]");
    let seen: Vec<String> = loaded.report.errors.iter().map(short).collect();
    assert!(seen.len() == 1 && seen[0].starts_with("listen: port 500 is only for the first messages"), "{seen:?}");
    assert_eq!(folder.load("\"listen\": [500, 4500]").plan.expect("a plan").listen, [500, 4500]);
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
fn key_file_problems() {
    let folder = Folder::new();
    folder.mode("riga.key", 0o644);
    assert_eq!(folder.warning(""), "private_key: others can read the key file \"riga.key\": chmod 600 it");
    folder.write("riga.key", keyfile::public_pem(&key(1).public()));
    folder.mode("riga.key", 0o600);
    assert_eq!(folder.error(""), "private_key: \"riga.key\" holds a public key; the private one is needed here");
    folder.write("riga.key", "nonsense");
    assert!(folder.error("").contains("is not an Ed25519 private key in PKCS#8 (make one with: wattle keygen FILE)"));
    fs::remove_file(folder.path("riga.key")).unwrap();
    assert!(folder.error("").ends_with("No such file or directory (make one with: wattle keygen FILE)"));
    fs::create_dir(folder.path("riga.key")).unwrap();
    assert!(folder.error("").ends_with("is a directory"));
    // A key in the wrong place is not printed.
    let secret = keyfile::private_pem(&key(1)).replace('\n', "\\n");
    let path = folder.write("x.json", format!("{{ \"name\": \"riga\", \"private_key\": \"{secret}\" }}"));
    let report = load(&path).report;
    assert!(report.errors[0].message.starts_with("holds a key"), "{report:#?}");
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

/// Case B5: what this version cannot do is refused before it is offered.
#[test]
fn proposals_that_are_none() {
    let folder = Folder::new();
    let error =
        |text: &str| folder.error(&format!("\"proposals\": [\"{text}\"]")).split_once(": ").unwrap().1.to_owned();
    let exchanges = "valid: x25519, mlkem512, mlkem768, mlkem1024";
    for (proposal, why) in [
        ("aes256gcm16-prfsha256-ecp256", format!("unknown key exchange \"ecp256\"; {exchanges}")),
        ("aes256gcm16-prfsha256-curve25519", format!("unknown key exchange \"curve25519\": write x25519; {exchanges}")),
        (
            "aes256gcm16-prfsha265-x25519",
            "unknown prf \"prfsha265\"; did you mean prfsha256? valid: prfsha256, prfsha384, prfsha512".into(),
        ),
        (
            "aes256gcm16-sha384-x25519",
            "unknown prf \"sha384\": write prfsha384; valid: prfsha256, prfsha384, prfsha512".into(),
        ),
        (
            "aes256gcm16-aes128gcm16-prfsha256-x25519",
            "unknown prf \"aes128gcm16\": it is a cipher, and a proposal has one of each; valid: prfsha256, prfsha384, prfsha512"
                .into(),
        ),
        (
            "aes256-prfsha256-x25519",
            "unknown cipher \"aes256\": write aes256gcm16; valid: aes256gcm16, chacha20poly1305, aes128gcm16".into(),
        ),
        ("aes256gcm16", "prf is missing: write e.g. aes256gcm16-prfsha256-x25519-ke1_mlkem768".into()),
        ("aes256gcm16-prfsha256-x25519-mlkem768", "\"mlkem768\": write ke1_mlkem768".into()),
        (
            "aes256gcm16-prfsha256-x25519-ke2_mlkem768",
            "\"ke2_mlkem768\": expected ke1_ and one of x25519, mlkem512, mlkem768, mlkem1024".into(),
        ),
        ("aes256gcm16-prfsha256-x25519-ke1_mlkem768-ke2_mlkem768", "mlkem768 is in it twice".into()),
        ("aes256gcm16-prfsha256-mlkem768-ke1_mlkem768", "mlkem768 is in it twice".into()),
        (
            "aes256gcm16-prfsha256-x25519-ke1_mlkem512-ke2_mlkem768-ke3_mlkem1024",
            "3 key exchanges are the most".into(),
        ),
    ] {
        assert_eq!(error(proposal), why);
    }
    assert!(folder.error("\"proposals\": []").contains("at least one"));
    assert!(folder.error("\"esp\": []").contains("at least one"));
    let many = vec!["\"aes256gcm16-prfsha256-x25519\""; 17].join(",");
    assert_eq!(folder.error(&format!("\"proposals\": [{many}]")), "proposals: 17 proposals; 16 are the most");
    let large = folder.warning("\"proposals\": [\"aes256gcm16-prfsha256-mlkem768\"]");
    assert!(large.contains("some paths drop: x25519-ke1_mlkem768 does not"), "{large}");
}

#[test]
fn ml_kem_is_preferred_unless_it_is_required() {
    let folder = Folder::new();
    let names = |fields: &str| folder.plan(fields).suites.ike.iter().map(ToString::to_string).collect::<Vec<_>>();
    let default = names("");
    assert_eq!(default.len(), 4);
    assert!(default[1].ends_with("-ke1_mlkem768") && default[2].ends_with("-x25519"), "{default:?}");
    assert_eq!(names("\"pq\": \"preferred\""), default);
    assert_eq!(names("\"pq\": \"required\""), default[..2]);
    let classic = "\"proposals\": [\"aes256gcm16-prfsha256-x25519\"]";
    assert_eq!(
        folder.error(&format!("\"pq\": \"required\", {classic}")),
        "proposals[0]: no ML-KEM in it, which \"pq\": \"required\" wants: add -ke1_mlkem768"
    );
    // Of a peer, under what the node says.
    let peer = |own: &str, node_: &str| format!("{node_} \"nodes\": [{}]", node("a", 2, own));
    let of_peer = |own: &str, node: &str| {
        folder.plan(&peer(own, node)).peers[0].suites.ike.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(of_peer(", \"pq\": \"required\"", ""), default[..2]);
    assert_eq!(of_peer(", \"pq\": \"preferred\"", "\"pq\": \"required\","), default);
    assert_eq!(of_peer(&format!(", {classic}"), ""), ["aes256gcm16-prfsha256-x25519"]);
    assert!(
        folder
            .error(&peer(&format!(", {classic}"), "\"pq\": \"required\","))
            .starts_with("nodes[0].proposals[0]: no ML-KEM")
    );
    assert_eq!(
        folder.error(&peer(", \"pq\": \"required\"", &format!("{classic},"))),
        "nodes[0].pq: none of the node's \"proposals\" has ML-KEM: give this peer its own"
    );
}

#[test]
fn identities_that_are_none_or_taken() {
    let folder = Folder::new();
    let error = |first: &str, second: &str| {
        folder.error(&format!("\"nodes\": [{}, {}]", node("a", 2, first), node("b", 3, second)))
    };
    for (own, why) in [
        ("\"remote_id\": \"\"", "nodes[1].remote_id: \"\": the identity is empty"),
        (
            "\"local_id\": \"a:b\"",
            "nodes[1].local_id: \"a:b\": not an identity: write fqdn:, email:, keyid:, ipv4:, ipv6: or dn: in front of it",
        ),
        ("\"remote_id\": \"A\"", "nodes[1].remote_id: \"A\" is the identity of nodes[0].name in line 3 already"),
        (
            "\"remote_id\": \"keyid:x\", \"local_id\": \"keyid:x\"",
            "nodes[1].remote_id: \"keyid:x\" is our own identity",
        ),
        ("\"remote_id\": \"riga\"", "nodes[1].remote_id: \"riga\" is our own identity"),
    ] {
        assert_eq!(error("", &format!(", {own}")), why);
    }
    assert_eq!(
        error(", \"remote_id\": \"b\"", ""),
        "nodes[1].name: \"b\" is the identity of nodes[0].remote_id in line 3 already"
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

/// What `babel` says for all, a node says for itself.
#[test]
fn babel_has_terms_for_all_and_for_each() {
    let folder = Folder::new();
    let all = r#""babel": { "rxcost": 32, "rtt_cost": 300, "rtt_max_ms": 200, "accept": ["10.0.0.0/8", { "to": "fd00::/8", "ge": 48, "le": 64 }] }"#;
    let own = r#", "babel": { "hello_ms": 500, "rtt_max_ms": 300, "announce": [{ "to": "10.1.0.0/16", "ge": 16, "deny": true },
        { "to": "0.0.0.0/0", "le": 32 }, { "to": "::/0", "from": "2001:db8::/32" }] }"#;
    let plan = folder.plan(&format!("{all}, \"nodes\": [{}, {}]", node("a", 2, own), node("b", 3, "")));
    let [a, b] = plan.peers.as_slice() else { panic!("{:?}", plan.peers) };
    let ms = Duration::from_millis;
    let counts = |tuning: wattle::config::plan::Tuning| {
        (tuning.hello, tuning.rxcost, tuning.rtt_cost, tuning.rtt_min, tuning.rtt_max)
    };
    assert_eq!(counts(a.babel.tuning), (Some(ms(500)), 32, 300, ms(1), ms(300)));
    assert_eq!(counts(b.babel.tuning), (None, 32, 300, ms(1), ms(200)));
    assert_eq!((&a.babel.accept, &b.babel.announce), (&b.babel.accept, &Filter::default()));
    let permits = |filter: &Filter, to: &str| filter.permits(&Prefix::to(to.parse().unwrap()));
    for (to, passes) in [("10.0.0.0/8", true), ("10.1.0.0/16", false), ("fd66::/48", true), ("fd66::/65", false)] {
        assert_eq!(permits(&a.babel.accept, to), passes, "{to}");
    }
    for (to, passes) in [("10.1.2.0/24", false), ("10.2.0.0/16", true), ("0.0.0.0/0", true), ("::/0", false)] {
        assert_eq!(permits(&a.babel.announce, to), passes, "{to}");
    }
    let plan = folder.plan(r#""announce": ["10.7.0.0/16", { "kernel": "main", "prefixes": ["10.8.0.0/16"] }, { "kernel": 100, "prefixes": [] }]"#);
    assert_eq!(plan.announce.len(), 1);
    assert_eq!(plan.from_kernel.iter().map(|from| from.table).collect::<Vec<_>>(), [254, 100]);
    assert!(
        permits(&plan.from_kernel[0].filter, "10.8.0.0/16") && !permits(&plan.from_kernel[0].filter, "10.8.1.0/24")
    );
    assert!(!permits(&plan.from_kernel[1].filter, "10.8.0.0/16"));
    for (fields, message) in [
        (r#""babel": { "rtt_max_ms": 1 }"#, "babel.rtt_max_ms: rtt_max_ms (1) must be more than rtt_min_ms (1)"),
        (
            r#""babel": { "accept": ["10.0.0.1/8"] }"#,
            "babel.accept[0]: \"10.0.0.1/8\" has bits set beyond its length: write 10.0.0.0/8",
        ),
        (
            r#""babel": { "accept": [{ "to": "10.0.0.0/8", "ge": 4 }] }"#,
            "babel.accept[0].ge: lengths 4 to 32 of 10.0.0.0/8: it takes 8 ≤ ge ≤ le ≤ 32",
        ),
        (
            r#""babel": { "announce": [{ "to": "10.0.0.0/8", "from": "::/0" }] }"#,
            "babel.announce[0].to: \"to\" and \"from\" must both be IPv4 or both be IPv6",
        ),
        (
            r#""babel": { "interfaces": ["br-lan"] }"#,
            "babel.interfaces: Babel on other interfaces is not in this version of wattle: remove this field",
        ),
        (
            r#""babel": { "key": "x" }"#,
            "babel.key: Babel's MAC authentication is not in this version of wattle: remove this field",
        ),
        (
            r#""announce": [{ "kernel": 5270, "prefixes": [] }]"#,
            "announce[0].kernel: table 5270 is wattle's own: its routes come from the mesh",
        ),
        (
            r#""announce": [{ "kernel": "lan", "prefixes": [] }]"#,
            "announce[0].kernel: expected \"main\" or the number of a routing table, found a string",
        ),
        (
            r#""tun": null, "announce": [{ "kernel": "main", "prefixes": ["10.0.0.0/8"] }]"#,
            "announce[0].kernel: a node without a TUN device only relays: nothing can be reached behind it",
        ),
    ] {
        assert_eq!(folder.error(fields), message);
    }
}
