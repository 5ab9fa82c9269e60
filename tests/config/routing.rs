//! Babel: terms for all and for each.

use super::folder::{Folder, node};
use std::time::Duration;
use wattle::config::plan::Filter;
use wattle::prefix::Prefix;

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
