//! What a route is for: a destination prefix and, for source-specific routes (RFC 9079), a source prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A destination and a source prefix of one address family; the source is the whole family for ordinary routes.
///
/// Host bits are always zero: build it with [`Prefix::new`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    to: IpNet,
    from: IpNet,
}

impl Prefix {
    /// A route to `to`, whatever the source.
    pub fn to(to: IpNet) -> Prefix {
        Prefix { to: to.trunc(), from: everything(&to) }
    }

    /// A route to `to` for packets from `from`; `None` if the families differ.
    pub fn new(to: IpNet, from: IpNet) -> Option<Prefix> {
        let same = matches!((to, from), (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_)));
        same.then(|| Prefix { to: to.trunc(), from: from.trunc() })
    }

    pub fn host(address: IpAddr) -> Prefix {
        Prefix::to(IpNet::from(address))
    }

    pub fn destination(&self) -> IpNet {
        self.to
    }

    pub fn source(&self) -> IpNet {
        self.from
    }

    pub fn is_source_specific(&self) -> bool {
        self.from.prefix_len() > 0
    }

    /// 0.0.0.0/1 and 2000::/3 are used as default routes, too: whatever is shorter than 8 bits counts as one.
    pub fn is_default(&self) -> bool {
        self.to.prefix_len() < 8
    }

    pub fn is_ipv4(&self) -> bool {
        matches!(self.to, IpNet::V4(_))
    }

    pub fn matches(&self, destination: IpAddr, source: IpAddr) -> bool {
        self.to.contains(&destination) && self.from.contains(&source)
    }
}

fn everything(like: &IpNet) -> IpNet {
    match like {
        IpNet::V4(_) => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
        IpNet::V6(_) => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_source_specific() { write!(f, "{} from {}", self.to, self.from) } else { write!(f, "{}", self.to) }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
