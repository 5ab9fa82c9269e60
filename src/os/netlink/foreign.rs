//! Routes that others have put into the kernel's tables: those that lead somewhere, or nowhere on purpose.

use super::message::{
    AF_INET, AF_INET6, NLM_F_DUMP, PROTOCOL, RTA_DST, RTA_OIF, RTA_TABLE, RTM_GETROUTE, Request, attributes, read_net,
    read_u32,
};
use crate::prefix::Prefix;

/// A route of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Foreign {
    pub table: u32,
    pub prefix: Prefix,
    /// The interface index; 0 without one.
    pub device: u32,
}

/// Everybody's routes of one family.
pub fn dump_all_routes(ipv6: bool) -> Request {
    let family = if ipv6 { AF_INET6 } else { AF_INET };
    Request::new(RTM_GETROUTE, NLM_F_DUMP, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Reads the answer to [`dump_all_routes`]; `None` for what is ours, down, or of no use to anybody else.
pub fn read_foreign(payload: &[u8]) -> Option<Foreign> {
    let (&[family, to_length, from_length, _, table, protocol, _, kind, a, b, c, d], rest) =
        payload.split_first_chunk()?;
    let flags = u32::from_ne_bytes([a, b, c, d]);
    let leads = matches!(kind, RTN_UNICAST | RTN_BLACKHOLE | RTN_UNREACHABLE | RTN_PROHIBIT);
    if protocol == PROTOCOL || !leads || flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN | RTM_F_CLONED) != 0 {
        return None;
    }
    let (mut table, mut device) = (u32::from(table), 0);
    let mut to = read_net(family, to_length, None)?;
    let mut from = read_net(family, 0, None)?;
    for (kind, data) in attributes(rest) {
        match kind {
            RTA_DST => to = read_net(family, to_length, Some(data))?,
            RTA_SRC => from = read_net(family, from_length, Some(data))?,
            RTA_OIF => device = read_u32(data)?,
            RTA_TABLE => table = read_u32(data)?,
            _ => {}
        }
    }
    let address = to.addr();
    let local = match address {
        std::net::IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback() || v4.is_multicast(),
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback() || v6.is_multicast(),
    };
    (!local).then_some(Foreign { table, prefix: Prefix::new(to, from)?, device })
}

const RTN_UNICAST: u8 = 1;
const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;
const RTNH_F_DEAD: u32 = 1;
const RTNH_F_LINKDOWN: u32 = 16;
const RTM_F_CLONED: u32 = 0x200;
const RTA_SRC: u16 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// struct rtmsg and attributes, as the kernel of this machine gives them for the routes in the comments.
    fn route(table: u8, protocol: u8, kind: u8, flags: u32, from: bool) -> Vec<u8> {
        // 2001:db8:1::/48 [from 2001:db8:2::/48] dev 7
        let mut octets = vec![10, 48, if from { 48 } else { 0 }, 0, table, protocol, 0, kind];
        octets.extend(flags.to_ne_bytes());
        let mut net = |kind: u16, last: u8| {
            octets.extend(20u16.to_ne_bytes());
            octets.extend(kind.to_ne_bytes());
            octets.extend([0x20, 1, 0x0d, 0xb8, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        };
        net(RTA_DST, 1);
        if from {
            net(RTA_SRC, 2);
        }
        octets.extend(8u16.to_ne_bytes());
        octets.extend(RTA_OIF.to_ne_bytes());
        octets.extend(7u32.to_ne_bytes());
        octets
    }

    #[test]
    fn reads_what_others_have_put_there() {
        let shown = |octets: &[u8]| read_foreign(octets).map(|f| (f.table, f.prefix.to_string(), f.device));
        let plain = (254, "2001:db8:1::/48".to_owned(), 7);
        assert_eq!(shown(&route(254, 4, RTN_UNICAST, 0, false)), Some(plain.clone()));
        assert_eq!(shown(&route(254, 4, RTN_BLACKHOLE, 0, false)), Some(plain));
        let specific = "2001:db8:1::/48 from 2001:db8:2::/48".to_owned();
        assert_eq!(shown(&route(100, 4, RTN_UNICAST, 0, true)), Some((100, specific, 7)));
        assert_eq!(shown(&route(254, PROTOCOL, RTN_UNICAST, 0, false)), None, "ours");
        assert_eq!(shown(&route(255, 2, 2, 0, false)), None, "an address of this machine");
        assert_eq!(shown(&route(254, 2, RTN_UNICAST, RTNH_F_LINKDOWN, false)), None, "its cable is out");
    }

    proptest! {
        #[test]
        fn never_panics(octets: Vec<u8>, cut in 0usize..80) {
            let _ = read_foreign(&octets);
            let real = route(254, 4, RTN_UNICAST, 0, true);
            let _ = read_foreign(real.get(..cut).unwrap_or(&real));
        }
    }
}
