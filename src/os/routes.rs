//! Following the kernel's routing tables, whoever fills them: whenever something has changed, they are read as a whole.

use std::collections::BTreeSet;
use std::io;
use std::task::Context;
use std::time::{Duration, Instant};

use super::netlink::{self, Foreign, Listener, Socket};

pub struct Routes {
    socket: Socket,
    listener: Listener,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Routes {
    /// The tables are due to be read at once.
    ///
    /// # Errors
    /// When there is no netlink.
    pub fn open(now: Instant) -> io::Result<Routes> {
        Ok(Routes { socket: Socket::open()?, listener: Listener::of_everybody()?, due: Some(now), last: None })
    }

    /// Learns of changes. `true` if [`Routes::deadline`] has moved.
    pub fn poll(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let mut changed = false;
        while self.listener.poll_readable(context) {
            changed = true;
            // What the news are does not matter: lost ones (ENOBUFS) and IPv4 routes that go silently with their link are
            // found all the same.
            while matches!(self.listener.skip(), Ok(true)) {}
        }
        if changed && self.due.is_none() {
            let soon = now + SETTLE;
            self.due = Some(self.last.map_or(soon, |last| soon.max(last + PAUSE)));
            return true;
        }
        false
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// The routes of these tables, but those to our own device, if it is time to read them.
    pub fn take_due(&mut self, now: Instant, tables: &[u32], own: Option<u32>) -> Option<Vec<Foreign>> {
        self.due.take_if(|at| *at <= now)?;
        self.last = Some(now);
        let mut found = BTreeSet::new();
        for ipv6 in [false, true] {
            let dumped = self.socket.dump_raw(netlink::dump_all_routes(ipv6), |payload| {
                let route = netlink::read_foreign(payload);
                found.extend(route.filter(|route| tables.contains(&route.table) && own != Some(route.device)));
            });
            if let Err(error) = dumped {
                log::debug!("reading the kernel's routes: {error}");
                self.due = Some(now + PAUSE);
                return None;
            }
        }
        Some(found.into_iter().collect())
    }
}

/// Several routes change together.
const SETTLE: Duration = Duration::from_millis(100);
/// A router with a full table has changes all the time.
const PAUSE: Duration = Duration::from_millis(700);
