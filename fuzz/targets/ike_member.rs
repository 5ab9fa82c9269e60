//! A hostile member: it knows its key, comes up as it should, and then says anything under the protection of its session; it also
//! answers our requests with anything.
//!
//! Always: no panic, bounded SAs and Child SAs, one answer to one request. In the end, when it is silent: nothing of it is left.

use std::collections::BTreeMap;
use std::time::Duration;

use wattle::config::plan::{PostQuantum, Rekey, Suites};
use wattle::crypto::aead::Cipher;
use wattle::crypto::kex::{Initiator, Method};
use wattle::crypto::prf::Prf;
use wattle::crypto::rng::Rng;
use wattle::crypto::sign::PrivateKey;
use wattle::ike::Endpoint;
use wattle::ike::endpoint::{Event, Limits, Role, SaId, Settings};
use wattle::ike::keymat::{IkeKeys, IntAuth, Seed, Suite};
use wattle::ike::seal::Plain;
use wattle::ike::signature::SignedOctets;
use wattle::path::{Path, PeerId, SocketId};
use wattle::time::Time;
use wattle::wire::ike::{
    Body, Delete, Exchange, Header, Id, Ke, Message, Notify, NotifyType, Payload, PayloadType, Proposal, Protocol,
    TrafficSelector, Transform, TransformType, Unknown, encode_clear, id_type, transform,
};

use super::input::Input;

const OPERATIONS: usize = 80;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut member = Member::begin(input.u8());
    for _ in 0..OPERATIONS {
        if input.is_empty() {
            break;
        }
        member.operate(&mut input);
        member.check();
    }
    member.fall_silent();
}

struct Member {
    now: Time,
    endpoint: Endpoint,
    keys: IkeKeys,
    spis: (u64, u64),
    /// Of our next request, and of the endpoint's last one.
    next: u32,
    asked: Option<(Exchange, u32)>,
    exchange: Option<Initiator>,
    rng: Rng,
    /// SPIs on which the endpoint receives.
    spis_in: Vec<u32>,
    /// Child SAs, by session.
    children: BTreeMap<SaId, usize>,
}

impl Member {
    /// A session as it should be, but with the Child SA refused for some.
    fn begin(settings: u8) -> Member {
        let key = |number| PrivateKey::from_seed(&[number; 32]);
        let mut suites = Suites { post_quantum: PostQuantum::Preferred, ..Suites::default_for(true) };
        suites.ike.truncate(1);
        (suites.ike[0].exchange, suites.ike[0].additional) = (Method::X25519, Vec::new());
        let life = (settings & 1 != 0).then(|| Duration::from_secs(30));
        let own = Settings {
            name: "a".to_owned(),
            private_key: key(1),
            suites,
            rekey: Rekey { child: life, ike: life, ..Rekey::NEVER },
        };
        let now = Time::ZERO;
        let mut endpoint = Endpoint::new(own, Limits::default(), Rng::from_number(1), now);
        endpoint.add_peer(PeerId(0), "b", key(2).public());

        let mut rng = Rng::from_number(2);
        let exchange = Initiator::generate(Method::X25519, &mut rng);
        let nonce = vec![5; 32];
        let transforms = vec![
            Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 256),
            Transform::new(TransformType::PRF, transform::HMAC_SHA2_256),
            Transform::new(TransformType::KE, transform::X25519),
        ];
        let header = Header {
            spi_initiator: 77,
            spi_responder: 0,
            exchange: Exchange::IKE_SA_INIT,
            from_initiator: true,
            response: false,
            message_id: 0,
        };
        let request = [
            Payload::Sa(vec![Proposal { number: 1, protocol: Protocol::IKE, spi: Vec::new(), transforms }]),
            Payload::Ke(Ke { method: transform::X25519, data: exchange.public().to_vec() }),
            Payload::Nonce(nonce.clone()),
            Payload::Notify(Notify::new(NotifyType::SIGNATURE_HASH_ALGORITHMS, [0, 5])),
            Payload::Notify(Notify::new(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, [])),
        ];
        let request = encode_clear(&header, &request).expect("short");
        endpoint.receive(now, path(), &request);
        let response = endpoint.poll_transmit().expect("an answer").datagram[4..].to_vec();
        let message = Message::parse(&response).expect("a message");
        let Body::Clear(chain) = message.body else { panic!("protected") };
        let payloads = chain.payloads().expect("payloads");
        let find = |kind| payloads.iter().find(|payload| payload.kind() == kind);
        let (Some(Payload::Ke(ke)), Some(Payload::Nonce(theirs))) = (find(PayloadType::KE), find(PayloadType::NONCE))
        else {
            panic!("refused: {payloads:?}")
        };
        let spis = (77, message.header.spi_responder);
        let seed = Seed {
            nonce_initiator: nonce,
            nonce_responder: theirs.clone(),
            spi_initiator: spis.0,
            spi_responder: spis.1,
        };
        let suite = Suite { cipher: Cipher::Aes256Gcm, prf: Prf::HmacSha2_256 };
        let shared = exchange.finish(&ke.data).expect("a public value");
        let keys = IkeKeys::initial(suite, Role::Initiator, &shared, &seed);
        let id = Id::new(id_type::FQDN, *b"b");
        let signed = SignedOctets {
            signer: Role::Initiator,
            keys: &keys,
            real_message: &request,
            peer_nonce: &seed.nonce_responder,
            id: &id,
            int_auth: &IntAuth::default(),
            auth_message_id: 1,
        };
        let mut request = vec![Payload::Auth(signed.sign(&key(2))), Payload::IdI(id)];
        if settings & 2 == 0 {
            request.extend(child(0x0101_0101, false));
        }
        let mut member = Member {
            now,
            endpoint,
            keys,
            spis,
            next: 1,
            asked: None,
            exchange: None,
            rng,
            spis_in: Vec::new(),
            children: BTreeMap::new(),
        };
        member.say(Exchange::IKE_AUTH, None, &request);
        assert!(member.endpoint.sas().any(|sa| sa.established), "no session");
        member
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let [operation, argument] = input.array();
        match operation & 15 {
            // A request.
            0..=5 => {
                let exchange = [
                    Exchange::CREATE_CHILD_SA,
                    Exchange::CREATE_CHILD_SA,
                    Exchange::INFORMATIONAL,
                    Exchange::INFORMATIONAL,
                    Exchange::IKE_FOLLOWUP_KE,
                    Exchange::IKE_AUTH,
                    Exchange::IKE_INTERMEDIATE,
                    Exchange(argument),
                ][usize::from(argument & 7)];
                let payloads = self.payloads(input, argument >> 3);
                self.say(exchange, None, &payloads);
            }
            // The answer to ours.
            6..=8 => {
                if let Some((exchange, id)) = self.asked.take() {
                    let payloads = self.payloads(input, argument >> 3);
                    self.say(exchange, Some(id), &payloads);
                }
            }
            9 => {
                let payloads = self.payloads(input, argument >> 3);
                let exchange = Exchange(34 + (argument & 15));
                self.say(exchange, Some(input.u32() & 7), &payloads);
            }
            10 => self.pass(Duration::from_millis(u64::from(argument) * 100)),
            11 => self.on_sessions(|endpoint, now, sa| endpoint.rekey_children(now, sa)),
            12 => self.on_sessions(|endpoint, now, sa| endpoint.rekey_ike(now, sa)),
            13 => self.on_sessions(|endpoint, now, sa| endpoint.probe(now, sa)),
            // The message ID jumps.
            14 => self.next = self.next.wrapping_add(u32::from(argument & 3)),
            _ => {
                self.endpoint.connect(self.now, PeerId(0), path());
                self.drain();
            }
        }
    }

    fn on_sessions(&mut self, act: impl Fn(&mut Endpoint, Time, SaId)) {
        let sessions: Vec<_> = self.endpoint.sas().map(|sa| sa.sa).collect();
        for sa in sessions {
            act(&mut self.endpoint, self.now, sa);
        }
        self.drain();
    }

    fn payloads(&mut self, input: &mut Input<'_>, count: u8) -> Vec<Payload> {
        let mut payloads = Vec::new();
        for _ in 0..count & 7 {
            self.payload(input, &mut payloads);
        }
        payloads
    }

    /// Something that often makes sense.
    fn payload(&mut self, input: &mut Input<'_>, payloads: &mut Vec<Payload>) {
        let [kind, argument] = input.array();
        let spi = self.spis_in.get(usize::from(argument & 15) % self.spis_in.len().max(1)).copied().unwrap_or(9);
        let theirs = 0x0101_0101 + u32::from(argument & 3);
        match kind & 15 {
            // A whole request for a Child SA, with and without a key exchange.
            0 | 1 => {
                payloads.extend(child(theirs, kind & 0x10 != 0));
                payloads.push(Payload::Nonce(vec![argument; 32]));
                if kind & 0x10 != 0 {
                    payloads.push(self.ke());
                }
            }
            // A whole request for another IKE SA.
            2 => {
                let transforms = vec![
                    Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 256),
                    Transform::new(TransformType::PRF, transform::HMAC_SHA2_256),
                    Transform::new(TransformType::KE, transform::X25519),
                ];
                let spi = (1000 + u64::from(argument)).to_be_bytes().to_vec();
                payloads.push(Payload::Sa(vec![Proposal { number: 1, protocol: Protocol::IKE, spi, transforms }]));
                payloads.push(Payload::Nonce(vec![argument; 32]));
                payloads.push(self.ke());
            }
            3 => {
                let data = input.string().to_vec();
                let spi = [theirs, spi, input.u32()][usize::from(kind >> 4) % 3].to_be_bytes().to_vec();
                payloads.push(Payload::Notify(Notify {
                    protocol: Protocol::ESP,
                    spi,
                    kind: NotifyType::REKEY_SA,
                    data,
                }));
            }
            4 => {
                let spis = vec![[theirs, spi, input.u32()][usize::from(kind >> 4) % 3]; usize::from(argument >> 6)];
                payloads.push(Payload::Delete(Delete::Child { protocol: Protocol::ESP, spis }));
            }
            5 => payloads.push(Payload::Delete(Delete::Ike)),
            6 | 7 => {
                const KINDS: [NotifyType; 12] = [
                    NotifyType::COOKIE2,
                    NotifyType::UPDATE_SA_ADDRESSES,
                    NotifyType::MOBIKE_SUPPORTED,
                    NotifyType::NO_ADDITIONAL_SAS,
                    NotifyType::TEMPORARY_FAILURE,
                    NotifyType::CHILD_SA_NOT_FOUND,
                    NotifyType::INVALID_KE_PAYLOAD,
                    NotifyType::NO_PROPOSAL_CHOSEN,
                    NotifyType::ADDITIONAL_KEY_EXCHANGE,
                    NotifyType::INVALID_SYNTAX,
                    NotifyType::STATE_NOT_FOUND,
                    NotifyType::ADDITIONAL_IP4_ADDRESS,
                ];
                payloads.push(Payload::Notify(Notify::new(input.one_of(&KINDS), input.string())));
            }
            8 => payloads.push(Payload::Notify(Notify::new(NotifyType(input.u16()), input.string()))),
            9 => payloads.push(Payload::Nonce(input.string().to_vec())),
            10 => {
                payloads.push(Payload::Ke(Ke { method: 31 + u16::from(argument & 7), data: input.string().to_vec() }))
            }
            11 => payloads.push(self.ke()),
            12 => payloads.extend(child(theirs, false).into_iter().take(1)),
            // Any octets under any type.
            _ => payloads.push(Payload::Unknown(Unknown {
                kind: PayloadType(33 + (argument & 31)),
                critical: argument & 0x80 != 0,
                body: input.string().to_vec(),
            })),
        }
    }

    fn ke(&mut self) -> Payload {
        let exchange = self.exchange.get_or_insert_with(|| Initiator::generate(Method::X25519, &mut self.rng));
        Payload::Ke(Ke { method: transform::X25519, data: exchange.public().to_vec() })
    }

    /// A request, or the response under this ID.
    fn say(&mut self, exchange: Exchange, response: Option<u32>, payloads: &[Payload]) {
        let header = Header {
            spi_initiator: self.spis.0,
            spi_responder: self.spis.1,
            exchange,
            from_initiator: true,
            response: response.is_some(),
            message_id: response.unwrap_or(self.next),
        };
        let Ok(plain) = Plain::new(header, payloads) else { return };
        let Ok(octets) = self.keys.sealer.seal(&plain) else { return };
        let answers = self.listen(&octets);
        assert!(answers <= 1, "{answers} answers to one message");
        if answers > 0 && response.is_none() {
            self.next = self.next.wrapping_add(1);
        }
        // The very same once more gets the very same answer, or none.
        assert!(self.listen(&octets) <= 1);
    }

    /// Gives the endpoint a message; how many responses came.
    fn listen(&mut self, octets: &[u8]) -> usize {
        self.endpoint.receive(self.now, path(), octets);
        self.drain()
    }

    fn drain(&mut self) -> usize {
        let (mut answers, mut datagrams) = (0, 0);
        while let Some(transmit) = self.endpoint.poll_transmit() {
            datagrams += 1;
            assert!(datagrams < 300, "a flood");
            let octets = transmit.datagram[4..].to_vec();
            let message = Message::parse(&octets).expect("well-formed");
            let header = message.header;
            let Body::Sk(sealed) = message.body else { continue };
            if (header.spi_initiator, header.spi_responder) != self.spis {
                continue;
            }
            let plain = self.keys.opener.open(&sealed).expect("sealed for us");
            if header.response {
                answers += 1;
            } else {
                self.asked = Some((header.exchange, header.message_id));
            }
            for payload in plain.payloads().expect("well-formed") {
                let Payload::Sa(proposals) = payload else { continue };
                let spis = proposals.iter().filter_map(|proposal| proposal.spi.as_slice().try_into().ok());
                self.spis_in.extend(spis.map(u32::from_be_bytes));
            }
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::ChildUp { sa, .. } => *self.children.entry(sa).or_default() += 1,
                Event::ChildDown { sa, spi_in: Some(_), .. } => *self.children.entry(sa).or_default() -= 1,
                Event::Closed { sa, .. } => drop(self.children.remove(&sa)),
                Event::RekeyRefused { reason, .. } | Event::Refused { reason, .. } => {
                    assert!(reason.to_string().chars().count() <= 160, "{reason}");
                }
                Event::Established { .. }
                | Event::ChildUse { .. }
                | Event::ChildDown { spi_in: None, .. }
                | Event::Rekeyed { .. }
                | Event::Heard { .. }
                | Event::Moved { .. } => {}
            }
        }
        answers
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some((due, why)) = self.endpoint.poll_timeout().filter(|due| due.0 <= end) {
            wakes += 1;
            assert!(wakes < 1000 + 20 * time.as_secs(), "woken too often for {why}");
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.drain();
            let next = self.endpoint.poll_timeout();
            assert!(next.is_none_or(|next| next.0 > self.now), "handled and still due: {next:?}");
        }
        self.now = end;
    }

    fn check(&self) {
        // What the peer may have, and the successor that we make ourselves.
        let most = Limits::default().children + 1;
        assert!(self.children.values().all(|count| *count <= most), "Child SAs: {:?}", self.children);
        let most = OPERATIONS + 10;
        assert!(self.endpoint.sas().count() <= most, "{} SAs", self.endpoint.sas().count());
    }

    fn fall_silent(&mut self) {
        self.pass(Duration::from_secs(150));
        self.on_sessions(|endpoint, now, sa| endpoint.probe(now, sa));
        self.pass(Duration::from_secs(60));
        let left: Vec<_> = self.endpoint.sas().collect();
        assert!(left.is_empty(), "left over: {left:?}");
        assert_eq!(self.endpoint.poll_timeout(), None);
    }
}

/// SA and traffic selectors of a request.
fn child(spi: u32, exchange: bool) -> Vec<Payload> {
    let mut transforms = vec![Transform::with_key_length(TransformType::ENCR, transform::AES_GCM_16, 256)];
    if exchange {
        transforms.push(Transform::new(TransformType::KE, transform::X25519));
    }
    transforms.push(Transform::new(TransformType::ESN, transform::ESN_NO));
    let everything = vec![TrafficSelector::ANY_V4, TrafficSelector::ANY_V6];
    let spi = spi.to_be_bytes().to_vec();
    let proposal = Proposal { number: 1, protocol: Protocol::ESP, spi, transforms };
    vec![Payload::Sa(vec![proposal]), Payload::TsI(everything.clone()), Payload::TsR(everything)]
}

fn path() -> Path {
    Path { socket: SocketId(0), local: None, remote: ([192, 0, 2, 2], 4500).into() }
}
