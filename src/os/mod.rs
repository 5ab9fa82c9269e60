//! The operating system: TUN, UDP, netlink, names, signals. The only unsafe code, nearly all of it in `sys`.
//!
//! Everything here is non-blocking and is polled by the daemon's loop through smol; nothing here knows the protocols.
//! Linux 5.6 (RouterOS) is enough; what an older or smaller kernel lacks costs one warning, never the process.

pub mod kernel;
pub mod netlink;
pub mod netns;
pub mod resolve;
pub mod signals;
mod sys;
pub mod tun;
pub mod udp;
