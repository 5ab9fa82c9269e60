//! Known answers: whole exchanges of strongSwan 6.1 with itself, with every secret it derived (`tests/data/extract.py`).
//!
//! Whatever is computed here from the first shared secret on must be what strongSwan computed: key generations, IntAuth, AUTH,
//! child keys; and every protected message must open, decode, encode and seal to the octets that travelled.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;

use serde_json::Value;
use wattle::crypto::aead::{Cipher, IV_LEN};
use wattle::crypto::keyfile::parse_private;
use wattle::crypto::prf::Prf;
use wattle::crypto::secret::Secret;
use wattle::crypto::sign::PrivateKey;
use wattle::ike::endpoint::Role;
use wattle::ike::fragment::{self, Reassembly};
use wattle::ike::keymat::{IkeKeys, IntAuth, Seed, Suite};
use wattle::ike::seal::{Opener, Plain, Sealer};
use wattle::ike::signature::SignedOctets;
use wattle::wire::ike::{
    Auth, Body, Exchange, Header, Id, Message, NotifyType, Payload, PayloadType, SealedBody, TransformType,
    encode_clear, transform,
};

struct Capture {
    name: String,
    /// Derivations in order, as strongSwan logged them.
    keys: Vec<Value>,
    frames: Vec<Frame>,
    /// Of the initiator and the responder.
    private_keys: [PrivateKey; 2],
}

struct Frame {
    octets: Vec<u8>,
    /// The derivation in `keys` that protects it.
    key: Option<usize>,
    plaintext: Vec<u8>,
}

/// A whole protected message, put together if it came in fragments.
struct Protected {
    key: usize,
    plain: Plain,
}

impl Capture {
    fn all() -> Vec<Capture> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ike");
        let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert_eq!(paths.len(), 17);
        paths.iter().map(|path| Capture::load(path)).collect()
    }

    /// Those in which an IKE SA came up.
    fn established() -> impl Iterator<Item = Capture> {
        Capture::all().into_iter().filter(|capture| !capture.keys.is_empty())
    }

    fn load(path: &Path) -> Capture {
        let mut json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let frames = json["frames"].as_array().unwrap().iter().map(|frame| Frame {
            octets: octets(&frame["message"]),
            key: frame["key"].as_u64().map(|key| usize::try_from(key).unwrap()),
            plaintext: octets(&frame["plaintext"]),
        });
        Capture {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            frames: frames.collect(),
            private_keys: ["a", "b"].map(|end| parse_private(text(&json["key_files"][end]).as_bytes()).unwrap()),
            keys: json["keys"].as_array_mut().unwrap().drain(..).collect(),
        }
    }

    /// IKE_SA_INIT request and response that led to the IKE SA: the last ones with its SPI.
    fn init(&self) -> [&Frame; 2] {
        let spi = self.frames.iter().find(|frame| frame.key.is_some()).unwrap().header().spi_initiator;
        [false, true].map(|response| {
            let wanted = |frame: &&Frame| {
                let header = frame.header();
                (header.exchange, header.spi_initiator, header.response) == (Exchange::IKE_SA_INIT, spi, response)
            };
            self.frames.iter().rfind(wanted).unwrap()
        })
    }

    fn seed(&self) -> Seed {
        let [request, response] = self.init();
        Seed {
            nonce_initiator: request.nonce(),
            nonce_responder: response.nonce(),
            spi_initiator: response.header().spi_initiator,
            spi_responder: response.header().spi_responder,
        }
    }

    /// As the responder chose it in IKE_SA_INIT.
    fn suite(&self) -> Suite {
        let payloads = self.init()[1].clear();
        let Some(Payload::Sa(proposals)) = payloads.iter().find(|payload| payload.kind() == PayloadType::SA) else {
            panic!("no SA payload")
        };
        let chosen = |kind| proposals[0].transforms.iter().find(|transform| transform.kind == kind).unwrap();
        let encryption = chosen(TransformType::ENCR);
        let cipher = match (encryption.id, encryption.key_length()) {
            (transform::AES_GCM_16, Some(256)) => Cipher::Aes256Gcm,
            (transform::CHACHA20_POLY1305, None) => Cipher::ChaCha20Poly1305,
            other => panic!("{other:?}"),
        };
        let prf = match chosen(TransformType::PRF).id {
            transform::HMAC_SHA2_256 => Prf::HmacSha2_256,
            transform::HMAC_SHA2_384 => Prf::HmacSha2_384,
            other => panic!("{other}"),
        };
        Suite { cipher, prf }
    }

    /// The generations of keys of the first IKE SA, derived by us: index of the derivation, the keys as both ends see them.
    fn generations(&self) -> Vec<(usize, IkeKeys, IkeKeys)> {
        let seed = self.seed();
        let nonces = [&*seed.nonce_initiator, &*seed.nonce_responder].concat();
        let mut all: Vec<(usize, IkeKeys, IkeKeys)> = Vec::new();
        for (index, key) in self.keys.iter().enumerate().filter(|(_, key)| key["kind"] == "ike") {
            if octets(&key["nonces"]) != nonces {
                break; // An IKE SA that was rekeyed has nonces of its own.
            }
            let shared = Secret::new(octets(&key["ke_secret"]));
            let [initiator, responder] = match all.last() {
                None => {
                    [Role::Initiator, Role::Responder].map(|role| IkeKeys::initial(self.suite(), role, &shared, &seed))
                }
                Some((_, initiator, responder)) => [initiator, responder].map(|keys| keys.update(&shared, &seed)),
            };
            all.push((index, initiator, responder));
        }
        all
    }

    /// Every protected message, opened with the logged keys.
    fn protected(&self) -> Vec<Protected> {
        let mut reassembly = Reassembly::default();
        let mut messages = Vec::new();
        for frame in &self.frames {
            let Some(key) = frame.key else { continue };
            let opener = Opener::new(self.suite().cipher, &self.sk_e(key, frame.header())).unwrap();
            let plain = match frame.message().body {
                Body::Sk(sealed) => Some(opener.open(&sealed).unwrap()),
                Body::Skf(fragment) => reassembly.add(&opener, &fragment).unwrap(),
                Body::Clear(_) => panic!("a clear message with a key"),
            };
            messages.extend(plain.map(|plain| Protected { key, plain }));
        }
        messages
    }

    fn sk_e(&self, key: usize, sent: Header) -> Vec<u8> {
        octets(&self.keys[key][if sent.from_initiator { "SK_EI" } else { "SK_ER" }])
    }

    fn auth_records<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Vec<u8>> + 'a {
        let named = move |key: &&Value| key["kind"] == "auth" && text(&key["name"]).starts_with(name);
        self.keys.iter().filter(named).map(|key| octets(&key["hex"]))
    }
}

impl Frame {
    fn message(&self) -> Message<'_> {
        Message::parse(&self.octets).unwrap()
    }

    fn header(&self) -> Header {
        self.message().header
    }

    fn clear(&self) -> Vec<Payload> {
        match self.message().body {
            Body::Clear(chain) => chain.payloads().unwrap(),
            Body::Sk(_) | Body::Skf(_) => panic!("protected"),
        }
    }

    fn nonce(&self) -> Vec<u8> {
        let mut payloads = self.clear().into_iter();
        let nonce = payloads.find_map(|payload| if let Payload::Nonce(nonce) = payload { Some(nonce) } else { None });
        nonce.unwrap()
    }

    fn sealed(&self) -> Option<SealedBody<'_>> {
        match self.message().body {
            Body::Sk(sealed) => Some(sealed),
            Body::Clear(_) | Body::Skf(_) => None,
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn octets(value: &Value) -> Vec<u8> {
    let digits = text(value).as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn sender(header: Header) -> Role {
    if header.from_initiator { Role::Initiator } else { Role::Responder }
}

#[test]
fn clear_messages_encode_to_what_was_decoded() {
    let mut tried = 0;
    for capture in Capture::all() {
        for frame in capture.frames.iter().filter(|frame| frame.key.is_none()) {
            assert_eq!(encode_clear(&frame.header(), &frame.clear()).unwrap(), frame.octets, "{}", capture.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 40);
}

#[test]
fn protected_messages_encode_to_what_was_decoded() {
    let mut tried = 0;
    for capture in Capture::established() {
        for Protected { plain, .. } in capture.protected() {
            let again = Plain::new(plain.header, &plain.payloads().unwrap()).unwrap();
            assert_eq!(again.octets(), plain.octets(), "{}", capture.name);
            assert_eq!(again.associated(), plain.associated(), "{}", capture.name);
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn sealing_again_gives_the_same_octets() {
    for capture in Capture::established() {
        for frame in &capture.frames {
            let (Some(key), Some(sealed)) = (frame.key, frame.sealed()) else { continue };
            let sk_e = capture.sk_e(key, frame.header());
            let cipher = capture.suite().cipher;
            let plain = Opener::new(cipher, &sk_e).unwrap().open(&sealed).unwrap();
            assert_eq!(plain.octets(), frame.plaintext);
            let mut sealer = Sealer::new(cipher, &sk_e, sealed.iv).unwrap();
            assert_eq!(sealer.seal(&plain).unwrap(), frame.octets, "{}", capture.name);
        }
    }
}

/// strongSwan fills all fragments but the last, as we do; its IVs do not count up, so each fragment is compared on its own.
#[test]
fn splitting_again_gives_the_same_fragments() {
    let mut tried = 0;
    for capture in Capture::established() {
        let mut reassembly = Reassembly::default();
        let mut travelled: Vec<(&Frame, [u8; IV_LEN])> = Vec::new();
        for frame in &capture.frames {
            let (Some(key), Body::Skf(fragment)) = (frame.key, frame.message().body) else { continue };
            let cipher = capture.suite().cipher;
            let sk_e = capture.sk_e(key, frame.header());
            travelled.push((frame, fragment.sealed.iv));
            let Some(plain) = reassembly.add(&Opener::new(cipher, &sk_e).unwrap(), &fragment).unwrap() else {
                continue;
            };
            assert_eq!(
                plain.octets(),
                travelled.iter().flat_map(|(frame, _)| &frame.plaintext).copied().collect::<Vec<_>>()
            );
            let room = travelled[0].0.octets.len();
            for (before, (frame, iv)) in (0..).zip(&travelled) {
                let first_iv = u64::from_be_bytes(*iv).wrapping_sub(before).to_be_bytes();
                let mut sealer = Sealer::new(cipher, &sk_e, first_iv).unwrap();
                let ours = fragment::split(&mut sealer, &plain, room).unwrap();
                assert_eq!(ours.len(), travelled.len());
                assert_eq!(ours[usize::try_from(before).unwrap()], frame.octets, "{}", capture.name);
                tried += 1;
            }
            travelled.clear();
        }
        assert!(travelled.is_empty());
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn room_is_what_strongswan_leaves() {
    let limits = [
        ("gcm-mlkem-rawkey", "192.0.2.1", 1280),
        ("gcm-mlkem-outer6", "2001:db8::1", 1280),
        ("frag576", "192.0.2.1", 576),
    ];
    for (name, remote, limit) in limits {
        let capture = Capture::established().find(|capture| capture.name == name).unwrap();
        let longest = capture.frames.iter().map(|frame| frame.octets.len()).max().unwrap();
        assert_eq!(fragment::room(limit, remote.parse().unwrap()), longest, "{name}");
    }
}

#[test]
fn skeyseed_and_sk_are_those_of_strongswan() {
    let mut updates = 0;
    for capture in Capture::established() {
        let (prf, seed) = (capture.suite().prf, capture.seed());
        let nonces = [&*seed.nonce_initiator, &*seed.nonce_responder].concat();
        let mut sk_d = Vec::new();
        for (index, initiator, responder) in capture.generations() {
            let logged = &capture.keys[index];
            let shared = octets(&logged["ke_secret"]);
            let skeyseed =
                if sk_d.is_empty() { prf.mac(&nonces, &[&shared]) } else { prf.mac(&sk_d, &[&shared, &nonces]) };
            assert_eq!(*skeyseed, octets(&logged["SKEYSEED"]), "{}", capture.name);
            updates += usize::from(!sk_d.is_empty());
            sk_d = octets(&logged["SK_D"]);

            // SK_d, SK_pi and SK_pr show in what they make; SK_ei and SK_er in the next test.
            for keys in [&initiator, &responder] {
                for (role, name) in [(Role::Initiator, "SK_PI"), (Role::Responder, "SK_PR")] {
                    assert_eq!(*keys.mac_p(role, &[b"probe"]), *prf.mac(&octets(&logged[name]), &[b"probe"]));
                }
                let child = keys.child(Cipher::Aes128Gcm, b"Ni", b"Nr", &[]);
                let keymat = prf.expand(&sk_d, &[b"NiNr"], 40);
                assert_eq!([&*child.initiator, &*child.responder].concat(), *keymat);
            }
        }
    }
    assert!(updates > 12, "{updates}");
}

#[test]
fn derived_keys_open_and_seal_what_travelled() {
    let mut opened = 0;
    for capture in Capture::established() {
        for (index, mut initiator, mut responder) in capture.generations() {
            for frame in capture.frames.iter().filter(|frame| frame.key == Some(index)) {
                let Some(sealed) = frame.sealed() else { continue };
                let (sender, receiver) = match sender(sealed.header) {
                    Role::Initiator => (&mut initiator, &responder),
                    Role::Responder => (&mut responder, &initiator),
                };
                let plain = receiver.opener.open(&sealed).unwrap();
                assert_eq!(plain.octets(), frame.plaintext, "{}", capture.name);
                assert!(sender.opener.open(&sealed).is_err(), "the two directions share a key");

                let ours = sender.sealer.seal(&plain).unwrap();
                let Body::Sk(ours) = Message::parse(&ours).unwrap().body else { panic!("not SK") };
                let logged = Opener::new(capture.suite().cipher, &capture.sk_e(index, frame.header())).unwrap();
                assert_eq!(logged.open(&ours).unwrap().octets(), frame.plaintext);
                opened += 1;
            }
        }
    }
    assert!(opened > 100, "{opened}");
}

/// Who signs, with what: everything that AUTH of one side needs.
struct Signer {
    role: Role,
    id: Id,
    auth: Auth,
    message_id: u32,
}

fn signers(protected: &[Protected]) -> Vec<Signer> {
    let of_auth = protected.iter().filter(|message| message.plain.header.exchange == Exchange::IKE_AUTH);
    of_auth
        .map(|Protected { plain, .. }| {
            let role = sender(plain.header);
            let (mut id, mut auth) = (None, None);
            for payload in plain.payloads().unwrap() {
                match (payload, role) {
                    (Payload::IdI(own), Role::Initiator) | (Payload::IdR(own), Role::Responder) => id = Some(own),
                    (Payload::Auth(own), _) => auth = Some(own),
                    _ => {}
                }
            }
            Signer { role, id: id.unwrap(), auth: auth.unwrap(), message_id: plain.header.message_id }
        })
        .collect()
}

#[test]
fn int_auth_and_auth_are_those_of_strongswan() {
    let mut exchanges = 0;
    for capture in Capture::established() {
        let generations = capture.generations();
        let protected = capture.protected();
        let mut int_auth = IntAuth::default();
        let mut inputs = capture.auth_records("IntAuth_A|P");
        for Protected { key, plain } in
            protected.iter().filter(|message| message.plain.header.exchange == Exchange::IKE_INTERMEDIATE)
        {
            let (_, keys, _) = generations.iter().find(|(index, ..)| index == key).unwrap();
            assert_eq!([&plain.associated(), plain.octets()].concat(), inputs.next().unwrap(), "{}", capture.name);
            int_auth.absorb(keys, sender(plain.header), plain);
            exchanges += 1;
        }
        assert!(inputs.next().is_none());

        let (_, keys, _) = generations.last().unwrap();
        let (seed, init) = (capture.seed(), capture.init());
        let octets: Vec<Vec<u8>> = capture.auth_records("octets").collect();
        let signers = signers(&protected);
        assert_eq!((signers.len(), octets.len()), (2, 2));
        for (side, signer) in signers.iter().enumerate() {
            let signed = SignedOctets {
                signer: signer.role,
                keys,
                real_message: &init[side].octets,
                peer_nonce: [&seed.nonce_responder, &seed.nonce_initiator][side],
                id: &signer.id,
                int_auth: &int_auth,
                auth_message_id: signer.message_id,
            };
            assert_eq!(signed.octets(), octets[side], "{}", capture.name);
            let private_key = &capture.private_keys[side];
            assert_eq!(signed.verify(&private_key.public(), &signer.auth), Ok(()), "{}", capture.name);
            // Ed25519 leaves nothing to chance, so ours is the same signature.
            assert_eq!(signed.sign(private_key), signer.auth, "{}", capture.name);
            assert!(signed.verify(&capture.private_keys[1 - side].public(), &signer.auth).is_err());
        }
    }
    assert!(exchanges > 24, "{exchanges}");
}

#[test]
fn child_keys_are_those_of_strongswan() {
    let (mut first, mut with_key_exchange) = (0, 0);
    for capture in Capture::established() {
        let generations = capture.generations();
        for (index, child) in capture.keys.iter().enumerate().filter(|(_, key)| key["kind"] == "child") {
            let under = capture.keys[..index].iter().rposition(|key| key["kind"] == "ike").unwrap();
            let Some((_, _, keys)) = generations.iter().find(|(generation, ..)| *generation == under) else {
                continue; // Under an IKE SA that was rekeyed.
            };
            let shared: Vec<Secret> = ["ke_secret", "add_ke_secret"]
                .map(|name| Secret::new(octets(&child[name])))
                .into_iter()
                .filter(|secret| !secret.is_empty())
                .collect();
            let input = octets(&child["seed"]);
            let before = shared.first().map_or(0, |secret| secret.len());
            let nonces = &input[before..before + 64];
            let logged = [octets(&child["encr_i"]), octets(&child["encr_r"])];
            let cipher = capture.suite().cipher;
            let ours = keys.child(cipher, &nonces[..32], &nonces[32..], &shared);
            assert_eq!([&*ours.initiator, &*ours.responder], [&*logged[0], &*logged[1]], "{}", capture.name);
            first += usize::from(shared.is_empty());
            with_key_exchange += usize::from(!shared.is_empty());
        }
    }
    assert!(first > 12 && with_key_exchange > 12, "{first} {with_key_exchange}");
}

#[test]
fn a_changed_bit_anywhere_is_noticed() {
    let capture = Capture::established().find(|capture| capture.name == "gcm-mlkem-rawkey").unwrap();
    let (index, _, responder) = &capture.generations()[1];
    let frame = capture.frames.iter().find(|frame| frame.key == Some(*index) && frame.sealed().is_some()).unwrap();
    for bit in 0..frame.octets.len() * 8 {
        let mut changed = frame.octets.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let Ok(Message { body: Body::Sk(sealed), .. }) = Message::parse(&changed) else { continue };
        assert!(responder.opener.open(&sealed).is_err(), "bit {bit}");
    }
}

#[test]
fn notifies_have_their_names() {
    let capture = Capture::established().find(|capture| capture.name == "invalid-ke").unwrap();
    let mut payloads = capture.frames.iter().filter(|frame| frame.key.is_none()).flat_map(Frame::clear);
    let invalid_ke = payloads.find_map(|payload| {
        let Payload::Notify(notify) = payload else { return None };
        (notify.kind == NotifyType::INVALID_KE_PAYLOAD).then_some(notify)
    });
    assert_eq!(invalid_ke.unwrap().data, transform::X25519.to_be_bytes());
    assert_eq!(NotifyType::INVALID_KE_PAYLOAD.to_string(), "INVALID_KE_PAYLOAD");
    assert_eq!(NotifyType(12345).to_string(), "12345");
}
