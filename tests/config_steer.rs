//! Policies that cannot work, and what is said about them.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, fail by panicking")]

use wattle::config::load::load;
use wattle::crypto::keyfile;
use wattle::crypto::sign::PrivateKey;

const PUBLIC: [&str; 2] = [
    "MCowBQYDK2VwAyEAypOsFwUYcHHWez4PH/g7+/IjTdPH94IwsXUUnXHwRB8=",
    "MCowBQYDK2VwAyEA7UkouLW45P1hvAxdCiOVFaDt6j2ZLMu7QEQ2wkJ5Aes=",
];

/// The only error in a configuration with these fields, as `path: message`.
fn error_of(fields: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("riga.key"), keyfile::private_pem(&PrivateKey::from_seed(&[1; 32])).as_bytes())
        .unwrap();
    let file = folder.path().join("riga.json");
    std::fs::write(&file, format!("{{\n\"name\": \"riga\", \"private_key\": \"riga.key\",\n{fields}\n}}\n")).unwrap();
    let loaded = load(&file);
    assert!(loaded.plan.is_none());
    let [error] = loaded.report.errors.as_slice() else { panic!("{:#?}", loaded.report.errors) };
    assert!(error.message.chars().count() <= 160, "{}", error.message);
    format!("{}: {}", error.path, error.message)
}

/// Case I5 among them: a path that leaves no room for IPv6.
#[test]
fn policies_that_cannot_be() {
    let nodes = format!(
        "\"nodes\": [{{ \"name\": \"tokyo\", \"public_key\": \"{}\", \"locator\": \"fd66:0:0:1::/64\" }},
          {{ \"name\": \"laptop\", \"public_key\": \"{}\" }}], \"locator\": \"fd66:0:0:3::/64\"",
        PUBLIC[0], PUBLIC[1]
    );
    let error = |policy: &str| error_of(&format!("{nodes}, \"steer\": [{{ \"name\": \"p\", {policy} }}]"));
    for (policy, expected) in [
        (
            "\"exit\": \"tokyo\"",
            "steer[0]: neither \"to\" nor \"from\": say which packets, for instance \"to\": \"0.0.0.0/0\"",
        ),
        (
            "\"to\": \"10.0.0.1/8\", \"exit\": \"tokyo\"",
            "steer[0].to: \"10.0.0.1/8\" has bits set beyond its length: write 10.0.0.0/8",
        ),
        (
            "\"to\": \"::/0\", \"from\": \"10.0.0.0/8\", \"exit\": \"tokyo\"",
            "steer[0]: \"to\" and \"from\" must both be IPv4 or both be IPv6",
        ),
        (
            "\"to\": \"::/0\", \"exit\": \"tokio\"",
            "steer[0].exit: \"tokio\" is neither a node that we know nor a SID; did you mean \"tokyo\"?",
        ),
        (
            "\"to\": \"::/0\", \"via\": [\"laptop\"], \"exit\": \"tokyo\"",
            "steer[0].via[0]: \"laptop\" has no locator: give it one where it is listed, and in its own file",
        ),
        (
            "\"to\": \"::/0\", \"via\": [\"tokyo\"]",
            "steer[0].via[0]: \"exit\" is missing: the node where the path ends, and the packet goes on by itself",
        ),
        ("\"to\": \"::/0\", \"exit\": \"riga\"", "steer[0].exit: this is ourselves: a path leads somewhere else"),
        ("\"to\": \"::/0\", \"exit\": \"10.0.0.1\"", "steer[0].exit: 10.0.0.1: SIDs are IPv6 addresses"),
        ("\"to\": \"::/0\", \"exit\": \"ff02::1\"", "steer[0].exit: ff02::1 cannot be a SID: it is not routed"),
        (
            "\"to\": \"::/0\", \"exit\": \"fd66:0:0:1::99\"",
            "steer[0].exit: fd66:0:0:1::99 is no SID of \"tokyo\": write its name, or one of docs/steering.md",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"port\": \"9-8\"",
            "steer[0].port: expected a port such as 443, or ports such as \"443-500\", found \"9-8\"",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"protocol\": \"icmp\", \"port\": 5",
            "steer[0].port: protocol 1 has no ports",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"protocol\": \"upd\"",
            "steer[0].protocol: expected tcp, udp, icmp, icmpv6, sctp or a number up to 255, found \"upd\"; did you mean \"udp\"?",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"dscp\": 64",
            "steer[0].dscp: expected a whole number from 0 to 63, found 64",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"srh\": \"ful\"",
            "steer[0].srh: expected \"reduced\" or \"full\", found \"ful\"; did you mean \"full\"?",
        ),
        (
            "\"to\": \"0.0.0.0/0\", \"exit\": \"tokyo\", \"if_unreachable\": \"pass\"",
            "steer[0].if_unreachable: expected \"drop\" or \"route\", found \"pass\"",
        ),
        (
            "\"to\": \"::/0\", \"via\": [\"tokyo\", \"riga\", \"tokyo\", \"riga\", \"tokyo\"], \"exit\": \"tokyo\"",
            "steer[0]: 6 segments leave 1272 octets of tun.mtu 1400, and IPv6 needs 1280: fewer waypoints, or tun.mtu 1408",
        ),
        ("\"to\": \"::/0\", \"exits\": \"tokyo\"", "steer[0].exits: unknown field; did you mean \"exit\"?"),
    ] {
        assert_eq!(error(policy), expected);
    }
    let many = vec!["\"tokyo\""; 16].join(",");
    let sixteen = error(&format!("\"to\": \"0.0.0.0/0\", \"via\": [{many}], \"exit\": \"tokyo\""));
    assert_eq!(sixteen, "steer[0].via[15]: 16 waypoints; 15 are the most");
    let twice = "\"steer\": [{ \"name\": \"a\", \"to\": \"10.0.0.0/8\" }, { \"name\": \"b\", \"to\": \"10.0.0.0/8\" }]";
    let twice = error_of(&format!("{nodes}, {twice}"));
    assert_eq!(twice, "steer[1]: matches the same packets as steer[0] in line 4, which comes first");
    let bare = error_of("\"steer\": [{ \"name\": \"a\", \"to\": \"10.0.0.0/8\" }]");
    assert_eq!(bare, "steer[0]: steering needs a \"locator\" of our own: encapsulated packets come from it");
    let inside = error_of("\"locator\": \"fd66::/64\", \"tun\": { \"addresses\": [\"fd66::1/128\"] }");
    assert_eq!(
        inside,
        "tun.addresses[0]: fd66::1 lies in our locator fd66::/64, whose addresses are SIDs: take another one"
    );
}
