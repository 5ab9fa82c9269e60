//! UDP ports: one [`SocketId`] is one port, with an IPv4 and an IPv6 socket behind it.
//!
//! Our sockets carry the mark, so that rules keep them out of the mesh; they tell which local address and interface a
//! datagram came to, and send from the address they are told. Reading and sending go by batches and never wait: what the
//! socket has no room for is dropped and counted, because an ESP datagram that waits is worth less than the next one.
//! ICMP errors do not reach unconnected sockets; every other error costs its datagram.
//!
//! Trains go out and come in as one piece where the kernel can (`UDP_SEGMENT`, `UDP_GRO`).

mod door;
mod narrow;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;
use std::task::Context;

use smol::Async;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{sys, words};
use crate::offload::{Offload, Switch};
use crate::path::{Path, SocketId};
use narrow::Narrow;

/// All our ports.
pub struct Udp {
    mark: u32,
    offload: Offload,
    sockets: Vec<Half>,
    narrow: Narrow,
    received: Vec<sys::Received>,
    said_no_mark: bool,
    said_no_family: bool,
    said_no_trains: bool,
}

/// What came in by one system call.
pub struct Batch {
    buffer: Box<[u8]>,
    arrivals: Vec<(Arrival, Merged)>,
    /// Datagrams that the socket had no room for before these: we came too late.
    pub lost: u32,
}

/// Where in the buffer an arrival lies, and how long each of its datagrams is.
#[derive(Clone, Debug)]
struct Merged {
    range: Range<usize>,
    segment: usize,
}

/// Where a datagram came from, and how.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub path: Path,
    /// Index of the interface it came in by.
    pub interface: u32,
    /// Traffic class of its outer header.
    pub tos: u8,
    /// The kernel cut something off: the datagram's end, or what tells merged ones apart.
    pub truncated: bool,
}

/// What became of datagrams that were to be sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// Dropped because the socket's buffer was full.
    pub full: u32,
    /// The system refused these.
    pub failed: u32,
    /// Why, for the first of them.
    pub error: Option<io::Error>,
    /// The local address has gone; the kernel chose another.
    pub source_gone: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("UDP port {0} is taken by another program (to see which: ss -ulpn 'sport = :{0}')")]
    Taken(u16),
    #[error("UDP port {0} needs root or CAP_NET_BIND_SERVICE")]
    NotPermitted(u16),
    #[error("cannot open UDP port {port}: {}", words(error))]
    Other { port: u16, error: io::Error },
}

/// One family of one port, or its door.
struct Half {
    id: SocketId,
    ipv6: bool,
    io: Async<UdpSocket>,
    /// Octets of room for what has come in, as it was asked for.
    room: i32,
    /// There may be something to read.
    ready: bool,
    /// Datagrams lost so far because the socket was full, modulo 2³².
    overflow: u32,
    /// Trains may go out in one piece.
    gso: bool,
    /// Trains come in as one piece.
    gro: bool,
}

impl Udp {
    /// `mark` goes onto every socket (`SO_MARK`).
    pub fn new(mark: u32, offload: Offload) -> Udp {
        Udp {
            mark,
            offload,
            sockets: Vec::new(),
            narrow: Narrow::default(),
            received: Vec::new(),
            said_no_mark: false,
            said_no_family: false,
            said_no_trains: false,
        }
    }

    /// Opens a port under `id`, for both families where the kernel has both; 0 lets the kernel choose. Returns the port.
    ///
    /// # Errors
    /// When the port is taken in either family, or neither family can be opened.
    pub fn open(&mut self, id: SocketId, port: u16) -> Result<u16, OpenError> {
        // The kernel's choice for one family may be taken in the other.
        let tries = if port == 0 { 16 } else { 1 };
        let mut last = OpenError::Taken(port);
        for _ in 0..tries {
            match self.open_both(id, port) {
                Ok(port) => return Ok(port),
                Err(error @ OpenError::Taken(_)) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    pub fn close(&mut self, id: SocketId) {
        self.sockets.retain(|half| half.id != id);
    }

    /// Whether trains go out, and come in, as one piece.
    pub fn trains(&self) -> (bool, bool) {
        (self.sockets.iter().all(|half| half.gso), self.sockets.iter().all(|half| half.gro))
    }

    /// The least room for datagrams that have come in and wait, of all sockets, if it is less than asked for: in octets, as the
    /// kernel counts them.
    pub fn short_buffer(&self) -> Option<usize> {
        // The kernel doubles what it is asked for.
        let short = self.sockets.iter().filter_map(|half| {
            let size = SockRef::from(half.io.get_ref()).recv_buffer_size().ok()?;
            (size < 2 * usize::try_from(half.room).unwrap_or(0)).then_some(size)
        });
        short.min()
    }

    /// How many sockets there are: the range of [`Udp::receive`].
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Learns which sockets have something to read; `true` if any has.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> bool {
        for half in &mut self.sockets {
            half.ready = half.ready || half.io.poll_readable(context).is_ready();
        }
        self.is_ready()
    }

    /// Whether a socket may have more to read, as far as is known.
    pub fn is_ready(&self) -> bool {
        self.sockets.iter().any(|half| half.ready)
    }

    /// One batch from the nth socket; `false` if there was nothing.
    pub fn receive(&mut self, nth: usize, batch: &mut Batch) -> bool {
        batch.arrivals.clear();
        batch.lost = 0;
        let Some(half) = self.sockets.get_mut(nth).filter(|half| half.ready) else { return false };
        self.received.clear();
        if let Err(error) = sys::receive(half.io.as_fd(), &mut batch.buffer, &mut self.received) {
            // Whatever it is, the next event on the socket tells whether there is more.
            half.ready = false;
            if error.kind() != io::ErrorKind::WouldBlock {
                log::debug!("reading a UDP socket: {error}");
            }
            return false;
        }
        // A call that was not filled has emptied the socket.
        half.ready = self.received.len() == sys::MESSAGES;
        if let Some(overflow) = self.received.iter().rev().find_map(|received| received.control.overflow) {
            batch.lost = overflow.wrapping_sub(std::mem::replace(&mut half.overflow, overflow));
        }
        let id = half.id;
        batch.arrivals.extend(self.received.iter().map(|received| {
            let start = received.slot * sys::MESSAGE;
            let segment = if received.control.segment > 0 { received.control.segment } else { received.length };
            let arrival = Arrival {
                path: Path { socket: id, local: received.control.local, remote: received.remote },
                interface: received.control.interface,
                tos: received.control.tos,
                truncated: received.truncated,
            };
            (arrival, Merged { range: start..start + received.length, segment })
        }));
        !batch.arrivals.is_empty()
    }

    /// Sends the chunks of `data`, `stride` octets each. Never waits.
    pub fn send(&mut self, path: &Path, tos: u8, stride: usize, data: &[u8]) -> Sent {
        let mut sent = Sent::default();
        let stride = stride.max(1);
        let Some(half) =
            self.sockets.iter_mut().find(|half| half.id == path.socket && half.ipv6 == path.remote.is_ipv6())
        else {
            sent.failed = count(data.len().div_ceil(stride));
            sent.error = Some(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
            return sent;
        };
        let socket = half.io.as_fd();
        let mut local = path.local;
        let mut rest = data;
        // A single datagram goes without: some drivers break on trains of one.
        let mut train = u16::try_from(stride).ok().filter(|_| data.len() > stride && half.gso);
        train = train.filter(|_| self.narrow.lets_pass(path.remote));
        let mut refused = None;
        while !rest.is_empty() {
            let result = match train {
                Some(stride) => sys::send_train(socket, path.remote, local, tos, rest, stride).map(|()| usize::MAX),
                None => sys::send(socket, path.remote, local, tos, rest, stride),
            };
            match result {
                Ok(done) => {
                    sent.source_gone = local != path.local;
                    rest = rest.get(done.max(1).saturating_mul(stride)..).unwrap_or(&[]);
                    if train.is_some() {
                        self.narrow.forget(path.remote);
                    }
                    // Only now it is certain that nothing but the train was the trouble.
                    if let Some(error) = refused.take() {
                        self.narrow.note(path.remote);
                        half.gso &= !is_no_offload(&error);
                        if !half.gso && !self.said_no_trains {
                            self.said_no_trains = true;
                            let level = self.offload.udp_gso.level();
                            log::log!(
                                level,
                                "the network device takes no UDP trains ({}): singly from now on",
                                words(&error)
                            );
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if train.is_some() && is_no_train(&error) => {
                    refused = Some(error);
                    train = None;
                }
                Err(error) if is_full(&error) => {
                    sent.full = count(rest.len().div_ceil(stride));
                    break;
                }
                // The address that the peer knows us by is no longer ours: any other one lets it learn the new one.
                Err(error) if local.is_some() && is_source(&error) => local = None,
                // Nobody can say how many of a train it was about: they are tried one by one.
                Err(_) if train.is_some() => train = None,
                Err(error) => {
                    sent.failed += 1;
                    sent.error.get_or_insert(error);
                    rest = rest.get(stride..).unwrap_or(&[]);
                }
            }
        }
        sent
    }

    fn open_both(&mut self, id: SocketId, port: u16) -> Result<u16, OpenError> {
        let listening = port != 0;
        let v4 = match self.open_half(port, false) {
            Err(error) if is_no_family(&error) => None,
            other => Some(other.map_err(|error| explain(port, error))?),
        };
        let port = match &v4 {
            Some(socket) => socket.get_ref().local_addr().map_err(|error| explain(port, error))?.port(),
            None => port,
        };
        let v6 = match self.open_half(port, true) {
            Err(error) if is_no_family(&error) && v4.is_some() => None,
            other => Some(other.map_err(|error| explain(port, error))?),
        };
        let port = match &v6 {
            Some(socket) => socket.get_ref().local_addr().map_err(|error| explain(port, error))?.port(),
            None => port,
        };
        if (v4.is_none() || v6.is_none()) && !self.said_no_family {
            self.said_no_family = true;
            let missing = if v6.is_none() { "IPv6" } else { "IPv4" };
            log::warn!("this system has no {missing}: peers are reached over the other family only");
        }
        for (io, ipv6) in [(v4, false), (v6, true)] {
            let Some(io) = io else { continue };
            // Strangers only know the ports of the configuration. What is sent goes by the first socket of a port.
            let door = if listening { self.open_door(&io, port, ipv6) } else { None };
            self.put(id, ipv6, io, BUFFER);
            door.into_iter().for_each(|door| self.put(id, ipv6, door, door::BUFFER));
        }
        Ok(port)
    }

    fn put(&mut self, id: SocketId, ipv6: bool, io: Async<UdpSocket>, room: i32) {
        let gso = prepare(&io, self.offload.udp_gso, libc::UDP_SEGMENT, 0);
        let gro = prepare(&io, self.offload.udp_gro, libc::UDP_GRO, 1);
        // A new socket may hold datagrams already, and the first read tells.
        self.sockets.push(Half { id, ipv6, io, room, ready: true, overflow: 0, gso, gro });
    }

    fn open_half(&mut self, port: u16, ipv6: bool) -> io::Result<Async<UdpSocket>> {
        let socket = self.socket(ipv6, BUFFER)?;
        socket.bind(&any(port, ipv6).into())?;
        Async::new(socket.into())
    }

    /// Without it everything still works: then strangers and peers share a queue.
    fn open_door(&mut self, main: &Async<UdpSocket>, port: u16, ipv6: bool) -> Option<Async<UdpSocket>> {
        let socket = self.socket(ipv6, door::BUFFER);
        let door = socket.and_then(|socket| door::open(main.as_fd(), socket, any(port, ipv6)));
        door.inspect_err(|error| log::debug!("no queue of their own for strangers: {}", words(error))).ok()
    }

    /// Not bound yet.
    fn socket(&mut self, ipv6: bool, buffer: i32) -> io::Result<Socket> {
        let socket = marked_socket(ipv6, self.mark, &mut self.said_no_mark)?;
        let option = |level, name, value| {
            if let Err(error) = sys::set_option(socket.as_fd(), level, name, value) {
                log::debug!("socket option {level}/{name}: {error}");
            }
        };
        // WANT sets "don't fragment" and lets the kernel fragment what is longer than the path MTU it has learned: a
        // path of less than 1500 octets carries everything from the start.
        if ipv6 {
            socket.set_only_v6(true)?;
            option(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1);
            option(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
            option(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_WANT);
        } else {
            option(libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
            option(libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
            option(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT);
        }
        option(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        // The forced variants go beyond the administrator's limit but need more rights than a container may have.
        let fd = socket.as_fd();
        if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer).is_err() {
            option(libc::SOL_SOCKET, libc::SO_RCVBUF, buffer);
        }
        if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER).is_err() {
            option(libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER);
        }
        Ok(socket)
    }
}

fn any(port: u16, ipv6: bool) -> SocketAddr {
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, port)
}

impl Batch {
    pub fn new() -> Batch {
        // Nearly all of it stays untouched, and so takes no memory, until trains come in.
        Batch {
            buffer: vec![0; sys::MESSAGE * sys::MESSAGES].into(),
            arrivals: Vec::with_capacity(sys::MESSAGES),
            lost: 0,
        }
    }

    /// The datagrams in the order in which they came.
    pub fn for_each(&mut self, mut f: impl FnMut(&Arrival, &mut [u8])) {
        for (arrival, merged) in &self.arrivals {
            let message = self.buffer.get_mut(merged.range.clone()).unwrap_or_default();
            if message.is_empty() || arrival.truncated {
                f(arrival, message);
                continue;
            }
            for datagram in message.chunks_mut(merged.segment.max(1)) {
                f(arrival, datagram);
            }
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

/// A UDP socket that rules keep out of the mesh. Without the right to mark it (said once) it is an ordinary one.
pub(super) fn marked_socket(ipv6: bool, mark: u32, said: &mut bool) -> io::Result<Socket> {
    let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if let Err(error) = socket.set_mark(mark)
        && !*said
    {
        *said = true;
        log::warn!(
            "cannot mark our UDP sockets ({}): a mesh route that covers a peer's address would cut it off",
            words(&error)
        );
    }
    Ok(socket)
}

fn explain(port: u16, error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => OpenError::Taken(port),
        Some(libc::EACCES | libc::EPERM) => OpenError::NotPermitted(port),
        _ => OpenError::Other { port, error },
    }
}

fn is_no_family(error: &io::Error) -> bool {
    // Without the module: the first. With IPv6 switched off by sysctl: the second, when binding.
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// Asks whether the kernel has a UDP option, and sets it to `value`. An older one would ignore it in a datagram's ancillary
/// data, and send a train as one huge datagram.
fn prepare(socket: &Async<UdpSocket>, switch: Switch, option: i32, value: i32) -> bool {
    switch.is_wanted() && sys::set_option(socket.as_fd(), libc::SOL_UDP, option, value).is_ok()
}

/// The device cannot do it, whoever the peer is: the egress device has no checksum offload.
fn is_no_offload(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}

/// Why a train may be refused though its datagrams would pass.
fn is_no_train(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

fn is_source(error: &io::Error) -> bool {
    // IPv4 answers "unreachable" to a foreign source, IPv6 "invalid".
    let errno = error.raw_os_error();
    matches!(errno, Some(libc::EINVAL | libc::EADDRNOTAVAIL | libc::ENODEV | libc::ENETUNREACH | libc::EHOSTUNREACH))
}

fn count(datagrams: usize) -> u32 {
    u32::try_from(datagrams).unwrap_or(u32::MAX)
}

/// Socket buffers, in octets before the kernel doubles it: enough for some ten milliseconds at 1 Gbit/s, and not so
/// much that a slow router builds up a queue of hundreds of milliseconds.
const BUFFER: i32 = 1 << 20;
