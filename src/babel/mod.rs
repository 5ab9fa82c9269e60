//! The Babel routing protocol (RFC 8966) with RTT metrics (RFC 9616), source-specific routes (RFC 9079) and IPv4 routes over
//! IPv6 next hops (RFC 9229). Every tunnel is a point-to-point Babel link.

mod acks;
mod cost;
mod hello;
mod link;
mod maintain;
mod neighbour;
mod receive;
mod request;
mod route;
mod rtt;
mod select;
mod seqno;
mod smooth;
mod source;
pub mod speaker;
mod terms;
mod transmit;

pub use speaker::Speaker;
