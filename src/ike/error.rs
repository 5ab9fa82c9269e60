//! Faults: which notify answers which, and what a peer's notify means in words. Both are decided here only.

use super::event::Reason;
use crate::wire::ike::{Notify, NotifyType, ParseError, PayloadType, Protocol};

/// The longest sentence for a person, in characters.
const SENTENCE: usize = 160;

/// What is wrong with a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Authenticated, and still not readable (RFC 7296 §2.21.3): ends the IKE SA on both sides.
    Syntax(&'static str),
    /// RFC 7296 §2.5.
    Critical(PayloadType),
    NoProposal,
    /// The KE payload is of another method than the one chosen, which is named here (RFC 7296 §1.3).
    OtherMethod(u16),
    Authentication,
    Selectors,
    /// No more Child SAs on this IKE SA, or no rekeying of it (RFC 7296 §1.3).
    NoAdditional,
    /// Later, perhaps (RFC 7296 §2.25).
    Busy,
    /// The Child SA to be rekeyed is none, by the SPI on which the peer says it receives (RFC 7296 §2.25).
    NoChild(u32),
    /// An IKE_FOLLOWUP_KE for an exchange that is not under way (RFC 9370 §2.2.4).
    NoState,
}

impl Fault {
    pub(super) fn notify(self) -> Notify {
        match self {
            Fault::Syntax(_) => Notify::new(NotifyType::INVALID_SYNTAX, []),
            Fault::Critical(kind) => Notify::new(NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD, [kind.0]),
            Fault::NoProposal => Notify::new(NotifyType::NO_PROPOSAL_CHOSEN, []),
            Fault::OtherMethod(method) => Notify::new(NotifyType::INVALID_KE_PAYLOAD, method.to_be_bytes()),
            Fault::Authentication => Notify::new(NotifyType::AUTHENTICATION_FAILED, []),
            Fault::Selectors => Notify::new(NotifyType::TS_UNACCEPTABLE, []),
            Fault::NoAdditional => Notify::new(NotifyType::NO_ADDITIONAL_SAS, []),
            Fault::Busy => Notify::new(NotifyType::TEMPORARY_FAILURE, []),
            Fault::NoChild(spi) => Notify {
                protocol: Protocol::ESP,
                spi: spi.to_be_bytes().to_vec(),
                ..Notify::new(NotifyType::CHILD_SA_NOT_FOUND, [])
            },
            Fault::NoState => Notify::new(NotifyType::STATE_NOT_FOUND, []),
        }
    }
}

impl From<ParseError> for Fault {
    fn from(error: ParseError) -> Fault {
        match error {
            ParseError::UnsupportedCritical(kind) => Fault::Critical(kind),
            ParseError::InvalidSyntax(what) => Fault::Syntax(what),
        }
    }
}

/// A sentence that keeps to its length, whatever names went into it.
pub(super) fn sentence(text: String) -> String {
    match text.char_indices().nth(SENTENCE) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// Why the handshake with `peer` ends, by the error the peer sent.
pub(super) fn refusal(peer: &str, our_fingerprint: &str, error: NotifyType) -> Reason {
    match error {
        NotifyType::AUTHENTICATION_FAILED => Reason::AuthFailed(sentence(format!(
            "{peer} refused us: compare our fingerprint {our_fingerprint} with its config"
        ))),
        NotifyType::NO_PROPOSAL_CHOSEN => {
            Reason::Incompatible("peer refused our IKE proposal: compare the suites of both configs".to_owned())
        }
        NotifyType::INVALID_MAJOR_VERSION => Reason::Incompatible("peer does not speak IKEv2".to_owned()),
        other => Reason::PeerMisbehaved(format!("peer refused the session with notify {other}")),
    }
}

/// Why the peer gave no Child SA, by the error it sent.
pub(super) fn child_refusal(error: NotifyType) -> Reason {
    match error {
        NotifyType::TS_UNACCEPTABLE | NotifyType::SINGLE_PAIR_REQUIRED | NotifyType::INVALID_SELECTORS => {
            Reason::Incompatible(
                "peer refused our traffic selectors: it must allow 0.0.0.0/0 and ::/0 on both sides".to_owned(),
            )
        }
        NotifyType::NO_PROPOSAL_CHOSEN | NotifyType::INVALID_KE_PAYLOAD => {
            Reason::Incompatible("peer refused our ESP proposal: compare the ESP suites of both configs".to_owned())
        }
        NotifyType::TEMPORARY_FAILURE => Reason::Incompatible("peer refused the data tunnel for now".to_owned()),
        NotifyType::NO_ADDITIONAL_SAS => Reason::Incompatible("peer refused a further data tunnel".to_owned()),
        other => Reason::Incompatible(format!("peer refused the data tunnel with notify {other}")),
    }
}

/// Why the peer would not rekey, by the error it sent.
pub(super) fn rekey_refusal(error: NotifyType) -> Reason {
    match error {
        NotifyType::NO_PROPOSAL_CHOSEN | NotifyType::INVALID_KE_PAYLOAD => Reason::Incompatible(
            "rekey refused: no common key exchange (PFS): compare the suites of both configs".to_owned(),
        ),
        NotifyType::TEMPORARY_FAILURE => Reason::Incompatible("rekey refused for now".to_owned()),
        other => Reason::Incompatible(format!("rekey refused with notify {other}")),
    }
}

/// The peer authenticated and left the Child SA out.
pub(super) fn no_child() -> Reason {
    Reason::Incompatible("peer refused without a word: it sent no data tunnel".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_at_a_character() {
        let long = "ä".repeat(400);
        assert_eq!(sentence(long).chars().count(), SENTENCE);
        assert_eq!(sentence("short".to_owned()), "short");
    }

    #[test]
    fn notifies_carry_what_the_rfc_says() {
        assert_eq!(Fault::Critical(PayloadType(200)).notify().data, [200]);
        assert_eq!(Fault::OtherMethod(31).notify().data, [0, 31]);
        assert_eq!(Fault::from(ParseError::UnsupportedCritical(PayloadType(9))), Fault::Critical(PayloadType(9)));
    }

    #[test]
    fn refusals_fit_the_status_line() {
        let reason = refusal(&"n".repeat(300), &"f".repeat(50), NotifyType::AUTHENTICATION_FAILED);
        assert!(reason.to_string().chars().count() <= SENTENCE);
    }
}
