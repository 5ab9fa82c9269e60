//! Proposals and identities.

use super::folder::{Folder, node};

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
