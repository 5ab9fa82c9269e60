//! The whole-chain vector: computed by an independent implementation, see also `tests/captures.rs` for another one's real traffic.

use super::*;
use crate::crypto::sign::PrivateKey;
use crate::ike::fragment;
use crate::ike::signature::{BadAuth, SignedOctets};
use crate::wire::ike::hex::hex;
use crate::wire::ike::{Auth, Body, Exchange, Header, Id, Ke, Message, Payload, auth_method, id_type, transform};

const SUITE: Suite = Suite { cipher: Cipher::Aes256Gcm, prf: Prf::HmacSha2_256 };

fn seed() -> Seed {
    Seed {
        nonce_initiator: (0x00..0x20).collect(),
        nonce_responder: (0x20..0x40).collect(),
        spi_initiator: 0x0102_0304_0506_0708,
        spi_responder: 0x1112_1314_1516_1718,
    }
}

/// The secret of RFC 7748 §6.1.
fn g_ir() -> Secret {
    Secret::new(hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"))
}

fn sk_1() -> Secret {
    Secret::new(vec![0x5a; 32])
}

fn keys(role: Role) -> (IkeKeys, IkeKeys) {
    let first = IkeKeys::initial(SUITE, role, &g_ir(), &seed());
    let second = first.update(&sk_1(), &seed());
    (first, second)
}

fn header(exchange: Exchange, message_id: u32, from: Role) -> Header {
    let initiator = from == Role::Initiator;
    Header {
        spi_initiator: seed().spi_initiator,
        spi_responder: seed().spi_responder,
        exchange,
        from_initiator: initiator,
        response: !initiator,
        message_id,
    }
}

/// A toy IKE_INTERMEDIATE with four octets of key exchange data.
fn intermediate(from: Role, data: [u8; 4]) -> Plain {
    let ke = Ke { method: transform::ML_KEM_768, data: data.to_vec() };
    Plain::new(header(Exchange::IKE_INTERMEDIATE, 1, from), &[Payload::Ke(ke)]).unwrap()
}

const DATA_I: [u8; 4] = [0xaa, 0xbb, 0xcc, 0xdd];
const DATA_R: [u8; 4] = [0x11, 0x22, 0x33, 0x44];

fn int_auth(keys: &IkeKeys) -> IntAuth {
    let mut int_auth = IntAuth::default();
    int_auth.absorb(keys, Role::Initiator, &intermediate(Role::Initiator, DATA_I));
    int_auth.absorb(keys, Role::Responder, &intermediate(Role::Responder, DATA_R));
    int_auth
}

#[test]
fn first_generation() {
    let nonces = [seed().nonce_initiator, seed().nonce_responder].concat();
    let skeyseed = Prf::HmacSha2_256.mac(&nonces, &[&g_ir()]);
    assert_eq!(*skeyseed, hex("f9248cca691bd74ddd9479bc6fadb2aeddd0e609fe92fc2d839ca617d1302cb6"));
    let sk = Sk::derive(SUITE, &skeyseed, &seed());
    assert_eq!(*sk.d, hex("873cd5bd21d5d40481daa8b14d9ba50ba66f0fe9604764695d3714d94667b926"));
    assert_eq!(*sk.e_initiator, hex("9302c66b947c55e0cf4e394c8fb0604c85818e0af336ec66259c2c3ead11d042 b0b6adb1"));
    assert_eq!(*sk.e_responder, hex("cde3859f71fd5713b11c80630bc6653e6849aac8e0ce3a609f017841a7f0d605 c02db96f"));
    assert_eq!(*sk.p_initiator, hex("721d76bb7099af838ea90083fb88845179dfff839f5de7a793fca39600e596e0"));
    assert_eq!(*sk.p_responder, hex("e6cfe467ae5711adb853b46d93717b9a66e4cae8f4c28cb062dc95becee57c5e"));
}

#[test]
fn second_generation() {
    let (first, second) = keys(Role::Initiator);
    let skeyseed = Prf::HmacSha2_256.mac(&first.d, &[&sk_1(), &seed().nonce_initiator, &seed().nonce_responder]);
    assert_eq!(*skeyseed, hex("d3c2f08b63c8f24dcc9212138cfe93ef3bd34a5196c1fec43a7f8052ec5985be"));
    let e_initiator = Sk::derive(SUITE, &skeyseed, &seed()).e_initiator;
    assert_eq!(*e_initiator, hex("0b5e823f8651b89ddaad0ab566c306e800f56513e2d7e36e0f7c6690cd94d3ee ed960745"));
    assert_eq!(*second.d, hex("7400991ba915b27fa051dcec61db4efcf9b4b2c3d21b1dbb35604750c645fd40"));
    assert_eq!(*second.p_initiator, hex("4c648752cd58527d2552918b421941767d65dfc0c39ecb90145a8d1b5d0a3e37"));
    assert_eq!(*second.p_responder, hex("60476e6ed26a14e7aaf9c9a425fcd4a067f21d552149aa2a42dcd5eab6271350"));
}

#[test]
fn child_keys() {
    let (_, keys) = keys(Role::Responder);
    let child = keys.child(Cipher::Aes256Gcm, &seed().nonce_initiator, &seed().nonce_responder, &[]);
    assert_eq!(*child.initiator, hex("7c432916603769d71ea9c088046d651b10d5c951558b831c47ecf69767574b56 b36cf935"));
    assert_eq!(*child.responder, hex("da51d328a238e007088ede019b3b5fda7f9ff0cb35115a4e7939db1be28d91db 7eda2788"));

    let shared = [0x77, 0x88].map(|octet| Secret::new(vec![octet; 32]));
    let hybrid = keys.child(Cipher::Aes256Gcm, &[0xc1; 32], &[0xc2; 32], &shared);
    assert_eq!(*hybrid.initiator, hex("58c4c5abc15afdff3afb5ca5e16f93680be1df359569edc0d9ccce75498dcf0b 78753790"));
    assert_eq!(*hybrid.responder, hex("40a8024ea847efef60ddb89c2ada4fd56739b5f12138a3e5ed63d9feedf52603 35331707"));
    let rekeyed = keys.rekey_seed(&[0xc1; 32], &[0xc2; 32], &shared);
    assert_eq!(*rekeyed, hex("e85ebf7a2e20d90fcb215c4acb54a8ef2252b7c4e5083362a70a34e68411b34f"));

    let short = keys.child(Cipher::Aes128Gcm, &seed().nonce_initiator, &seed().nonce_responder, &[]);
    assert_eq!([&*short.initiator, &*short.responder].concat(), [&child.initiator, &child.responder[..4]].concat());
}

#[test]
fn int_auth_covers_the_messages_without_iv_and_padding() {
    let head_i = hex("010203040506070811121314151617182e202b08000000010000002c 22000010");
    let head_r = hex("010203040506070811121314151617182e202b20000000010000002c 22000010");
    let (i, r) = (intermediate(Role::Initiator, DATA_I), intermediate(Role::Responder, DATA_R));
    assert_eq!((&i.associated()[..], i.octets()), (&head_i[..], &hex("0000000c00240000aabbccdd")[..]));
    assert_eq!((&r.associated()[..], r.octets()), (&head_r[..], &hex("0000000c0024000011223344")[..]));

    let (first, _) = keys(Role::Initiator);
    assert_eq!(
        int_auth(&first).trailer(2),
        hex("6cbe2a6105ff35eaf4ac74d0be71dbf57043dd4b6d3b1292877d8bb9e541fec0
             e037a797c02c0408e468df73b3405b839fcbb3699206fbb5b367099d27bbe50f 00000002")
    );
    assert!(IntAuth::default().trailer(1).is_empty());
}

/// RFC 8032 §7.1, test 1
fn alice() -> PrivateKey {
    let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    PrivateKey::from_seed(seed[..].try_into().unwrap())
}

#[test]
fn auth() {
    let (first, second) = keys(Role::Initiator);
    let id = Id::new(id_type::FQDN, *b"alice");
    assert_eq!(
        *second.mac_p(Role::Initiator, &[&id.body()]),
        hex("5d5454420001c055eb670fdd5035e62715fc98aaccc1d6a0ab32d87f5b38eed5")
    );
    let nonce = seed().nonce_responder;
    let signed = SignedOctets {
        signer: Role::Initiator,
        keys: &second,
        real_message: b"REALMSG1",
        peer_nonce: &nonce,
        id: &id,
        int_auth: &int_auth(&first),
        auth_message_id: 2,
    };
    let auth = signed.sign(&alice());
    let signature = "ac9e8b8dae211b9187e35423cc0d1d8bdb399f2e16dc3dc0002fc9c37112fbc9
                     c613736aa0cec2cc99e64524fd09274857ba5f29fd44dc5aefbfe8332457a20d";
    assert_eq!(auth.data, hex(&format!("07 300506032b6570 {signature}")));
    assert_eq!(signed.verify(&alice().public(), &auth), Ok(()));

    let other_key = PrivateKey::from_seed(&[1; 32]).public();
    assert_eq!(signed.verify(&other_key, &auth), Err(BadAuth::Signature));
    let later = SignedOctets { auth_message_id: 3, ..signed };
    assert_eq!(later.verify(&alice().public(), &auth), Err(BadAuth::Signature));
    let by_secret = Auth { method: auth_method::SHARED_KEY, ..auth.clone() };
    assert_eq!(later.verify(&alice().public(), &by_secret), Err(BadAuth::Method(2)));
    for octet in 0..8 {
        let mut other = auth.clone();
        other.data[octet] ^= 1;
        assert_eq!(later.verify(&alice().public(), &other), Err(BadAuth::Algorithm));
    }
    let short = Auth { method: auth_method::DIGITAL_SIGNATURE, data: auth.data[..70].to_vec() };
    assert_eq!(later.verify(&alice().public(), &short), Err(BadAuth::Signature));
    let empty = Auth { method: auth_method::DIGITAL_SIGNATURE, data: Vec::new() };
    assert_eq!(later.verify(&alice().public(), &empty), Err(BadAuth::Algorithm));
}

#[test]
fn messages_as_they_travel() {
    let (mut first, mut second) = keys(Role::Initiator);
    let probe = Plain::new(header(Exchange::INFORMATIONAL, 3, Role::Initiator), &[]).unwrap();
    let octets = hex("01020304050607081112131415161718 2e202508 00000003 00000039 0000001d 0000000000000001 f0
                      e544b08bb4d8689dbafc6d82ed6827ab");
    assert_eq!(second.sealer.seal(&probe).unwrap(), octets);

    let message = intermediate(Role::Initiator, DATA_I);
    let whole = hex("01020304050607081112131415161718 2e202b08 00000001 00000045 22000029 0000000000000001
                     2e73544fbda77714f4783dc3f1 b04de93e1acfd25eb5351a2759b16f73");
    assert_eq!(first.sealer.seal(&message).unwrap(), whole);
    let fragments = [
        hex("01020304050607081112131415161718 35202b08 00000001 00000044 22000028 0001 0002 0000000000000002
             7cf0f07168ea09c9 f2065a3598a0cc0285e356f113b94ae9"),
        hex("01020304050607081112131415161718 35202b08 00000001 00000042 00000026 0002 0002 0000000000000003
             f8b521c8f1ee 1da31f61e32cd8808750b89f5288f629"),
    ];
    assert_eq!(fragment::split(&mut first.sealer, &message, 0x44).unwrap(), fragments);

    let (responder, _) = keys(Role::Responder);
    let Body::Sk(sk) = Message::parse(&whole).unwrap().body else { panic!("not SK") };
    let opened = responder.opener.open(&sk).unwrap();
    assert_eq!((opened.header, opened.octets()), (message.header, message.octets()));
    let mut reassembly = fragment::Reassembly::default();
    let [one, two] = fragments.each_ref().map(|fragment| match Message::parse(fragment).unwrap().body {
        Body::Skf(skf) => skf,
        Body::Clear(_) | Body::Sk(_) => panic!("not SKF"),
    });
    assert!(reassembly.add(&responder.opener, &two).unwrap().is_none());
    let joined = reassembly.add(&responder.opener, &one).unwrap().unwrap();
    assert_eq!((joined.associated(), joined.octets()), (message.associated(), message.octets()));
}
