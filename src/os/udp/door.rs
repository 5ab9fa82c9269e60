//! The door: strangers' first messages have a socket of their own on the same port, and so a queue of their own. A flood of
//! them that outruns us fills only that one; what peers send has its place in the other (`SO_REUSEPORT` with a program that
//! tells them apart, Linux 4.5).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use libc::{BPF_ABS, BPF_B, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
use smol::Async;
use socket2::Socket;

use crate::os::sys;

/// Some hundred first messages: a stranger who finds it full tries again.
pub(super) const BUFFER: i32 = 1 << 18;

/// Makes `door` the second socket of the port to which `main` is bound.
pub(super) fn open(main: BorrowedFd<'_>, door: Socket, address: SocketAddr) -> io::Result<Async<UdpSocket>> {
    // Only now, so that a port that another program has, another wattle too, is refused and not shared.
    sys::set_option(main, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    door.set_reuse_port(true)?;
    door.bind(&address.into())?;
    let load = |size, at| sys::bpf(BPF_LD | size | BPF_ABS, at, 0, 0);
    let test = |how, value, yes, no| sys::bpf(BPF_JMP | how | BPF_K, value, yes, no);
    let socket = |index| sys::bpf(BPF_RET | BPF_K, index, 0, 0);
    // It sees the datagram; what is shorter than it looks for goes to the first socket.
    let program = [
        load(BPF_W, 0),
        test(BPF_JEQ, NO_SPI, 8, 0),
        // Between ports one of which is 500 there is no marker. ESP that looks like this is one packet in a great many.
        load(BPF_W, RESPONDER),
        test(BPF_JEQ, NO_SPI, 0, 11),
        load(BPF_W, RESPONDER + 4),
        test(BPF_JEQ, NO_SPI, 0, 9),
        load(BPF_B, EXCHANGE),
        test(BPF_JEQ, IKE_SA_INIT, 0, 7),
        load(BPF_B, FLAGS),
        test(BPF_JSET, RESPONSE, 5, 4),
        load(BPF_B, MARKER + EXCHANGE),
        test(BPF_JEQ, IKE_SA_INIT, 0, 3),
        load(BPF_B, MARKER + FLAGS),
        test(BPF_JSET, RESPONSE, 1, 0),
        socket(1),
        socket(0),
    ];
    sys::attach(door.as_fd(), libc::SO_ATTACH_REUSEPORT_CBPF, &program)?;
    Async::new(door.into())
}

/// Octets of the non-ESP marker (RFC 3948 §2.2), and places in the IKE header behind it (RFC 7296 §3.1).
const MARKER: u32 = 4;
const NO_SPI: u32 = 0;
const RESPONDER: u32 = 8;
const EXCHANGE: u32 = 18;
const IKE_SA_INIT: u32 = 34;
const FLAGS: u32 = 19;
const RESPONSE: u32 = 0x20;
