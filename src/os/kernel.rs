//! What we put into the kernel: our device's addresses, routes in our own tables, and the rules that lead to them.
//!
//! All of it carries our protocol number, is put right again (at most twice a second, then ever more rarely up to once a
//! minute) when something else removes it, and is gone at exit and at the next start.
//!
//! The rules, for each family: `pref R lookup main suppress_prefixlength 0` (what main knows better than its default
//! route stays there), `pref R+1 not fwmark M lookup T` (all but our own sockets). A source-specific route goes into a
//! table of its own for each source prefix, T + 65536·n, with a rule `pref R+1 from SOURCE fwmark 0/B lookup` it, B being
//! the highest bit of M (`not` would turn the source round too). The kernel then sends us just what some route matches,
//! and the plane decides between routes (RFC 9079 §4); this serves IPv4 too, and kernels without IPV6_SUBTREES.
//! An exit has `pref R iif TUN lookup main`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;
use std::task::Context;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::netlink::{self, Address, Event, Listener, Route, Rule, Socket};
use super::words;
use crate::prefix::Prefix;

/// Where our routes and rules stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub table: u32,
    pub mark: u32,
    pub preference: u32,
    /// What comes out of our device may leave by main's default route, whatever default route the mesh has.
    pub exit: bool,
}

pub struct Kernel {
    settings: Settings,
    socket: Socket,
    listener: Listener,
    link: Option<Link>,
    /// Where the IPv6 default route of the system leads that we keep, for lack of anybody else.
    gateway: Option<Ipv6Addr>,
    routes: BTreeSet<Prefix>,
    /// The number of the table of each source prefix.
    sources: BTreeMap<IpNet, u32>,
    /// What could not be done, so that it is said once.
    said: BTreeSet<(&'static str, bool, i32)>,
    repair_at: Option<Instant>,
    last_repair: Option<Instant>,
    pause: Duration,
}

/// Our TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface index.
    pub device: u32,
    pub name: String,
    pub mtu: u16,
    pub addresses: Vec<IpNet>,
}

impl Kernel {
    /// Opens netlink and removes what an earlier run has left in these tables.
    ///
    /// # Errors
    /// When there is no netlink, or we may not use it.
    pub fn open(settings: Settings) -> io::Result<Kernel> {
        let mut kernel = Kernel {
            settings,
            socket: Socket::open()?,
            listener: Listener::open()?,
            link: None,
            gateway: None,
            routes: BTreeSet::new(),
            sources: BTreeMap::new(),
            said: BTreeSet::new(),
            repair_at: None,
            last_repair: None,
            pause: SHORTEST,
        };
        kernel.flush()?;
        Ok(kernel)
    }

    /// Sets up the device with its addresses, the rules, and the routes wanted so far.
    ///
    /// # Errors
    /// When the device cannot be set up. What one family lacks is only logged.
    pub fn attach(&mut self, link: Link) -> io::Result<()> {
        if link.addresses.iter().any(|address| matches!(address, IpNet::V6(_))) {
            // Containers are often made with IPv6 switched off for new devices.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name), "0");
        }
        self.link = Some(link);
        self.link_up()?;
        self.put_right().map(drop)
    }

    /// Sets and keeps an IPv6 default route in the main table, behind every other one that there may be.
    pub fn keep_default_route(&mut self, gateway: Ipv6Addr, now: Instant) {
        self.gateway = Some(gateway);
        if !self.put_gateway() {
            self.schedule(now + self.pause);
        }
    }

    /// Forgets the device, which has gone together with its addresses and routes.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Sends a prefix to the device.
    pub fn add(&mut self, prefix: Prefix) {
        if !self.routes.insert(prefix) {
            return;
        }
        if prefix.is_source_specific()
            && !self.sources.contains_key(&prefix.source())
            && !self.add_source(prefix.source())
        {
            return;
        }
        if let Some(route) = self.route(&prefix) {
            let result = self.socket.request(netlink::route_add(&route));
            self.say("add a route", prefix.is_ipv4(), &result);
        }
    }

    pub fn delete(&mut self, prefix: Prefix) {
        if !self.routes.remove(&prefix) || self.own_prefixes().any(|own| own == prefix) {
            return;
        }
        if let Some(route) = self.route(&prefix) {
            let result = self.socket.request(netlink::route_delete(&route));
            self.say("delete a route", prefix.is_ipv4(), &gone_is_fine(result));
        }
        let source = prefix.source();
        if prefix.is_source_specific()
            && !self.routes.iter().any(|other| other.source() == source)
            && let Some(number) = self.sources.remove(&source)
        {
            let result = self.socket.request(netlink::rule_delete(&self.source_rule(source, number)));
            self.say("delete a rule", prefix.is_ipv4(), &gone_is_fine(result));
            self.adopt();
        }
    }

    /// Reads what has happened to the kernel's tables; returns with nothing left to read and the task to be woken.
    pub fn poll_events(&mut self, context: &mut Context<'_>, now: Instant) {
        while self.listener.poll_readable(context) {
            loop {
                let mut events = Vec::new();
                match self.listener.read(|event| events.push(event)) {
                    Ok(true) => {}
                    Ok(false) => break,
                    // News were lost: look for ourselves.
                    Err(error) => {
                        log::debug!("netlink: {error}");
                        self.schedule(now);
                        break;
                    }
                }
                if events.iter().any(|event| self.is_damage(event)) {
                    self.schedule(now);
                }
            }
        }
    }

    /// When [`Kernel::repair`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.repair_at
    }

    /// Puts back what is missing, if it is time to.
    pub fn repair(&mut self, now: Instant) {
        if self.repair_at.is_none_or(|at| at > now) {
            return;
        }
        self.repair_at = None;
        // Somebody who keeps removing our routes gets slower answers.
        let calm = self.last_repair.is_none_or(|last| now.duration_since(last) > self.pause * 4);
        self.pause = if calm { SHORTEST } else { (self.pause * 3 / 2).min(LONGEST) };
        self.last_repair = Some(now);
        if !self.put_gateway() {
            self.repair_at = Some(now + self.pause);
        }
        if self.link.is_none() {
            return;
        }
        match self.link_up().and_then(|()| self.put_right()) {
            Ok(0) => {}
            Ok(count) => log::warn!("another program removed routes or rules of ours: put {count} of them back"),
            Err(error) => {
                log::debug!("repairing routes: {error}");
                self.repair_at = Some(now + self.pause);
            }
        }
    }

    /// Removes everything of ours.
    pub fn close(&mut self) {
        self.gateway = None;
        self.link = None;
        self.routes.clear();
        if let Err(error) = self.flush() {
            log::warn!("cannot remove our routes: {}; they go at the next start", words(&error));
        }
    }

    fn link_up(&mut self) -> io::Result<()> {
        let Some(link) = self.link.clone() else { return Ok(()) };
        if let Err(error) = self.socket.request(netlink::no_link_local(link.device)) {
            log::debug!("{}: the kernel keeps its link-local address: {error}", link.name);
        }
        if let Err(error) = self.socket.request(netlink::accept_local(link.device)) {
            log::debug!("{}: the kernel will not believe our ICMP errors: {error}", link.name);
        }
        self.socket.request(netlink::tun_up(link.device, u32::from(link.mtu)))?;
        for &address in &link.addresses {
            let result = self.socket.request(netlink::address_add(&Address { device: link.device, address }));
            self.say("add an address", matches!(address, IpNet::V4(_)), &result);
        }
        Ok(())
    }

    /// `false` if the default route is wanted and cannot be set now: its network may not be there yet.
    fn put_gateway(&mut self) -> bool {
        let Some(gateway) = self.gateway else { return true };
        let result = exists_is_fine(self.socket.request(netlink::default_route_add(gateway)));
        self.say("add the default route", false, &result);
        result.is_ok()
    }

    /// Adds the rules and routes that are wanted and missing; returns how many.
    fn put_right(&mut self) -> io::Result<usize> {
        let mut count = 0;
        for ipv6 in [false, true] {
            let (routes, rules) = self.present(ipv6)?;
            for rule in self.rules(ipv6) {
                if !rules.contains(&rule) {
                    let result = self.socket.request(netlink::rule_add(&rule));
                    count += usize::from(result.is_ok());
                    self.say("add a rule", !ipv6, &exists_is_fine(result));
                }
            }
            let wanted: Vec<Prefix> =
                self.own_prefixes().chain(self.routes.iter().copied()).filter(|p| p.is_ipv4() != ipv6).collect();
            for prefix in wanted {
                let Some(route) = self.route(&prefix).filter(|route| !routes.contains(route)) else { continue };
                let result = self.socket.request(netlink::route_add(&route));
                count += usize::from(result.is_ok());
                self.say("add a route", !ipv6, &result);
            }
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Hardly ever there, and never on a system without IPv6.
        let _ = self.socket.request(netlink::default_route_delete());
        for ipv6 in [false, true] {
            let (routes, rules) = self.present(ipv6)?;
            for rule in rules {
                gone_is_fine(self.socket.request(netlink::rule_delete(&rule)))?;
            }
            for route in routes {
                gone_is_fine(self.socket.request(netlink::route_delete(&route)))?;
            }
        }
        self.sources.clear();
        Ok(())
    }

    /// What is there of ours, in our tables.
    fn present(&mut self, ipv6: bool) -> io::Result<(BTreeSet<Route>, BTreeSet<Rule>)> {
        let (mut routes, mut rules) = (BTreeSet::new(), BTreeSet::new());
        for event in self.socket.dump(netlink::dump_routes(ipv6))? {
            if let Event::Route { route, gone: false } = event
                && self.is_our_table(route.table)
            {
                routes.insert(route);
            }
        }
        for event in self.socket.dump(netlink::dump_rules(ipv6))? {
            if let Event::Rule { rule, gone: false } = event
                && (self.is_our_table(rule.table)
                    || rule.table == RT_TABLE_MAIN && rule.preference == self.settings.preference)
            {
                rules.insert(rule);
            }
        }
        Ok((routes, rules))
    }

    fn rules(&self, ipv6: bool) -> Vec<Rule> {
        let mut rules = vec![self.main_rule(ipv6), self.table_rule(ipv6)];
        rules.extend(self.exit_rule(ipv6));
        let sources = self.sources.iter().filter(|(source, _)| matches!(source, IpNet::V6(_)) == ipv6);
        rules.extend(sources.map(|(&source, &number)| self.source_rule(source, number)));
        rules
    }

    fn main_rule(&self, ipv6: bool) -> Rule {
        let preference = self.settings.preference;
        Rule {
            ipv6,
            preference,
            from: None,
            mark: None,
            invert: false,
            table: RT_TABLE_MAIN,
            iif: None,
            no_default: true,
        }
    }

    fn exit_rule(&self, ipv6: bool) -> Option<Rule> {
        let link = self.link.as_ref().filter(|_| self.settings.exit)?;
        let mut name = [0; 16];
        name.get_mut(..link.name.len())?.copy_from_slice(link.name.as_bytes());
        Some(Rule { iif: Some(name), no_default: false, ..self.main_rule(ipv6) })
    }

    fn table_rule(&self, ipv6: bool) -> Rule {
        let mark = Some((self.settings.mark, u32::MAX));
        let preference = self.settings.preference.saturating_add(1);
        Rule {
            ipv6,
            preference,
            from: None,
            mark,
            invert: true,
            table: self.settings.table,
            iif: None,
            no_default: false,
        }
    }

    fn source_rule(&self, source: IpNet, number: u32) -> Rule {
        let ipv6 = matches!(source, IpNet::V6(_));
        let highest_bit = self.settings.mark.checked_ilog2().map_or(0, |bit| 1 << bit);
        let (mark, table) = (Some((0, highest_bit)), self.source_table(number));
        Rule { from: Some(source), mark, invert: false, table, ..self.table_rule(ipv6) }
    }

    fn source_table(&self, number: u32) -> u32 {
        self.settings.table.wrapping_add(number << 16)
    }

    fn is_our_table(&self, table: u32) -> bool {
        let offset = table.wrapping_sub(self.settings.table);
        offset & 0xffff == 0 && offset >> 16 <= SOURCES
    }

    /// Makes a table for a source prefix; `false` if there are too many.
    fn add_source(&mut self, source: IpNet) -> bool {
        let Some(number) = (1..=SOURCES).find(|number| !self.sources.values().any(|used| used == number)) else {
            if self.said.insert(("sources", true, 0)) {
                log::warn!("routes from more than {SOURCES} source prefixes: the kernel gets only the first ones");
            }
            return false;
        };
        self.sources.insert(source, number);
        if self.link.is_some() {
            let result = self.socket.request(netlink::rule_add(&self.source_rule(source, number)));
            self.say("add a rule", matches!(source, IpNet::V4(_)), &exists_is_fine(result));
        }
        true
    }

    /// Gives a table that has become free to a source prefix that found none.
    fn adopt(&mut self) {
        let waits = |prefix: &&Prefix| prefix.is_source_specific() && !self.sources.contains_key(&prefix.source());
        let Some(source) = self.routes.iter().find(waits).map(Prefix::source) else { return };
        if !self.add_source(source) {
            return;
        }
        let prefixes: Vec<Prefix> = self.routes.iter().copied().filter(|prefix| prefix.source() == source).collect();
        for route in prefixes.iter().filter_map(|prefix| self.route(prefix)).collect::<Vec<_>>() {
            let result = self.socket.request(netlink::route_add(&route));
            self.say("add a route", matches!(source, IpNet::V4(_)), &result);
        }
    }

    /// The kernel's form of a prefix; `None` without a device, or without a table for its source.
    fn route(&self, prefix: &Prefix) -> Option<Route> {
        let table = if prefix.is_source_specific() {
            self.source_table(*self.sources.get(&prefix.source())?)
        } else {
            self.settings.table
        };
        Some(Route { table, to: prefix.destination(), device: self.link.as_ref()?.device })
    }

    /// The networks of the device's addresses: they lead into the mesh by our table rather than by main, so that our own
    /// sockets do not follow them, and so that what nobody announces does not leave by the default route.
    fn own_prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        let addresses = self.link.iter().flat_map(|link| &link.addresses);
        addresses.filter(|address| address.prefix_len() < address.max_prefix_len()).map(|&net| Prefix::to(net))
    }

    fn is_damage(&self, event: &Event) -> bool {
        if let Event::Route { route, gone: true } = event
            && self.gateway.is_some()
            && route.table == RT_TABLE_MAIN
        {
            return true;
        }
        let Some(link) = &self.link else { return false };
        match *event {
            Event::Link { device, up, gone } => device == link.device && !up && !gone,
            Event::AddressGone { device } => device == link.device,
            Event::Route { route, gone } => {
                gone && self.own_prefixes().chain(self.routes.iter().copied()).any(|p| self.route(&p) == Some(route))
            }
            Event::Rule { rule, gone } => gone && self.rules(rule.ipv6).contains(&rule),
        }
    }

    fn schedule(&mut self, now: Instant) {
        let at = self.last_repair.map_or(now, |last| (last + self.pause).max(now));
        self.repair_at.get_or_insert(at);
    }

    /// Says what failed, each kind of failure once.
    fn say(&mut self, what: &'static str, ipv4: bool, result: &io::Result<()>) {
        let Err(error) = result else { return };
        let family = if ipv4 { "IPv4" } else { "IPv6" };
        if self.said.insert((what, ipv4, error.raw_os_error().unwrap_or(0))) {
            log::warn!("{}", without(what, family, error));
        }
    }
}

/// One line that names what is lost without it.
fn without(what: &str, family: &str, error: &io::Error) -> String {
    let lost = match what {
        "add a rule" => "packets from here do not find the mesh",
        "add a route" => "packets from here do not reach that part of the mesh",
        "add an address" => "this node is not reached at that address",
        "add the default route" => "peers are not reached over it yet",
        _ => "it stays until the next start",
    };
    format!("the kernel does not let us {what} ({family}): {}; {lost}", words(error))
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT | libc::ENODEV)) => Ok(()),
        other => other,
    }
}

fn exists_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

const RT_TABLE_MAIN: u32 = 254;
/// Each source prefix costs every packet of the system one more rule to look at.
const SOURCES: u32 = 64;
/// Whoever removes things in several steps sees them all put back within a second of the last one.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_small_kernel_lacks_is_told_in_one_line() {
        let error = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
        for what in ["add a rule", "add a route", "add an address", "delete a rule", "delete a route"] {
            let line = without(what, "IPv6", &error);
            assert!(
                line.len() <= 150 && line.contains(what) && line.contains("Address family not supported"),
                "{line}"
            );
        }
    }
}
