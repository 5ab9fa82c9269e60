//! The loop: timers due → drain outputs → at most one batch from each source → sleep until the next timer or readiness.
//!
//! Outputs are drained before more is read, so that memory is bounded. Everything runs on one thread; the only `.await`s
//! are the sleep and, when there is more to read, a look at what else is ready. Idle, it costs nothing: there is no tick.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use smol::channel::{self, Receiver, Sender};
use smol::stream::Stream as _;
use smol::{LocalExecutor, Timer, future};

use super::clock::Clock;
use super::errors::{Trouble, reason};
use super::link;
use super::reload::{Lookout, Reloader, Source};
use crate::config::plan::Plan;
use crate::node::{Node, Output};
use crate::os::kernel::Kernel;
use crate::os::resolve::Resolver;
use crate::os::routes::Routes;
use crate::os::signals::{Signal, Signals};
use crate::os::tun::{self, Frame, Tun};
use crate::os::udp::{Batch, Udp};
use crate::os::uplink::{Source as Origin, Uplink};
use crate::os::words;
use crate::path::Path;
use crate::plane::coalesce::{self, Coalescer};
use crate::prefix::Prefix;
use crate::status::model::{Answer, Request, State};
use crate::status::server::Server;
use crate::time::Time;

/// What the system has given.
pub(super) struct System {
    pub(super) udp: Udp,
    pub(super) uplink: Uplink,
    /// `None`: relay only, or it has been taken away and is not back yet.
    pub(super) tun: Option<Tun>,
    pub(super) kernel: Option<Kernel>,
    pub(super) resolver: Resolver,
    pub(super) signals: Signals,
}

type Resolved = (String, Result<Vec<IpAddr>, String>);

struct Driver<'a> {
    plan: &'a Plan,
    node: &'a RefCell<Node>,
    clock: Clock,
    system: System,
    /// The kernel's routes, while some are to be announced.
    routes: Option<Routes>,
    executor: &'a LocalExecutor<'static>,
    trouble: Trouble,
    /// Names that are being resolved.
    asking: BTreeSet<String>,
    resolved: Pin<Box<Receiver<Resolved>>>,
    resolver_out: Sender<Resolved>,
    /// What has come since the last round.
    answers: Vec<Resolved>,
    terminated: bool,
    reloader: &'a Reloader<'a>,
    lookout: Lookout,
    /// SIGHUP came.
    hung_up: bool,
    /// A command was served that gave the node something to send.
    commanded: Pin<Box<Receiver<()>>>,
    /// One of them was a reload.
    reloaded: &'a Cell<bool>,
    /// When to try to make the device again, and how long to wait after that.
    reopen: Option<(Instant, Duration)>,
    /// When to try again to follow the kernel's routes.
    follow_again: Option<Instant>,
    timer: Timer,
    batch: Batch,
    packet: Box<[u8]>,
    coalescer: Coalescer,
    /// The kernel takes super-packets, as far as is known.
    merging: bool,
}

/// Runs the node until a signal ends it, then takes leave of the peers and of the system.
pub(super) async fn drive(
    plan: Plan,
    seed: [u8; 32],
    system: System,
    server: Server,
    (files, source): (Vec<PathBuf>, Source),
) {
    let clock = Clock::start();
    let node = RefCell::new(Node::new(plan.clone(), seed, clock.now()));
    let executor = LocalExecutor::new();
    let (resolver_out, resolved) = channel::unbounded();
    let (command_out, commanded) = channel::bounded(1);
    let reloader = Reloader::new(&node, clock, source, files);
    let reloaded = Cell::new(false);
    let mut driver = Driver {
        plan: &plan,
        node: &node,
        clock,
        system,
        routes: None,
        executor: &executor,
        trouble: Trouble::default(),
        asking: BTreeSet::new(),
        resolved: Box::pin(resolved),
        resolver_out,
        answers: Vec::new(),
        terminated: false,
        reloader: &reloader,
        lookout: Lookout::new(reloader.files()),
        hung_up: false,
        commanded: Box::pin(commanded),
        reloaded: &reloaded,
        reopen: None,
        follow_again: None,
        timer: Timer::never(),
        batch: Batch::new(),
        packet: vec![0; PACKET].into(),
        coalescer: Coalescer::default(),
        merging: true,
    };
    // The loop borrows the node only between awaits, so the server always finds it free.
    let serve = server.serve(|request| match request {
        Request::Reload => {
            let (fine, message) = reloader.reload("wattle reload");
            reloaded.set(true);
            // Full means that the loop is about to look anyway.
            let _ = command_out.try_send(());
            Answer::Done { fine, message }
        }
        asked @ (Request::Trace { .. } | Request::TraceResult) => {
            let answer = trace(&mut node.borrow_mut(), clock.now(), asked);
            // Probes wait in the node.
            let _ = command_out.try_send(());
            answer
        }
        Request::Rekey { peer, ike, children } => {
            let done = node.borrow_mut().rekey(clock.now(), &peer, ike, children);
            let _ = command_out.try_send(());
            match done {
                Ok(message) => Answer::Done { fine: true, message },
                Err(message) => Answer::Error { message },
            }
        }
        other @ (Request::Snapshot | Request::Path { .. } | Request::Health) => {
            answer(&node.borrow(), clock.now(), &other)
        }
    });
    future::or(serve, executor.run(driver.run())).await;
}

impl Driver<'_> {
    async fn run(&mut self) {
        self.follow_routes();
        self.drain();
        while !self.terminated {
            self.timers();
            let more = self.read();
            if more {
                // Lets the other tasks run, and the reactor look at what has become ready meanwhile.
                future::yield_now().await;
            }
            let deadline = if more { None } else { self.deadline() };
            poll_fn(|context| self.poll(context, more, deadline)).await;
        }
        self.shut_down();
    }

    fn timers(&mut self) {
        let now = self.clock.now();
        let due = self.node.borrow().poll_timeout().is_some_and(|(at, _)| at <= now);
        if due {
            self.node.borrow_mut().handle_timeout(now);
            self.drain();
        }
        if let Some(kernel) = &mut self.system.kernel {
            kernel.repair(Clock::instant());
        }
        self.read_routes();
        if self.follow_again.take_if(|at| *at <= Clock::instant()).is_some() {
            self.follow_routes();
        }
        if self.reopen.is_some_and(|(at, _)| at <= Clock::instant()) {
            self.reopen_tun();
        }
        if self.system.uplink.take_due(Clock::instant()) {
            self.look_at_sources();
        }
        let hung_up = std::mem::take(&mut self.hung_up);
        if hung_up || self.lookout.take_due() {
            self.reloader.reload(if hung_up { "SIGHUP" } else { "the file has changed" });
            self.after_reload();
        }
    }

    /// Addresses have come or gone.
    fn look_at_sources(&mut self) {
        let paths = self.node.borrow().paths();
        for path in paths {
            let Origin { choice, gone } = self.system.uplink.source(&path);
            self.node.borrow_mut().handle_source(self.clock.now(), path, choice, gone);
        }
        self.drain();
    }

    /// At most one batch from each source; `true` if one of them may have more.
    fn read(&mut self) -> bool {
        let mut socket = 0;
        while socket < self.system.udp.sockets() {
            if self.system.udp.receive(socket, &mut self.batch) {
                self.take_datagrams();
                self.drain();
            }
            socket += 1;
        }
        self.read_tun();
        let answers = std::mem::take(&mut self.answers);
        if !answers.is_empty() {
            let now = self.clock.now();
            for (name, result) in answers {
                self.asking.remove(&name);
                self.node.borrow_mut().handle_resolved(now, &name, result);
            }
            self.drain();
        }
        self.system.udp.is_ready() || self.system.tun.as_ref().is_some_and(Tun::is_ready)
    }

    fn after_reload(&mut self) {
        self.lookout.set(self.reloader.files());
        self.follow_routes();
        self.drain();
    }

    /// Looks at the kernel's routes from now on, if they are to be announced, and not otherwise.
    fn follow_routes(&mut self) {
        (self.routes, self.follow_again) = (None, None);
        if self.node.borrow().followed_tables().next().is_none() {
            return;
        }
        match Routes::open(Clock::instant()) {
            Ok(routes) => self.routes = Some(routes),
            Err(error) => {
                log::warn!("cannot follow the kernel's routes: {}; none of them is announced", words(&error));
                self.node.borrow_mut().handle_kernel_routes(self.clock.now(), Vec::new());
                self.follow_again = Some(Clock::instant() + LONGEST);
            }
        }
    }

    fn read_routes(&mut self) {
        let Some(routes) = &mut self.routes else { return };
        let tables: Vec<u32> = self.node.borrow().followed_tables().collect();
        let own = self.system.tun.as_ref().map(Tun::index);
        if let Some(found) = routes.take_due(Clock::instant(), &tables, own) {
            let found = found.into_iter().map(|route| (route.table, route.prefix)).collect();
            self.node.borrow_mut().handle_kernel_routes(self.clock.now(), found);
            self.drain();
        }
    }

    fn take_datagrams(&mut self) {
        let now = self.clock.now();
        let own = self.system.tun.as_ref().map(Tun::index);
        let mut node = self.node.borrow_mut();
        if self.batch.lost > 0 {
            node.count("socket_overflow", self.batch.lost);
        }
        self.batch.for_each(|arrival, datagram| {
            if own == Some(arrival.interface) {
                // A tunnel in a tunnel: it would move the peer's address into the mesh.
                node.count("underlay_in_mesh", 1);
            } else if arrival.truncated {
                node.count("datagram_cut_off", 1);
            } else {
                node.handle_datagram(now, arrival.path, arrival.tos, datagram);
            }
        });
    }

    fn read_tun(&mut self) {
        let mut count = 0;
        let mut failed = None;
        if let Some(tun) = &mut self.system.tun {
            let now = self.clock.now();
            let mut node = self.node.borrow_mut();
            // A super-packet is a batch by itself: what waits longer than it must only adds to the delay.
            while count < INNER_BATCH && node.egress().octets() < OUTER_BATCH {
                match tun.read(&mut self.packet) {
                    Ok(Some(Frame { header: None, packet })) => node.handle_inner(now, packet),
                    Ok(Some(Frame { header: Some(header), packet })) => node.handle_super(now, header, packet),
                    Ok(None) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
                count += 1;
            }
        }
        if count > 0 {
            self.drain();
        }
        if let Some(error) = failed {
            self.lose_tun(&error);
        }
    }

    /// Hands out everything that the node has for the system.
    fn drain(&mut self) {
        // A node that answered every failure to send with another datagram would keep us here: the rest goes next time.
        for _ in 0..ROUNDS {
            let sent = self.send();
            let mut asked = false;
            loop {
                let Some(output) = self.node.borrow_mut().poll_output() else { break };
                asked = true;
                self.perform(output);
            }
            if !sent && !asked {
                break;
            }
        }
    }

    fn send(&mut self) -> bool {
        let mut node = self.node.borrow_mut();
        let egress = node.egress();
        if egress.trains.is_empty() && egress.inner_ends.is_empty() {
            return false;
        }
        let mut counts: Vec<(&'static str, u32)> = Vec::new();
        let mut failures: Vec<(Path, String)> = Vec::new();
        let mut gone: Vec<Path> = Vec::new();
        for train in &egress.trains {
            let sent = self.system.udp.send(&train.path, train.tos, train.stride, &train.data);
            if sent.full > 0 {
                counts.push(("socket_full", sent.full));
            }
            if sent.source_gone {
                counts.push(("source_address_gone", 1));
                gone.push(train.path);
            }
            let place = train.path.remote.ip();
            match sent.error {
                Some(error) => {
                    self.trouble.note(place, &error);
                    counts.push((reason(&error), sent.failed));
                    failures.push((train.path, words(&error)));
                }
                None => self.trouble.clear(place),
            }
        }
        let lost = match &self.system.tun {
            Some(tun) if tun.offloads() && self.merging => {
                self.coalescer.merge(&mut egress.inner, &egress.inner_ends);
                let mut lost = 0;
                self.coalescer.each(&egress.inner, |header, pieces| match tun.write_pieces(header, pieces) {
                    Ok(()) => {}
                    Err(error) if pieces.len() > 1 && error.raw_os_error() == Some(libc::EINVAL) => {
                        if self.merging {
                            self.merging = false;
                            let level = self.plan.offload.tun.level();
                            log::log!(level, "this kernel takes no merged packets on {}: one by one", tun.name());
                        }
                        lost += write_singly(tun, header, &pieces.concat());
                    }
                    Err(_) => lost += u32::try_from(pieces.len()).unwrap_or(u32::MAX),
                });
                lost
            }
            Some(tun) => count(egress.inner_packets().filter(|packet| tun.write(packet).is_err())),
            None => count(egress.inner_packets()),
        };
        if lost > 0 {
            counts.push(("tun_write_failed", lost));
        }
        egress.clear();
        for (reason, count) in counts {
            node.count(reason, count);
        }
        let now = self.clock.now();
        for (path, error) in failures {
            node.handle_send_error(now, path, &error);
        }
        for path in gone {
            let Origin { choice, gone } = self.system.uplink.source(&path);
            node.handle_source(now, path, choice, gone);
        }
        true
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Resolve { name } => self.resolve(name),
            Output::OpenSocket { socket } => {
                let result = self.system.udp.open(socket, 0).map_err(|error| error.to_string());
                self.node.borrow_mut().handle_socket(self.clock.now(), socket, result);
            }
            Output::CloseSocket { socket } => self.system.udp.close(socket),
            Output::AddRoute { prefix } => self.change_route(prefix, Kernel::add),
            Output::DeleteRoute { prefix } => self.change_route(prefix, Kernel::delete),
        }
    }

    fn change_route(&mut self, prefix: Prefix, change: impl FnOnce(&mut Kernel, Prefix)) {
        if let Some(kernel) = &mut self.system.kernel {
            change(kernel, prefix);
        }
    }

    fn resolve(&mut self, name: String) {
        if !self.asking.insert(name.clone()) {
            return;
        }
        let (resolver, out) = (self.system.resolver.clone(), self.resolver_out.clone());
        let task = async move {
            let result = resolver.resolve(&name).await;
            // It only fails when the loop has ended.
            let _ = out.try_send((name, result));
        };
        self.executor.spawn(task).detach();
    }

    /// The device is of no more use: somebody deleted it or set it down. A new one is made, less and less often if that
    /// does not help.
    fn lose_tun(&mut self, error: &io::Error) {
        let name = self.system.tun.as_ref().map_or("", Tun::name).to_owned();
        log::warn!("{name} has been taken away ({}): making it again", words(error));
        self.system.tun = None;
        if let Some(kernel) = &mut self.system.kernel {
            kernel.detach();
        }
        self.reopen = Some((Clock::instant() + SHORTEST, SHORTEST));
    }

    fn reopen_tun(&mut self) {
        let Some((_, pause)) = self.reopen.take() else { return };
        let Some(name) = self.plan.tun.as_ref().map(|tun| tun.name.as_str()) else { return };
        let problem = match Tun::open(name, self.plan.offload.tun) {
            Ok(tun) => {
                let link = link(self.plan, &tun);
                let attached = match (&mut self.system.kernel, link) {
                    (Some(kernel), Some(link)) => kernel.attach(link),
                    _ => Ok(()),
                };
                match attached {
                    Ok(()) => {
                        log::info!("{name} is back");
                        self.system.tun = Some(tun);
                        return;
                    }
                    Err(error) => words(&error),
                }
            }
            Err(error) => error.to_string(),
        };
        if let Some(kernel) = &mut self.system.kernel {
            kernel.detach();
        }
        let pause = (pause * 2).min(LONGEST);
        log::warn!("{problem}; next try in {} s", pause.as_secs());
        self.reopen = Some((Clock::instant() + pause, pause));
    }

    fn deadline(&self) -> Option<Instant> {
        let node = self.node.borrow().poll_timeout().and_then(|(at, _)| self.clock.at(at));
        let kernel = self.system.kernel.as_ref().and_then(Kernel::deadline);
        let reopen = self.reopen.map(|(at, _)| at);
        let routes = self.routes.as_ref().and_then(Routes::deadline);
        let others = [self.lookout.deadline(), self.system.uplink.deadline()];
        [node, kernel, reopen, self.follow_again, routes].into_iter().chain(others).flatten().min()
    }

    /// Learns what is ready; waits for it, or for the deadline, unless there is more to do anyway.
    fn poll(&mut self, context: &mut Context<'_>, more: bool, deadline: Option<Instant>) -> Poll<()> {
        let mut ready = more | self.system.udp.poll_readable(context);
        if let Some(tun) = &mut self.system.tun {
            ready |= tun.poll_readable(context);
        }
        if let Some(kernel) = &mut self.system.kernel {
            kernel.poll_events(context, Clock::instant());
            // What it has found may be due before the deadline that was worked out earlier.
            ready |= kernel.deadline().is_some_and(|at| deadline.is_none_or(|deadline| at < deadline));
        }
        while let Some(signal) = self.system.signals.poll(context) {
            match signal {
                Signal::Terminate => self.terminated = true,
                Signal::Hangup => self.hung_up = true,
            }
            ready = true;
        }
        ready |= self.lookout.poll(context);
        ready |= self.routes.as_mut().is_some_and(|routes| routes.poll(context, Clock::instant()));
        ready |= self.system.uplink.poll(context, Clock::instant());
        while let Poll::Ready(Some(())) = self.commanded.as_mut().poll_next(context) {
            if self.reloaded.take() {
                self.after_reload();
            } else {
                self.drain();
            }
            ready = true;
        }
        while let Poll::Ready(Some(answer)) = self.resolved.as_mut().poll_next(context) {
            self.answers.push(answer);
            ready = true;
        }
        match deadline {
            Some(deadline) if !ready => {
                self.timer.set_at(deadline);
                pin!(&mut self.timer).poll(context).map(drop)
            }
            _ if ready => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn shut_down(&mut self) {
        log::info!("ending: telling the peers, removing routes");
        self.node.borrow_mut().shut_down(self.clock.now());
        // What a peer or a name would have to answer has no more place here.
        self.send();
        if let Some(kernel) = &mut self.system.kernel {
            kernel.close();
        }
    }
}

/// Writes what a super-packet stands for; returns how many packets were lost.
fn write_singly(tun: &Tun, header: &[u8; tun::HEADER], packet: &[u8]) -> u32 {
    let mut lost = 0;
    coalesce::cut(header, packet, |head, payload| {
        lost += u32::from(tun.write_pieces(&[0; tun::HEADER], &[head, payload]).is_err());
    });
    lost
}

fn count(packets: impl Iterator) -> u32 {
    u32::try_from(packets.count()).unwrap_or(u32::MAX)
}

/// Starts a trace, or says what has come of it so far.
fn trace(node: &mut Node, now: Time, request: Request) -> Answer {
    if let Request::Trace { to, from } = request {
        let (Ok(to), Ok(from)) = (to.parse(), from.as_deref().map(str::parse).transpose()) else {
            return Answer::Error { message: "not an address".to_owned() };
        };
        if let Err(message) = node.start_trace(now, to, from) {
            return Answer::Error { message };
        }
    }
    match node.trace_result(now) {
        Some(report) => Answer::Trace(report),
        None => Answer::Error { message: "another trace has taken the place of this one".to_owned() },
    }
}

fn answer(node: &Node, now: Time, request: &Request) -> Answer {
    match request {
        Request::Health => health(node, now),
        Request::Reload | Request::Rekey { .. } | Request::Trace { .. } | Request::TraceResult => {
            Answer::Error { message: "not by this way".to_owned() }
        }
        Request::Snapshot => Answer::Snapshot(Box::new(node.snapshot(now))),
        Request::Path { to, from } => {
            let source = from.as_deref().map(str::parse).transpose();
            match (to.parse(), source) {
                (Ok(to), Ok(from)) => Answer::Path(node.explain(now, to, from)),
                (Err(_), _) => Answer::Error { message: format!("not an address: {to}") },
                (_, Err(_)) => Answer::Error { message: format!("not an address: {}", from.as_deref().unwrap_or("")) },
            }
        }
    }
}

/// Whoever gets this answer knows that the process lives; a timer that is long overdue means that its loop does not.
fn health(node: &Node, now: Time) -> Answer {
    match node.poll_timeout() {
        Some((at, what)) if now.since(at) > OVERDUE => {
            Answer::Done { fine: false, message: format!("stuck: {what} is {} s late", now.since(at).as_secs()) }
        }
        Some(_) | None => {
            let peers = node.snapshot(now).peers;
            let up = peers.iter().filter(|peer| peer.state == State::Up).count();
            Answer::Done { fine: true, message: format!("alive, {up} of {} peers up", peers.len()) }
        }
    }
}

const OVERDUE: Duration = Duration::from_secs(10);
/// Room for the largest packet that the device can hand over.
const PACKET: usize = 65536 + tun::HEADER;
const INNER_BATCH: usize = 32;
/// Octets that are sealed before they are sent.
const OUTER_BATCH: usize = 60_000;
const ROUNDS: usize = 8;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
