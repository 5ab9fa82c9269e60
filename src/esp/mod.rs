//! ESP in tunnel mode (RFC 4303) with AEAD ciphers: sealing, opening, and the replay window. The only holder of traffic keys.
