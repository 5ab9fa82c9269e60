//! The Babel routing protocol (RFC 8966) with RTT metrics (RFC 9616), source-specific routes (RFC 9079) and IPv4 routes over
//! IPv6 next hops (RFC 9229). Every tunnel is a point-to-point Babel link.

pub mod speaker;

pub use speaker::Speaker;
