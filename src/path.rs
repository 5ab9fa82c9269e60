//! Names for where datagrams go: a peer, a link to it, and the addresses a link uses at the moment.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A peer: its place in [`crate::config::plan::Plan::peers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// A tunnel to a peer, which is one Babel link. It outlives the SAs that carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A local UDP port. The first ones are `listen` of the configuration, in order; further ones are opened for redialling.
///
/// One socket serves both address families: the remote address tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u16);

/// The two ends of a flow of datagrams, as this node sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    pub socket: SocketId,
    /// The local address that the peer knows us by; `None` while the kernel chooses it.
    pub local: Option<IpAddr>,
    pub remote: SocketAddr,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.remote)
    }
}
