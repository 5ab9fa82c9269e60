//! The numbers of IKEv2 (IANA "Internet Key Exchange Version 2 Parameters"), under the names of the registry.

use std::fmt;

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident($inner:ty) { $($constant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            $(pub const $constant: $name = $name($number);)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($number => f.write_str(stringify!($constant)),)*
                    number => write!(f, "{}", number),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

numbers! {
    /// An exchange type. `Display` gives its name, or the number if it has none here.
    Exchange(u8) {
        IKE_SA_INIT = 34,
        IKE_AUTH = 35,
        CREATE_CHILD_SA = 36,
        INFORMATIONAL = 37,
        IKE_SESSION_RESUME = 38,
        IKE_INTERMEDIATE = 43,
        IKE_FOLLOWUP_KE = 44,
    }
}

numbers! {
    /// A payload type.
    PayloadType(u8) {
        NONE = 0,
        SA = 33,
        KE = 34,
        IDI = 35,
        IDR = 36,
        CERT = 37,
        CERTREQ = 38,
        AUTH = 39,
        NONCE = 40,
        NOTIFY = 41,
        DELETE = 42,
        VENDOR = 43,
        TSI = 44,
        TSR = 45,
        SK = 46,
        CP = 47,
        EAP = 48,
        SKF = 53,
    }
}

numbers! {
    /// A security protocol, in proposals, notifies and deletes.
    Protocol(u8) {
        NONE = 0,
        IKE = 1,
        AH = 2,
        ESP = 3,
    }
}

numbers! {
    /// A transform type (RFC 7296 §3.3.2, RFC 9370 §4).
    TransformType(u8) {
        ENCR = 1,
        PRF = 2,
        INTEG = 3,
        KE = 4,
        ESN = 5,
        ADDKE1 = 6,
        ADDKE2 = 7,
        ADDKE3 = 8,
        ADDKE4 = 9,
        ADDKE5 = 10,
        ADDKE6 = 11,
        ADDKE7 = 12,
    }
}

numbers! {
    /// A notify message type: errors below 16384, status from there on (RFC 7296 §3.10.1).
    NotifyType(u16) {
        UNSUPPORTED_CRITICAL_PAYLOAD = 1,
        INVALID_IKE_SPI = 4,
        INVALID_MAJOR_VERSION = 5,
        INVALID_SYNTAX = 7,
        INVALID_MESSAGE_ID = 9,
        INVALID_SPI = 11,
        NO_PROPOSAL_CHOSEN = 14,
        INVALID_KE_PAYLOAD = 17,
        AUTHENTICATION_FAILED = 24,
        SINGLE_PAIR_REQUIRED = 34,
        NO_ADDITIONAL_SAS = 35,
        INTERNAL_ADDRESS_FAILURE = 36,
        FAILED_CP_REQUIRED = 37,
        TS_UNACCEPTABLE = 38,
        INVALID_SELECTORS = 39,
        UNACCEPTABLE_ADDRESSES = 40,
        UNEXPECTED_NAT_DETECTED = 41,
        TEMPORARY_FAILURE = 43,
        CHILD_SA_NOT_FOUND = 44,
        STATE_NOT_FOUND = 47,
        TS_MAX_QUEUE = 48,
        INITIAL_CONTACT = 16384,
        SET_WINDOW_SIZE = 16385,
        ADDITIONAL_TS_POSSIBLE = 16386,
        IPCOMP_SUPPORTED = 16387,
        NAT_DETECTION_SOURCE_IP = 16388,
        NAT_DETECTION_DESTINATION_IP = 16389,
        COOKIE = 16390,
        USE_TRANSPORT_MODE = 16391,
        HTTP_CERT_LOOKUP_SUPPORTED = 16392,
        REKEY_SA = 16393,
        ESP_TFC_PADDING_NOT_SUPPORTED = 16394,
        NON_FIRST_FRAGMENTS_ALSO = 16395,
        MOBIKE_SUPPORTED = 16396,
        ADDITIONAL_IP4_ADDRESS = 16397,
        ADDITIONAL_IP6_ADDRESS = 16398,
        NO_ADDITIONAL_ADDRESSES = 16399,
        UPDATE_SA_ADDRESSES = 16400,
        COOKIE2 = 16401,
        NO_NATS_ALLOWED = 16402,
        AUTH_LIFETIME = 16403,
        REDIRECT_SUPPORTED = 16406,
        REDIRECT = 16407,
        REDIRECTED_FROM = 16408,
        EAP_ONLY_AUTHENTICATION = 16417,
        CHILDLESS_IKEV2_SUPPORTED = 16418,
        QUICK_CRASH_DETECTION = 16419,
        IKEV2_FRAGMENTATION_SUPPORTED = 16430,
        SIGNATURE_HASH_ALGORITHMS = 16431,
        INTERMEDIATE_EXCHANGE_SUPPORTED = 16438,
        ADDITIONAL_KEY_EXCHANGE = 16441,
        USE_AGGFRAG = 16442,
        SUPPORTED_AUTH_METHODS = 16443,
        SA_RESOURCE_INFO = 16444,
    }
}

impl NotifyType {
    /// An unknown error in a response fails the request; an unknown status is ignored (RFC 7296 §3.10.1).
    pub const fn is_error(self) -> bool {
        self.0 < 16384
    }
}

/// Transform IDs, by transform type.
pub mod transform {
    /// Type 1, encryption. AES-GCM has a key length attribute, ChaCha20-Poly1305 none (RFC 5282, RFC 7634 §4).
    pub const AES_CBC: u16 = 12;
    pub const AES_GCM_16: u16 = 20;
    pub const CHACHA20_POLY1305: u16 = 28;
    /// Type 2, PRF (RFC 4868).
    pub const HMAC_SHA2_256: u16 = 5;
    pub const HMAC_SHA2_384: u16 = 6;
    pub const HMAC_SHA2_512: u16 = 7;
    /// Types 4 and 6 to 12, key exchange (RFC 8031, draft-ietf-ipsecme-ikev2-mlkem).
    pub const X25519: u16 = 31;
    pub const ML_KEM_512: u16 = 35;
    pub const ML_KEM_768: u16 = 36;
    pub const ML_KEM_1024: u16 = 37;
    /// Types 3, 4 and 6 to 12: nothing of the kind.
    pub const NONE: u16 = 0;
    /// Type 5, extended sequence numbers.
    pub const ESN_NO: u16 = 0;
    pub const ESN_YES: u16 = 1;
    /// The one attribute in use: the key length in bits (RFC 7296 §3.3.5).
    pub const KEY_LENGTH: u16 = 14;
}

/// Identification types (RFC 7296 §3.5).
pub mod id_type {
    pub const IPV4_ADDR: u8 = 1;
    pub const FQDN: u8 = 2;
    pub const RFC822_ADDR: u8 = 3;
    pub const IPV6_ADDR: u8 = 5;
    pub const DER_ASN1_DN: u8 = 9;
    pub const KEY_ID: u8 = 11;
}

/// Authentication methods (RFC 7296 §3.8, RFC 7427 §3).
pub mod auth_method {
    pub const RSA_SIGNATURE: u8 = 1;
    pub const SHARED_KEY: u8 = 2;
    pub const DIGITAL_SIGNATURE: u8 = 14;
}

/// Certificate encodings (RFC 7296 §3.6, RFC 7670 §3).
pub mod cert_encoding {
    pub const X509_SIGNATURE: u8 = 4;
    pub const RAW_PUBLIC_KEY: u8 = 15;
}
