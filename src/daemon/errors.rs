//! What to say and to count when datagrams cannot be sent: each place's trouble once when it starts, never per datagram.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use crate::os::words;

/// Places that datagrams did not go out to, and the last error of each.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    places: BTreeMap<IpAddr, i32>,
}

impl Trouble {
    pub(super) fn note(&mut self, place: IpAddr, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(0);
        if self.places.len() >= MOST && !self.places.contains_key(&place) {
            return;
        }
        if self.places.insert(place, errno) != Some(errno) {
            log::info!("cannot send to {place}: {}", words(error));
        }
    }

    /// Datagrams go out to `place` (again).
    pub(super) fn clear(&mut self, place: IpAddr) {
        if !self.places.is_empty() && self.places.remove(&place).is_some() {
            log::info!("sending to {place} works again");
        }
    }
}

/// The reason under which datagrams that could not be sent are counted.
pub(super) fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => "send_unreachable",
        Some(libc::EPERM | libc::EACCES) => "send_not_permitted",
        Some(libc::EMSGSIZE) => "send_too_big",
        Some(libc::EAFNOSUPPORT) => "send_no_such_family",
        Some(libc::ENETDOWN | libc::ENODEV) => "send_interface_down",
        Some(libc::ECONNREFUSED) => "send_refused",
        _ => "send_failed",
    }
}

const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_bounded_and_forgotten() {
        let mut trouble = Trouble::default();
        let down = io::Error::from_raw_os_error(libc::ENETUNREACH);
        for number in 0..1000u32 {
            trouble.note(IpAddr::V4(number.into()), &down);
        }
        assert_eq!(trouble.places.len(), MOST);
        trouble.clear(IpAddr::V4(7.into()));
        assert_eq!(trouble.places.len(), MOST - 1);
    }
}
