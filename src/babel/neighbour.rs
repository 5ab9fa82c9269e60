//! A neighbour: what we hear from it, what it hears from us, and what the link to it costs (RFC 8966 §3.2.4, §3.4).

use std::net::Ipv6Addr;
use std::time::Duration;

use super::hello::History;
use super::rtt::Rtt;
use crate::config::plan::Tuning;
use crate::path::LinkId;
use crate::time::Time;
use crate::wire::babel::{Hello, INFINITY};

/// Names a neighbour for as long as it is known; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NeighbourId(pub(super) u32);

pub(super) struct Neighbour {
    pub(super) link: LinkId,
    pub(super) address: Ipv6Addr,
    pub(super) since: Time,
    pub(super) rtt: Rtt,
    pub(super) tuning: Tuning,
    /// The cost that the metrics of its routes were made with.
    pub(super) cost: u16,
    pub(super) txcost: u16,
    pub(super) last_hello: Option<Time>,
    pub(super) last_ihu: Option<Time>,
    /// What our last IHU said, or the next one will.
    pub(super) told_rxcost: u16,
    /// How often it was asked for everything without giving us any route.
    pub(super) unanswered: u32,
    /// How many routes it gave us.
    pub(super) routes: usize,
    /// Both ends have heard each other once.
    pub(super) used: bool,
    multicast: History,
    unicast: History,
    heard: bool,
    ihu_expires: Option<Time>,
}

impl Neighbour {
    pub(super) fn new(now: Time, link: LinkId, address: Ipv6Addr, tuning: Tuning) -> Neighbour {
        Neighbour {
            link,
            address,
            since: now,
            rtt: Rtt::default(),
            tuning,
            cost: INFINITY,
            txcost: INFINITY,
            last_hello: None,
            last_ihu: None,
            told_rxcost: INFINITY,
            unanswered: 0,
            routes: 0,
            used: false,
            multicast: History::default(),
            unicast: History::default(),
            heard: false,
            ihu_expires: None,
        }
    }

    /// Returns whether the neighbour has restarted. `usual` is the interval assumed if it never names one.
    pub(super) fn hello(&mut self, now: Time, hello: &Hello, usual: Duration) -> bool {
        self.last_hello = Some(now);
        let history = if hello.unicast { &mut self.unicast } else { &mut self.multicast };
        let promised = (hello.interval > 0).then(|| centiseconds(hello.interval));
        // Without any promise there would be no time at which to miss the next one.
        let interval = promised.or_else(|| history.due().is_none().then_some(usual));
        let restarted = history.receive(now, hello.seqno, interval);
        self.judge();
        restarted
    }

    pub(super) fn ihu(&mut self, now: Time, rxcost: u16, interval: u16) {
        self.last_ihu = Some(now);
        self.txcost = rxcost;
        self.ihu_expires = Some(now + centiseconds(interval) * 7 / 2);
    }

    /// What time alone changes.
    pub(super) fn expire(&mut self, now: Time) {
        self.multicast.expire(now);
        self.unicast.expire(now);
        self.judge();
        // RFC 8966 §3.4.2: it does not say any more that it hears us.
        if self.ihu_expires.is_some_and(|expires| expires <= now) {
            self.ihu_expires = None;
            self.txcost = INFINITY;
        }
    }

    pub(super) fn due(&self) -> Option<Time> {
        [self.multicast.due(), self.unicast.due(), self.ihu_expires].into_iter().flatten().min()
    }

    /// Nothing came for 16 intervals (RFC 8966 A.1).
    pub(super) fn is_gone(&self) -> bool {
        self.multicast.is_empty() && self.unicast.is_empty()
    }

    /// The cost of receiving from it, as our IHUs say.
    pub(super) fn rxcost(&self) -> u16 {
        if self.heard { self.tuning.rxcost } else { INFINITY }
    }

    /// (received, expected) of the kind of Hello that it sends.
    pub(super) fn delivery(&self) -> (u32, u32) {
        let (multicast, unicast) = (self.multicast.delivery(), self.unicast.delivery());
        if unicast.0 > multicast.0 { unicast } else { multicast }
    }

    /// The link cost as of now.
    pub(super) fn cost_now(&self, now: Time) -> u16 {
        if !self.heard || self.txcost == INFINITY {
            return INFINITY;
        }
        let (received, expected) = self.delivery();
        self.tuning.link_cost(self.rtt.smoothed(now), received, expected, self.txcost)
    }

    fn judge(&mut self) {
        self.heard = if self.heard {
            !(self.multicast.is_silent() && self.unicast.is_silent())
        } else {
            self.multicast.is_good() || self.unicast.is_good()
        };
    }
}

/// An interval of the wire, at least a tenth of a second: a neighbour does not set the pace of our timers.
pub(super) fn centiseconds(interval: u16) -> Duration {
    Duration::from_millis(u64::from(interval) * 10).max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn hello(unicast: bool, seqno: u16, interval: u16) -> Hello {
        Hello { unicast, seqno, interval, stamp: None }
    }

    fn neighbour() -> Neighbour {
        Neighbour::new(at(0), LinkId(1), Ipv6Addr::LOCALHOST, Tuning::default())
    }

    #[test]
    fn usable_when_both_hear_each_other() {
        let usual = Duration::from_secs(4);
        for unicast in [false, true] {
            let mut neighbour = neighbour();
            neighbour.hello(at(0), &hello(unicast, 7, 400), usual);
            neighbour.ihu(at(0), 96, 1200);
            assert_eq!((neighbour.rxcost(), neighbour.cost_now(at(0))), (INFINITY, INFINITY), "one Hello");
            neighbour.hello(at(0), &hello(unicast, 8, 0), usual);
            assert_eq!((neighbour.rxcost(), neighbour.cost_now(at(0))), (16, 96));
            neighbour.ihu(at(1), INFINITY, 1200);
            assert_eq!((neighbour.rxcost(), neighbour.cost_now(at(1))), (16, INFINITY), "it does not hear us");
        }
    }

    #[test]
    fn an_outage_ends_it_by_time_alone() {
        let mut neighbour = neighbour();
        for seqno in 0..10 {
            neighbour.hello(at(0), &hello(false, seqno, 400), Duration::from_secs(4));
        }
        neighbour.ihu(at(0), 96, 1200);
        assert_eq!(neighbour.due(), Some(at(6)));
        neighbour.expire(at(9));
        assert_eq!(neighbour.cost_now(at(9)), 106, "10 of 11 came");
        neighbour.expire(at(10));
        assert_eq!(neighbour.cost_now(at(10)), INFINITY);
        neighbour.expire(at(42));
        assert_eq!(neighbour.txcost, INFINITY, "the IHU held for 3.5 intervals");
        assert!(!neighbour.is_gone());
        neighbour.expire(at(70));
        assert!(neighbour.is_gone() && neighbour.due().is_none());
    }

    #[test]
    fn unscheduled_hellos_alone_do_not_live_for_ever() {
        let mut neighbour = neighbour();
        neighbour.hello(at(0), &hello(false, 1, 0), Duration::from_secs(4));
        neighbour.expire(at(70));
        assert!(neighbour.is_gone());
    }
}
