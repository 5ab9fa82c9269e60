//! IKEv2 messages (RFC 7296 §3).
