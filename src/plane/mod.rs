//! The data path: inner packets to ESP datagrams and back, by batches, without a clock, a lock or an allocation a packet.
//!
//! Every packet is carried, answered, or counted under a [`DropReason`]. Nothing a peer sends ends a batch.

pub mod coalesce;
pub mod count;
pub mod ecn;
pub mod egress;
mod flow;
mod forward;
mod inbound;
mod limit;
mod link;
mod mss;
mod outbound;
mod seg;
mod steered;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::child_sa::ChildSa;
use crate::esp::{InCount, InSa, OutSa, Sad};
use crate::fib::Fib;
use crate::path::{LinkId, Path};
use crate::steer::Domain;
use crate::steer::policy::{Active, Policies, Policy};
use crate::time::Time;
use crate::wire::vnet::Vnet;
use count::Counts;
pub use count::DropReason;
pub use egress::{Control, Egress, Train};
use flow::{Decision, FlowCache, Tables};
use limit::Limit;
use link::Link;

/// What a link has carried, of authenticated packets (inner octets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCount {
    pub packets_in: u64,
    pub octets_in: u64,
    pub packets_out: u64,
    pub octets_out: u64,
    /// When the last packet that verified came in; `None` before the first one.
    pub heard: Option<Time>,
    /// When the last one went out.
    pub sent: Option<Time>,
}

pub struct Plane {
    mtu: u16,
    has_tun: bool,
    addresses: Vec<IpAddr>,
    /// Steered packets that find no route here leave through the kernel's default route.
    exit: bool,
    tables: Tables,
    flows: FlowCache,
    sad: Sad,
    links: BTreeMap<LinkId, Link>,
    counts: Counts,
    limit: Limit,
    /// Where fragments are put together.
    scratch: Vec<u8>,
    /// Where outer headers are put together.
    head: Vec<u8>,
    /// The node listens for answers to its probes.
    probing: bool,
    /// Our SIDs that packets came to.
    #[cfg(test)]
    pub(crate) visited: Vec<(Time, Ipv6Addr)>,
}

impl Plane {
    /// `mtu`: the largest inner packet, in octets.
    pub fn new(mtu: u16) -> Plane {
        Plane {
            mtu,
            has_tun: true,
            addresses: Vec::new(),
            exit: false,
            tables: Tables::default(),
            flows: FlowCache::default(),
            sad: Sad::default(),
            links: BTreeMap::new(),
            counts: Counts::default(),
            limit: Limit::default(),
            scratch: Vec::new(),
            head: Vec::new(),
            probing: false,
            #[cfg(test)]
            visited: Vec::new(),
        }
    }

    /// Whether there is a TUN device (as there is at first). Without one, packets for this site are dropped, but echo
    /// requests to the node's own addresses are answered here.
    pub fn set_tun(&mut self, present: bool) {
        self.has_tun = present;
    }

    /// The addresses of this node, best first: sources of its ICMP errors.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.addresses = addresses;
    }

    pub fn set_fib(&mut self, fib: Arc<Fib>) {
        self.tables.fib = fib;
        self.tables_changed();
    }

    /// The table in force.
    pub fn fib(&self) -> &Fib {
        &self.tables.fib
    }

    /// Who is in the SR domain, and which packets of the local network take which path.
    pub fn set_steering(&mut self, domain: Domain, policies: Vec<Policy>, exit: bool) {
        let mut policies = Policies::new(policies, &domain);
        policies.inherit(&self.tables.policies);
        (self.tables.domain, self.tables.policies, self.exit) = (domain, policies, exit);
        self.tables_changed();
    }

    pub fn domain(&self) -> &Domain {
        &self.tables.domain
    }

    /// The policies at work, as configured.
    pub fn policies(&self) -> impl Iterator<Item = &Active> {
        self.tables.policies.iter()
    }

    /// Whether ICMPv6 messages to our End SID are of interest ([`Control::Message`]).
    pub fn set_probing(&mut self, probing: bool) {
        self.probing = probing;
    }

    fn tables_changed(&mut self) {
        let Tables { fib, domain, policies } = &mut self.tables;
        policies.resolve(fib, domain);
        self.flows.invalidate();
    }

    fn decide(&mut self, destination: IpAddr, source: IpAddr) -> Decision {
        self.flows.lookup(&self.tables, destination, source)
    }

    /// Installs both directions of a Child SA on a link: inbound beside what is there, outbound instead of it, or, if `standby`,
    /// behind it until [`Plane::use_now`].
    ///
    /// A link begins to exist with its first one.
    pub fn install(&mut self, link: LinkId, path: Path, child: &ChildSa, standby: bool) {
        let inbound = InSa::new(child.cipher, &child.key_in);
        let outbound = OutSa::new(child.cipher, child.spi_out, &child.key_out);
        let (Some(inbound), Some(outbound)) = (inbound, outbound) else {
            log::error!("Child SA {:08x} not installed: its keys do not fit {}", child.spi_in, child.cipher.name());
            return;
        };
        self.sad.insert(child.spi_in, link, inbound);
        let link = self.links.entry(link).or_insert_with(|| Link::new(path));
        if standby {
            link.stand_by(outbound, child.spi_in);
        } else {
            link.install(path, outbound, child.spi_in);
        }
    }

    /// Each direction of a Child SA is worn after so many octets.
    pub fn limit(&mut self, link: LinkId, spi_in: u32, octets: u64) {
        if let Some((_, inbound)) = self.sad.lookup(spi_in) {
            inbound.limit(octets);
        }
        if let Some(link) = self.links.get_mut(&link) {
            link.limit(spi_in, octets);
        }
    }

    /// From now on the link's packets are sealed by the outbound SA that came with this inbound one.
    pub fn use_now(&mut self, link: LinkId, spi_in: u32) {
        if let Some(link) = self.links.get_mut(&link) {
            link.use_now(spi_in);
        }
    }

    /// Nothing is sealed any more by the outbound SA that came with this inbound one, which stays.
    pub fn retire(&mut self, link: LinkId, spi_in: u32) {
        if let Some(link) = self.links.get_mut(&link) {
            link.remove(spi_in);
        }
    }

    /// Removes an inbound SA, and the outbound one that came with it.
    pub fn remove(&mut self, link: LinkId, spi_in: u32) {
        self.sad.remove(spi_in, link);
        if let Some(link) = self.links.get_mut(&link) {
            link.remove(spi_in);
        }
    }

    /// Forgets the link and everything on it.
    pub fn remove_link(&mut self, link: LinkId) {
        self.sad.remove_link(link);
        self.links.remove(&link);
    }

    /// Where the link's ESP goes from now on.
    pub fn set_path(&mut self, link: LinkId, path: Path) {
        if let Some(link) = self.links.get_mut(&link) {
            link.path = path;
        }
    }

    /// Our own link-local address on an installed link: echo requests to it are answered here, for a peer to probe with.
    pub fn set_link_local(&mut self, link: LinkId, address: Ipv6Addr) {
        if let Some(link) = self.links.get_mut(&link) {
            link.link_local = Some(address);
        }
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, sent: u32) {
        self.links.values_mut().filter_map(|link| link.out.last_mut()).for_each(|out| out.sa.skip_to(sent));
    }

    pub fn link(&self, link: LinkId) -> Option<LinkCount> {
        self.links.get(&link).map(|link| link.count)
    }

    /// What the Child SA with this inbound SPI has carried: its inbound half, and packets and octets of the outbound one.
    pub fn child(&self, link: LinkId, spi_in: u32) -> (InCount, (u64, u64)) {
        let sealed = self.links.get(&link).map_or((0, 0), |link| link.sealed(spi_in));
        (self.sad.count(spi_in).unwrap_or_default(), sealed)
    }

    /// A packet from the TUN device: look up, seal into `out`.
    pub fn outbound(&mut self, now: Time, packet: &[u8], out: &mut Egress) {
        if let Err(reason) = self.try_outbound(now, packet, out) {
            self.counts.add(reason);
        }
    }

    /// The same for what a TUN device with offloads hands over: a packet with work left undone, or one that stands for many.
    pub fn outbound_super(&mut self, now: Time, vnet: &Vnet, packet: &mut [u8], out: &mut Egress) {
        if let Err(reason) = self.try_outbound_super(now, vnet, packet, out) {
            self.counts.add(reason);
        }
    }

    /// An ESP datagram (not a keepalive, not IKE): open in place, then deliver to the TUN, forward, or hand to control.
    ///
    /// `tos` is the traffic class it came with: its ECN bits go into the inner packet (RFC 6040 §4.2).
    pub fn inbound(&mut self, now: Time, path: Path, tos: u8, datagram: &mut [u8], out: &mut Egress) {
        if let Err(reason) = self.try_inbound(now, path, tos, datagram, out) {
            self.counts.add(reason);
        }
    }

    /// A packet of our own (Babel) over one link, whatever the Fib says. `false` if the link has no SA that could carry it.
    pub fn send(&mut self, now: Time, link: LinkId, packet: &[u8], out: &mut Egress) -> bool {
        let sent = self.try_send(now, link, packet, out);
        if let Err(reason) = sent {
            self.counts.add(reason);
        }
        sent.is_ok()
    }

    /// A packet of our own, by the forwarding table.
    pub fn send_routed(&mut self, now: Time, packet: &[u8], out: &mut Egress) {
        self.originate(now, packet, out);
    }

    /// Counts drops that happened outside the plane, so that all are in one place.
    pub fn count(&mut self, reason: &'static str, times: u32) {
        self.counts.add_named(reason, times.into());
    }

    /// Drops since the start, by reason; reasons that never happened are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter()
    }
}

#[cfg(test)]
mod tests;
