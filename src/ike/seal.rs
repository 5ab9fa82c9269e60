//! SK and SKF protection by AEAD (RFC 7296 §3.14, RFC 5282, RFC 7634 §3, RFC 7383 §2.5).
//!
//! A [`Sealer`] counts its IVs and cannot be copied: no IV repeats under its key. A retransmission therefore resends the stored
//! octets; sealing the same message again gives other ones.

use zeroize::Zeroizing;

use crate::crypto::aead::{Aead, Cipher, Forged, ICV_LEN, IV_LEN};
use crate::wire::ike::{
    Chain, Header, IKE_HEADER_LEN, PAYLOAD_HEADER_LEN, ParseError, Payload, PayloadType, SealedBody, TooLong,
    encode_chain,
};

/// IKE header and SK header.
pub(super) const SK_HEAD_LEN: usize = IKE_HEADER_LEN + PAYLOAD_HEADER_LEN;
/// What sealing adds to the inner payloads and the headers in front of them: IV, pad length, ICV.
pub(super) const SEAL_LEN: usize = IV_LEN + 1 + ICV_LEN;

/// A protected message in the clear: to be sealed, or just opened.
pub struct Plain {
    pub header: Header,
    /// The first inner payload; [`PayloadType::NONE`] if there is none.
    pub first: PayloadType,
    associated: [u8; SK_HEAD_LEN],
    octets: Zeroizing<Vec<u8>>,
}

impl Plain {
    pub fn new(header: Header, payloads: &[Payload]) -> Result<Plain, TooLong> {
        let (first, octets) = encode_chain(payloads)?;
        let ike = header.encode(PayloadType::SK, SK_HEAD_LEN + octets.len())?;
        let associated = head(ike, [first.0, 0], PAYLOAD_HEADER_LEN + octets.len())?;
        Ok(Plain { header, first, associated, octets: Zeroizing::new(octets) })
    }

    /// From what was received: `outer` is the IKE header and the SK or SKF header of the message or of its first fragment.
    ///
    /// "A" keeps what came in fields that [`Header`] ignores; the peer has put them under its `IntAuth` as well.
    pub(super) fn received(header: Header, outer: [u8; SK_HEAD_LEN], octets: Zeroizing<Vec<u8>>) -> Option<Plain> {
        let (mut ike, generic) = outer.split_first_chunk::<IKE_HEADER_LEN>().map(|(ike, generic)| (*ike, generic))?;
        let &[first, reserved, ..] = generic else { return None };
        ike[NEXT_PAYLOAD] = PayloadType::SK.0;
        let length = u32::try_from(SK_HEAD_LEN + octets.len()).ok()?;
        ike.last_chunk_mut().map(|field| *field = length.to_be_bytes())?;
        let associated = head(ike, [first, reserved], PAYLOAD_HEADER_LEN + octets.len()).ok()?;
        Some(Plain { header, first: PayloadType(first), associated, octets })
    }

    /// The inner payloads.
    pub fn payloads(&self) -> Result<Vec<Payload>, ParseError> {
        Chain { first: self.first, octets: &self.octets }.payloads()
    }

    /// The inner payloads as octets, without padding: "P" of RFC 9242 §3.3.2.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// "A" of RFC 9242 §3.3.2: IKE header and SK header, with the lengths they would have without IV, padding and ICV.
    pub fn associated(&self) -> [u8; 32] {
        self.associated
    }
}

/// Seals what one side sends under one generation of keys.
pub struct Sealer {
    aead: Aead,
    next_iv: u64,
}

/// Opens what the other side sends.
pub struct Opener {
    aead: Aead,
}

impl Sealer {
    /// `keymat` is SK_e of this direction, `cipher.keymat_len()` octets; IVs count up from `first_iv`.
    pub fn new(cipher: Cipher, keymat: &[u8], first_iv: [u8; IV_LEN]) -> Option<Sealer> {
        Some(Sealer { aead: Aead::new(cipher, keymat)?, next_iv: u64::from_be_bytes(first_iv) })
    }

    /// The whole message in one SK payload, whatever its length: see [`super::fragment::split`].
    pub fn seal(&mut self, message: &Plain) -> Result<Vec<u8>, TooLong> {
        let sealed_len = message.octets.len() + SEAL_LEN;
        let ike = message.header.encode(PayloadType::SK, SK_HEAD_LEN + sealed_len)?;
        let head = head(ike, [message.first.0, 0], PAYLOAD_HEADER_LEN + sealed_len)?;
        Ok(self.encrypt(&head, &message.octets))
    }

    /// One fragment: `chunk` of the message's inner octets (RFC 7383 §2.5).
    pub(super) fn seal_fragment(
        &mut self,
        message: &Plain,
        (number, total): (u16, u16),
        chunk: &[u8],
    ) -> Result<Vec<u8>, TooLong> {
        let sealed_len = FRAGMENT_NUMBERS_LEN + chunk.len() + SEAL_LEN;
        let ike = message.header.encode(PayloadType::SKF, SK_HEAD_LEN + sealed_len)?;
        let first = if number == 1 { message.first } else { PayloadType::NONE };
        let head = head(ike, [first.0, 0], PAYLOAD_HEADER_LEN + sealed_len)?;
        Ok(self.encrypt(&[&head[..], &number.to_be_bytes(), &total.to_be_bytes()].concat(), chunk))
    }

    /// `associated | IV | encrypted (plaintext | pad length 0) | ICV`
    fn encrypt(&mut self, associated: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let iv = self.next_iv.to_be_bytes();
        // Wraps only at the end of 2⁶⁴ messages, and the start is anywhere.
        self.next_iv = self.next_iv.wrapping_add(1);
        let mut message = [associated, &iv, plaintext, &[NO_PADDING]].concat();
        let (_, data) = message.split_at_mut(associated.len() + IV_LEN);
        let icv = self.aead.seal(iv, associated, data);
        message.extend(icv);
        message
    }
}

impl Opener {
    pub fn new(cipher: Cipher, keymat: &[u8]) -> Option<Opener> {
        Some(Opener { aead: Aead::new(cipher, keymat)? })
    }

    /// Verifies and decrypts an SK payload. Bad padding under a good ICV is an error as well.
    pub fn open(&self, sealed: &SealedBody<'_>) -> Result<Plain, Forged> {
        let octets = self.decrypt(sealed)?;
        let outer = sealed.associated.first_chunk().ok_or(Forged)?;
        Plain::received(sealed.header, *outer, octets).ok_or(Forged)
    }

    /// The plaintext of an SK or SKF payload, without padding.
    pub(super) fn decrypt(&self, sealed: &SealedBody<'_>) -> Result<Zeroizing<Vec<u8>>, Forged> {
        let mut plaintext = Zeroizing::new(sealed.ciphertext.to_vec());
        self.aead.open(sealed.iv, sealed.associated, &mut plaintext, &sealed.icv)?;
        // Any length and content of padding is accepted (RFC 7296 §3.14).
        let pad_len = usize::from(plaintext.pop().ok_or(Forged)?);
        let len = plaintext.len().checked_sub(pad_len).ok_or(Forged)?;
        plaintext.truncate(len);
        Ok(plaintext)
    }
}

fn head(ike: [u8; IKE_HEADER_LEN], generic: [u8; 2], length: usize) -> Result<[u8; SK_HEAD_LEN], TooLong> {
    let length = u16::try_from(length).map_err(|_| TooLong)?;
    let mut octets = [0; SK_HEAD_LEN];
    let fields = ike.into_iter().chain(generic).chain(length.to_be_bytes());
    octets.iter_mut().zip(fields).for_each(|(octet, field)| *octet = field);
    Ok(octets)
}

/// Fragment number and total of an SKF payload.
pub(super) const FRAGMENT_NUMBERS_LEN: usize = 4;
const NO_PADDING: u8 = 0;
/// Where the IKE header has it.
const NEXT_PAYLOAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::rng::Rng;
    use crate::wire::ike::{Body, Exchange, Message, Notify, NotifyType};

    const HEADER: Header = Header {
        spi_initiator: 1,
        spi_responder: 2,
        exchange: Exchange::INFORMATIONAL,
        from_initiator: true,
        response: false,
        message_id: 7,
    };
    const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

    fn pair(cipher: Cipher) -> (Sealer, Opener) {
        let keymat = Rng::from_number(3).array::<36>();
        let keymat = &keymat[..cipher.keymat_len()];
        (Sealer::new(cipher, keymat, [0xff; IV_LEN]).unwrap(), Opener::new(cipher, keymat).unwrap())
    }

    fn open(opener: &Opener, datagram: &[u8]) -> Result<Plain, Forged> {
        match Message::parse(datagram).unwrap().body {
            Body::Sk(sealed) => opener.open(&sealed),
            Body::Clear(_) | Body::Skf(_) => panic!("not SK"),
        }
    }

    #[test]
    fn messages_round_trip() {
        for cipher in CIPHERS {
            let (mut sealer, opener) = pair(cipher);
            for payloads in [vec![], vec![Payload::Notify(Notify::new(NotifyType::INITIAL_CONTACT, []))]] {
                let plain = Plain::new(HEADER, &payloads).unwrap();
                let opened = open(&opener, &sealer.seal(&plain).unwrap()).unwrap();
                assert_eq!((opened.header, opened.payloads()), (HEADER, Ok(payloads)));
                assert_eq!((opened.associated(), opened.octets()), (plain.associated(), plain.octets()));
            }
        }
    }

    #[test]
    fn no_iv_comes_twice() {
        let (mut sealer, _) = pair(Cipher::Aes256Gcm);
        let plain = Plain::new(HEADER, &[]).unwrap();
        let [first, second] = [(); 2].map(|()| sealer.seal(&plain).unwrap());
        assert_eq!((&first[32..40], &second[32..40]), (&[0xff; 8][..], &[0; 8][..]));
        assert_ne!(first[40..], second[40..]);
    }

    /// RFC 7296 §3.14: the sender chooses length and content of the padding.
    #[test]
    fn any_padding_is_taken_and_none_that_lies() {
        let (mut sealer, opener) = pair(Cipher::ChaCha20Poly1305);
        let plain = Plain::new(HEADER, &[Payload::Vendor(vec![5; 8])]).unwrap();
        let padded = |sealer: &mut Sealer, padding: &[u8]| {
            // `encrypt` adds a pad length of zero; an opener that sees it last takes all before it.
            let inner = [plain.octets(), padding].concat();
            let ike = HEADER.encode(PayloadType::SK, SK_HEAD_LEN + inner.len() + SEAL_LEN - 1).unwrap();
            let associated =
                head(ike, [PayloadType::VENDOR.0, 0], PAYLOAD_HEADER_LEN + inner.len() + SEAL_LEN - 1).unwrap();
            let iv = sealer.next_iv.to_be_bytes();
            sealer.next_iv = sealer.next_iv.wrapping_add(1);
            let mut inner = inner;
            let icv = sealer.aead.seal(iv, &associated, &mut inner);
            [&associated[..], &iv, &inner, &icv].concat()
        };
        for padding in [&[0][..], &[9, 8, 7, 3], &[0; 1]] {
            let opened = open(&opener, &padded(&mut sealer, padding)).unwrap();
            assert_eq!((opened.octets(), opened.associated()), (plain.octets(), plain.associated()));
        }
        let all = u8::try_from(plain.octets().len()).unwrap();
        assert!(open(&opener, &padded(&mut sealer, &[all])).unwrap().octets().is_empty());
        for lie in [all + 1, 0xff] {
            assert!(open(&opener, &padded(&mut sealer, &[lie])).is_err());
        }
    }

    #[test]
    fn another_key_and_another_header_do_not_open() {
        for cipher in CIPHERS {
            let (mut sealer, opener) = pair(cipher);
            let other = Opener::new(cipher, &vec![1; cipher.keymat_len()]).unwrap();
            let datagram = sealer.seal(&Plain::new(HEADER, &[]).unwrap()).unwrap();
            assert!(open(&other, &datagram).is_err());
            assert!(open(&opener, &datagram).is_ok());
            for place in (0..24).chain([28, 29]) {
                let mut changed = datagram.clone();
                changed[place] ^= 1;
                if let Ok(Message { body: Body::Sk(sealed), .. }) = Message::parse(&changed) {
                    assert!(opener.open(&sealed).is_err(), "{place}");
                }
            }
        }
    }

    #[test]
    fn too_long_for_a_payload() {
        let (mut sealer, _) = pair(Cipher::Aes256Gcm);
        let plain = |len| Plain::new(HEADER, &[Payload::Vendor(vec![0; len])]);
        // An SK payload holds 65535 octets, its header and all that sealing adds included.
        assert!(sealer.seal(&plain(65535 - 4 - SEAL_LEN - 4).unwrap()).is_ok());
        assert_eq!(sealer.seal(&plain(65535 - 4 - SEAL_LEN - 3).unwrap()), Err(TooLong));
        assert!(plain(65532).is_err());
    }
}
