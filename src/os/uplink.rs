//! Where our datagrams leave from: tells when that may have changed, and from which address the kernel would send by now.
//!
//! Addresses and default routes that come or go are what we listen for; it needs no rights. Each question is one socket that is
//! connected and sends nothing.

use std::net::{IpAddr, SocketAddr};
use std::task::Context;
use std::time::{Duration, Instant};

use super::netlink::Listener;
use super::udp::marked_socket;
use crate::path::Path;

pub struct Uplink {
    mark: u32,
    listener: Option<Listener>,
    changed: Option<Instant>,
}

/// What the kernel thinks of a path's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The address from which it would send; `None` without a way out.
    pub choice: Option<IpAddr>,
    /// The path's own local address is no longer one of this system's.
    pub gone: bool,
}

impl Uplink {
    /// `mark`: of our sockets. Where the kernel does not tell us, only what fails will show a change.
    pub fn new(mark: u32) -> Uplink {
        let listener = match Listener::of_addresses() {
            Ok(listener) => Some(listener),
            Err(error) => {
                log::debug!("no news of addresses: {error}");
                None
            }
        };
        Uplink { mark, listener, changed: None }
    }

    /// Learns of changes. `true` if [`Uplink::deadline`] has come nearer.
    pub fn poll(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Some(listener) = &mut self.listener else { return false };
        let mut news = false;
        while listener.poll_readable(context) {
            // Which ones does not matter, and lost ones are news as well.
            while listener.read(|_| {}).unwrap_or(false) {}
            news = true;
        }
        // An address and its routes come one by one.
        news && self.changed.replace(self.changed.unwrap_or(now + SETTLING)).is_none()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.changed
    }

    /// Whether it is time to look at the paths in use.
    pub fn take_due(&mut self, now: Instant) -> bool {
        self.changed.take_if(|at| *at <= now).is_some()
    }

    pub fn source(&self, path: &Path) -> Source {
        let gone = path.local.is_some_and(|local| !self.is_ours(local));
        Source { choice: self.choice(path.remote), gone }
    }

    fn choice(&self, remote: SocketAddr) -> Option<IpAddr> {
        let socket = marked_socket(remote.is_ipv6(), self.mark, &mut true).ok()?;
        socket.connect(&remote.into()).ok()?;
        Some(socket.local_addr().ok()?.as_socket()?.ip())
    }

    /// Whatever else keeps us from using it, the address counts as ours.
    fn is_ours(&self, local: IpAddr) -> bool {
        let bound =
            marked_socket(local.is_ipv6(), self.mark, &mut true).map(|it| it.bind(&SocketAddr::new(local, 0).into()));
        !matches!(bound, Ok(Err(error)) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL))
    }
}

const SETTLING: Duration = Duration::from_millis(50);
