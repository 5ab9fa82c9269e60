//! Octets to IKE messages: no panic, and what was understood survives being written and read again.

use wattle::wire::ike::{Body, Chain, Message, PayloadType, encode_chain};

pub(crate) fn run(data: &[u8]) {
    if let Ok(Message { body: Body::Clear(chain), .. }) = Message::parse(data) {
        survives(chain);
    }
    // As if it had been inside an SK payload.
    if let Some((first, octets)) = data.split_first() {
        survives(Chain { first: PayloadType(*first), octets });
    }
}

fn survives(chain: Chain<'_>) {
    let Ok(payloads) = chain.payloads() else { return };
    let (first, octets) = encode_chain(&payloads).expect("no longer than what it was read from");
    assert!(octets.len() <= chain.octets.len(), "longer than what it was read from");
    assert_eq!(Chain { first, octets: &octets }.payloads(), Ok(payloads));
}
