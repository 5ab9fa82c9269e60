//! Netlink sockets: one that asks the kernel, one that listens to it.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::task::Context;

use smol::Async;
use socket2::{Domain, Protocol, Type};

use super::super::sys;
use super::message::{self, Event, Request};

/// Requests that are answered at once.
pub struct Socket {
    socket: socket2::Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// News from the kernel.
pub struct Listener {
    io: Async<socket2::Socket>,
    buffer: Vec<u8>,
}

impl Socket {
    /// # Errors
    /// When the system has no descriptor left, or no netlink.
    pub fn open() -> io::Result<Socket> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket = socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        // The kernel answers within the call that asks; the limit is for the day when it does not.
        socket.set_read_timeout(Some(std::time::Duration::from_secs(2)))?;
        // Kernels from 4.20 on filter dumps themselves then; older ones give everything, which is filtered again.
        let _ = sys::set_option(socket.as_fd(), libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
        Ok(Socket { socket, sequence: 0, buffer: vec![0; 1 << 16] })
    }

    /// Asks for a change and waits for the kernel's verdict.
    ///
    /// # Errors
    /// The kernel's.
    pub fn request(&mut self, request: Request) -> io::Result<()> {
        self.exchange(request, |_| {})
    }

    /// Asks for a list; of the entries those are kept that are ours.
    ///
    /// # Errors
    /// The kernel's. A family or table that does not exist is an empty list.
    pub fn dump(&mut self, request: Request) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        match self.exchange(request, |event| events.push(event)) {
            Err(error)
                if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) =>
            {
                Err(error)
            }
            _ => Ok(events),
        }
    }

    fn exchange(&mut self, request: Request, mut f: impl FnMut(Event)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let dump = request.is_dump();
        self.socket.send(&request.finish(self.sequence))?;
        loop {
            let length = match (&self.socket).read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            for message in message::messages(self.buffer.get(..length).unwrap_or(&[])) {
                // The rest of an answer that we gave up on earlier
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    message::NLMSG_ERROR => {
                        return match message::read_error(message.payload) {
                            Some(0) => Ok(()),
                            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                            None => Err(io::ErrorKind::InvalidData.into()),
                        };
                    }
                    message::NLMSG_DONE => return Ok(()),
                    kind if dump => {
                        if let Some(event) = message::decode(kind, message.payload) {
                            f(event);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Listener {
    /// For news of links, addresses, rules and routes of ours. Other people's routes do not even wake us: a router
    /// with a full table changes thousands of them a minute.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn open() -> io::Result<Listener> {
        // struct rtmsg at 16 with rtm_protocol at offset 5
        let program = [
            load(KIND),
            equal(u32::from(message::RTM_NEWROUTE), 4, 0),
            equal(u32::from(message::RTM_DELROUTE), 0, 2),
            load(21),
            equal(u32::from(message::PROTOCOL), 0, 1),
            give(u32::MAX),
            give(0),
        ];
        Listener::of(&GROUPS, &program)
    }

    /// For news of addresses, and of default routes in the main table.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn of_addresses() -> io::Result<Listener> {
        // struct rtmsg at 16: family u8, rtm_dst_len u8, rtm_src_len u8, tos u8, rtm_table u8
        let program = [
            load(KIND),
            equal(u32::from(message::RTM_NEWROUTE), 1, 0),
            equal(u32::from(message::RTM_DELROUTE), 0, 4),
            load(17),
            equal(0, 0, 3),
            load(20),
            equal(u32::from(libc::RT_TABLE_MAIN), 0, 1),
            give(u32::MAX),
            give(0),
        ];
        Listener::of(&ADDRESS_GROUPS, &program)
    }

    fn of(groups: &[i32], program: &[libc::sock_filter]) -> io::Result<Listener> {
        let socket = Socket::open()?.socket;
        if let Err(error) = sys::attach(socket.as_fd(), libc::SO_ATTACH_FILTER, program) {
            log::debug!("no filter for route changes: {error}");
        }
        sys::bind_netlink(socket.as_fd())?;
        for &group in groups {
            // A kernel without IPv6 lacks some of them.
            if let Err(error) = sys::set_option(socket.as_fd(), libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
            {
                log::debug!("netlink group {group}: {error}");
            }
        }
        Ok(Listener { io: Async::new(socket)?, buffer: vec![0; 1 << 16] })
    }

    /// Learns whether there are news.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> bool {
        self.io.poll_readable(context).is_ready()
    }

    /// Reads news, one batch; `Ok(false)` when there is none.
    ///
    /// # Errors
    /// `ENOBUFS` when news were lost.
    pub fn read(&mut self, mut f: impl FnMut(Event)) -> io::Result<bool> {
        let length = match self.io.get_ref().read(&mut self.buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for message in message::messages(self.buffer.get(..length).unwrap_or(&[])) {
            if let Some(event) = message::decode(message.kind, message.payload) {
                f(event);
            }
        }
        Ok(true)
    }
}

fn load(at: u32) -> libc::sock_filter {
    sys::bpf(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at, 0, 0)
}

fn equal(value: u32, yes: u8, no: u8) -> libc::sock_filter {
    sys::bpf(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, yes, no)
}

fn give(octets: u32) -> libc::sock_filter {
    sys::bpf(libc::BPF_RET | libc::BPF_K, octets, 0, 0)
}

/// Where the low octet of the type stands in struct nlmsghdr: length u32, type u16, …
const KIND: u32 = if cfg!(target_endian = "little") { 4 } else { 5 };
const NETLINK_GET_STRICT_CHK: i32 = 12;
/// RTNLGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR, IPV6_ROUTE, IPV6_RULE.
const GROUPS: [i32; 7] = [1, 5, 7, 8, 9, 11, 19];
/// RTNLGRP_IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE.
const ADDRESS_GROUPS: [i32; 4] = [5, 7, 9, 11];
