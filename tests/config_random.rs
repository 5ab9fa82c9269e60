//! Whatever JSON a configuration holds, it is either a plan or a list of errors, each fit to be shown.

use proptest::prelude::*;
use wattle::config::check::{Input, check};
use wattle::config::file::{FIELDS, decode, decode_registry};
use wattle::config::json::parse;
use wattle::config::report::{Place, Report};
use wattle::crypto::keyfile;
use wattle::crypto::sign::PrivateKey;

/// Values that are right somewhere, and some that are right nowhere.
fn leaf() -> impl Strategy<Value = String> {
    let strings = vec![
        "riga",
        "a",
        "A",
        "",
        "10.66.0.3/24",
        "10.66.0.0/24",
        "10.66.0.3",
        "0.0.0.0/0",
        "::/0",
        "fd66:0:0:3::/64",
        "fd66::3/128",
        "203.0.113.7:4500",
        "10.66.0.1",
        "[2001:db8::7]",
        "vpn.example:500",
        "aes256gcm16",
        "aes256gcm16-prfsha256-x25519-ke1_mlkem768",
        "preferred",
        "debug",
        "wattle0",
        "a/b",
        "\\u0000\\r\\n",
        "\u{e9}\u{202e}",
        ":",
        "/",
        "-",
    ];
    let keys: Vec<String> = (1..4).map(|n| keyfile::public_base64(&PrivateKey::from_seed(&[n; 32]).public())).collect();
    prop_oneof![
        4 => prop::sample::select(strings).prop_map(|text| format!("\"{text}\"")),
        2 => prop::sample::select(keys).prop_map(|key| format!("\"{key}\"")),
        2 => prop::sample::select(vec!["0", "1", "1400", "4500", "65535", "65536", "-1", "1e400", "18446744073709551616"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let names: Vec<&str> =
        FIELDS.iter().flat_map(|(_, fields)| fields.iter().copied()).chain(["steer", "colour"]).collect();
    leaf().prop_recursive(4, 60, 8, move |inner| {
        let member = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|values| format!("[{}]", values.join(","))),
            prop::collection::vec(member, 0..12).prop_map(|members| {
                let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn is_a_plan_or_a_list_of_errors(
        members in prop::collection::btree_map(prop::sample::select(&FIELDS[0].1[2..]), value(), 0..5),
        registry in prop::option::of(value()),
    ) {
        let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let required = "\"name\":\"riga\",\"private_key\":\"riga.key\"".to_owned();
        let members: Vec<String> = std::iter::once(required).chain(members).collect();
        let (root, errors) = parse(&format!("{{{}}}", members.join(",\n")));
        prop_assert_eq!(errors, &[]);
        let mut report = Report::default();
        let registry = registry.map(|text| parse(&text).0.map_or(Vec::new(), |root| decode_registry(&root, "registry.json", &mut report)));
        let input = Input {
            place: Place::file("riga.json"),
            file: decode(&root.expect("valid JSON"), "riga.json", &mut report),
            key: Some(PrivateKey::from_seed(&[1; 32])),
            registry,
            folder: "/etc/wattle".into(),
            hardware_aes: true,
        };
        let plan = check(input, &mut report);
        prop_assert_eq!(plan.is_some(), report.errors.is_empty(), "{:#?}", report);
        for problem in report.errors.iter().chain(&report.warnings) {
            prop_assert!(problem.message.chars().count() <= 160);
            prop_assert!(!problem.to_string().contains(|c: char| c.is_control()), "{:?}", problem);
        }
        if let Some(plan) = plan {
            prop_assert!(!plan.listen.is_empty() && !plan.suites.ike.is_empty() && !plan.suites.esp.is_empty());
            prop_assert!(plan.peers.iter().all(|peer| peer.name != plan.name));
        }
    }
}
