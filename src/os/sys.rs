//! System calls that have no safe form elsewhere. Structures are built and read as octets, so that only the calls are unsafe.
//!
//! Layouts are Linux's (`struct cmsghdr` starts with a `size_t`, socket addresses are as in `<linux/in.h>`, `<linux/in6.h>`).

#![expect(unsafe_code, reason = "system calls without a safe form; each says why it is sound")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Datagrams that go out in one system call.
const BATCH: usize = 32;
/// Messages that come in by one system call, with [`MESSAGE`] octets of room each.
pub(super) const MESSAGES: usize = 8;
/// As much as a message can hold: with `UDP_GRO`, any smaller buffer loses datagrams without a word.
pub(super) const MESSAGE: usize = 1 << 16;
/// Room for the ancillary data that `udp` asks for (packet information, traffic class, segment size, overflow).
const CONTROL: usize = 128;
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
/// `struct sockaddr_in6`, which also holds a `struct sockaddr_in`.
const NAME: usize = 28;

/// Sets an option whose value is an `int`.
pub(super) fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length(size_of::<i32>()))
    };
    check(result).map(drop)
}

/// Attaches a classic BPF program; `option` says what for.
pub(super) fn attach(socket: BorrowedFd<'_>, option: i32, program: &[libc::sock_filter]) -> io::Result<()> {
    // The kernel only reads the program; its structure has no const pointer.
    let program = libc::sock_fprog { len: length(program.len()), filter: program.as_ptr().cast_mut() };
    // SAFETY: the pointer and the length describe `program`, whose own pointer and length come from a live slice.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            length(size_of::<libc::sock_fprog>()),
        )
    };
    check(result).map(drop)
}

/// One instruction of classic BPF.
pub(super) fn bpf(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k }
}

/// Gives a netlink socket an address of the kernel's choice: one without gets no news.
pub(super) fn bind_netlink(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all-zero octets are a valid `sockaddr_nl` (integers).
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or(0);
    // SAFETY: the pointer and the length describe `address`, which outlives the call.
    let result =
        unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length(size_of::<libc::sockaddr_nl>())) };
    check(result).map(drop)
}

/// One datagram that has arrived, or several from one sender that the kernel has merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Which [`MESSAGE`] octets of the buffer it begins.
    pub(super) slot: usize,
    pub(super) length: usize,
    /// Something of it, or of what came beside it, did not fit.
    pub(super) truncated: bool,
    pub(super) remote: SocketAddr,
    pub(super) control: Control,
}

/// What came beside the datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) local: Option<IpAddr>,
    pub(super) interface: u32,
    pub(super) tos: u8,
    /// Octets of each merged datagram but the last, which may be shorter; zero if there is just one.
    pub(super) segment: usize,
    /// How many datagrams the socket had no room for since it was opened, if any.
    pub(super) overflow: Option<u32>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Octets<const N: usize>([u8; N]);

/// Takes what is there from a non-blocking socket, at most [`MESSAGES`], the nth into the nth [`MESSAGE`] octets of `buffer`.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], out: &mut Vec<Received>) -> io::Result<()> {
    let mut names = [Octets([0; NAME]); MESSAGES];
    let mut controls = [Octets([0; CONTROL]); MESSAGES];
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES];
    // SAFETY: all-zero octets are a valid `mmsghdr` (integers and null pointers).
    let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
    let mut slots = 0;
    let parts = headers.iter_mut().zip(&mut vectors).zip(names.iter_mut().zip(&mut controls));
    for (((header, vector), (name, control)), chunk) in parts.zip(buffer.chunks_exact_mut(MESSAGE)) {
        *vector = libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() };
        header.msg_hdr.msg_name = name.0.as_mut_ptr().cast();
        header.msg_hdr.msg_namelen = length(NAME);
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = length(CONTROL);
        slots += 1;
    }
    // SAFETY: the first `slots` headers point to live, distinct buffers of the lengths given; no timeout is passed.
    let result = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), slots, 0, std::ptr::null_mut()) };
    let count = usize::try_from(check(result)?).unwrap_or(0);
    for (slot, (header, (name, control))) in headers.iter().zip(names.iter().zip(&controls)).take(count).enumerate() {
        let used = number(header.msg_hdr.msg_controllen).min(CONTROL);
        out.push(Received {
            slot,
            length: number(header.msg_len).min(MESSAGE),
            truncated: header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
            // Only the two families that we open can be there.
            remote: parse_name(&name.0).unwrap_or(NOWHERE),
            control: parse_control(&control.0[..used]),
        });
    }
    Ok(())
}

/// Sends datagrams (the chunks of `data`, at most [`BATCH`]) to one place. Returns how many went out before the first
/// that did not; the error is that of the first one.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    remote: SocketAddr,
    local: Option<IpAddr>,
    tos: u8,
    data: &[u8],
    stride: usize,
) -> io::Result<usize> {
    let (name, name_length) = build_name(remote);
    let (control, control_length) = build_control(remote, local, tos, None);
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: all-zero octets are a valid `mmsghdr` (integers and null pointers).
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let mut slots = 0;
    for ((header, vector), chunk) in headers.iter_mut().zip(&mut vectors).zip(data.chunks(stride.max(1))) {
        *vector = libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() };
        header.msg_hdr.msg_name = name.0.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = length(name_length);
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = control.0.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_controllen = length(control_length);
        slots += 1;
    }
    // SAFETY: the first `slots` headers point to live buffers of the lengths given; sending only reads them.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), slots, 0) };
    Ok(usize::try_from(check(result)?).unwrap_or(0))
}

/// Sends a train in one piece; the kernel cuts it into datagrams of `stride` octets (`UDP_SEGMENT`). All of it or nothing.
pub(super) fn send_train(
    socket: BorrowedFd<'_>,
    remote: SocketAddr,
    local: Option<IpAddr>,
    tos: u8,
    data: &[u8],
    stride: u16,
) -> io::Result<()> {
    let (name, name_length) = build_name(remote);
    let (control, control_length) = build_control(remote, local, tos, Some(stride));
    let mut vector = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: all-zero octets are a valid `msghdr` (integers and null pointers).
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.0.as_ptr().cast_mut().cast();
    header.msg_namelen = length(name_length);
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_ptr().cast_mut().cast();
    header.msg_controllen = length(control_length);
    // SAFETY: the header points to live buffers of the lengths given; sending only reads them.
    let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Blocks the signals and gives a non-blocking descriptor that reads them (one `struct signalfd_siginfo` each).
pub(super) fn signal_descriptor(signals: &[i32]) -> io::Result<File> {
    // SAFETY: all-zero octets are a valid `sigset_t`, and `sigemptyset` makes it the empty set of this system.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live `sigset_t`.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: `set` is an initialised `sigset_t`.
        check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    // SAFETY: `set` is initialised; the old mask is not asked for.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: `set` is initialised, and -1 asks for a new descriptor.
    let descriptor = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A descriptor that tells of changed files.
pub(super) fn inotify() -> io::Result<File> {
    // SAFETY: no pointers are passed.
    let descriptor = check(unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) })?;
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Watches a path; the same one again gives the same number.
pub(super) fn inotify_add(inotify: &File, path: &Path, mask: u32) -> io::Result<i32> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a live string that ends in a zero octet.
    check(unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), path.as_ptr(), mask) })
}

/// Takes leave of the children that have ended: as process 1 we inherit those of others.
pub(super) fn reap() {
    // SAFETY: -1 stands for any child, and no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// A descriptor of our own for the same open file.
///
/// # Errors
/// When `descriptor` is not open, or no more descriptors are to be had.
pub(super) fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the kernel checks the number; what it returns is new and has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0))?)) }
}

/// Moves the calling thread into a network namespace.
pub(super) fn enter_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: only the network namespace of this thread changes; no memory is involved.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Tells a TUN device what its reader takes; `false` if the kernel cannot do all of it.
pub(super) fn set_tun_offload(device: BorrowedFd<'_>, features: u32) -> bool {
    // SAFETY: this request takes one integer and no pointer.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(features)) };
    result == 0
}

/// Asks for a signal to this process when its parent ends.
pub(super) fn signal_on_parent_exit(signal: i32) -> io::Result<()> {
    let value = libc::c_ulong::from(signal.unsigned_abs());
    // SAFETY: this option takes one integer and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, value) }).map(drop)
}

/// Octets in a page of memory.
pub(super) fn page_size() -> Option<usize> {
    // SAFETY: no pointers are passed.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A length in the type that this C library gives the field; all lengths here are small.
fn length<T: TryFrom<usize> + Default>(value: usize) -> T {
    T::try_from(value).unwrap_or_default()
}

/// The other way round.
fn number<T: TryInto<usize>>(value: T) -> usize {
    value.try_into().unwrap_or(0)
}

fn parse_name(name: &[u8; NAME]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(array(name, 0)?));
    let port = u16::from_be_bytes(array(name, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(array::<4>(name, 4)?), port).into()),
        libc::AF_INET6 => {
            let address = Ipv6Addr::from(array::<16>(name, 8)?);
            // A scope only means something for link-local addresses; elsewhere it would make equal paths differ.
            let scope = if address.is_unicast_link_local() { u32::from_ne_bytes(array(name, 24)?) } else { 0 };
            Some(SocketAddrV6::new(address, port, 0, scope).into())
        }
        _ => None,
    }
}

fn build_name(address: SocketAddr) -> (Octets<NAME>, usize) {
    let mut name = [0; NAME];
    name[2..4].copy_from_slice(&address.port().to_be_bytes());
    let (family, used) = match address {
        SocketAddr::V4(v4) => {
            name[4..8].copy_from_slice(&v4.ip().octets());
            (libc::AF_INET, 16)
        }
        SocketAddr::V6(v6) => {
            name[8..24].copy_from_slice(&v6.ip().octets());
            name[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            (libc::AF_INET6, NAME)
        }
    };
    name[..2].copy_from_slice(&u16::try_from(family).unwrap_or(0).to_ne_bytes());
    (Octets(name), used)
}

fn parse_control(mut rest: &[u8]) -> Control {
    let mut control = Control::default();
    while let Some((level, kind, data, after)) = split_message(rest) {
        match (level, kind) {
            // struct in_pktinfo: interface, the local address, the address in the header (which may be a broadcast)
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                control.interface = array(data, 0).map_or(0, u32::from_ne_bytes);
                control.local = array::<4>(data, 4).map(|octets| Ipv4Addr::from(octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                control.local = array::<16>(data, 0).map(|octets| Ipv6Addr::from(octets).into());
                control.interface = array(data, 16).map_or(0, u32::from_ne_bytes);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let segment = array(data, 0).map_or(0, i32::from_ne_bytes);
                control.segment = usize::try_from(segment).unwrap_or(0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => control.overflow = array(data, 0).map(u32::from_ne_bytes),
            (libc::IPPROTO_IP, libc::IP_TOS) => control.tos = data.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = array(data, 0).map_or(0, i32::from_ne_bytes);
                control.tos = u8::try_from(class & 0xff).unwrap_or(0);
            }
            _ => {}
        }
        rest = after;
    }
    control
}

/// One `struct cmsghdr` with its data, and what follows it.
fn split_message(buffer: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    const WORD: usize = size_of::<usize>();
    let total = usize::from_ne_bytes(array(buffer, 0)?);
    let level = i32::from_ne_bytes(array(buffer, WORD)?);
    let kind = i32::from_ne_bytes(array(buffer, WORD + 4)?);
    let data = buffer.get(WORD + 8..total)?;
    Some((level, kind, data, buffer.get(total.next_multiple_of(WORD)..).unwrap_or(&[])))
}

fn build_control(remote: SocketAddr, local: Option<IpAddr>, tos: u8, segment: Option<u16>) -> (Octets<CONTROL>, usize) {
    let mut control = Octets([0; CONTROL]);
    // An unspecified source in the packet information means that the kernel chooses.
    let mut used = match remote {
        SocketAddr::V4(_) => {
            let source = if let Some(IpAddr::V4(source)) = local { source } else { Ipv4Addr::UNSPECIFIED };
            let mut information = [0; 12];
            information[4..8].copy_from_slice(&source.octets());
            let used = put_message(&mut control.0, 0, (libc::IPPROTO_IP, libc::IP_PKTINFO), &information);
            put_message(&mut control.0, used, (libc::IPPROTO_IP, libc::IP_TOS), &[tos])
        }
        SocketAddr::V6(v6) => {
            let source = if let Some(IpAddr::V6(source)) = local { source } else { Ipv6Addr::UNSPECIFIED };
            let mut information = [0; 20];
            information[..16].copy_from_slice(&source.octets());
            if source.is_unicast_link_local() {
                information[16..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
            let used = put_message(&mut control.0, 0, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &information);
            let class = i32::from(tos).to_ne_bytes();
            put_message(&mut control.0, used, (libc::IPPROTO_IPV6, libc::IPV6_TCLASS), &class)
        }
    };
    if let Some(segment) = segment {
        used = put_message(&mut control.0, used, (libc::SOL_UDP, libc::UDP_SEGMENT), &segment.to_ne_bytes());
    }
    (control, used)
}

fn put_message(buffer: &mut [u8; CONTROL], at: usize, (level, kind): (i32, i32), data: &[u8]) -> usize {
    const WORD: usize = size_of::<usize>();
    let total = WORD + 8 + data.len();
    buffer[at..at + WORD].copy_from_slice(&total.to_ne_bytes());
    buffer[at + WORD..at + WORD + 4].copy_from_slice(&level.to_ne_bytes());
    buffer[at + WORD + 4..at + WORD + 8].copy_from_slice(&kind.to_ne_bytes());
    buffer[at + WORD + 8..at + total].copy_from_slice(data);
    at + total.next_multiple_of(WORD)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive() {
        for text in ["203.0.113.7:4500", "[2001:db8::7]:4500", "[fe80::1%3]:500"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(parse_name(&build_name(address).0.0), Some(address));
        }
        assert_eq!(parse_name(&[0; NAME]), None);
    }

    #[test]
    fn control_survives_and_truncation_is_harmless() {
        for (remote, local) in [("203.0.113.7:1", "192.0.2.1"), ("[2001:db8::7]:1", "2001:db8::1")] {
            let local: IpAddr = local.parse().unwrap();
            let (control, used) = build_control(remote.parse().unwrap(), Some(local), 0xb9, Some(1444));
            let parsed = parse_control(&control.0[..used]);
            assert_eq!((parsed.local, parsed.interface), (Some(local), 0));
            assert_eq!(parsed.tos, 0xb9);
            assert_eq!(parsed.segment, 0, "what is sent is not what is received");
            for cut in 0..used {
                let _ = parse_control(&control.0[..cut]);
            }
        }
        assert_eq!(parse_control(&[0; 64]), Control::default());
        let mut control = [0; CONTROL];
        let used = put_message(&mut control, 0, (libc::SOL_SOCKET, libc::SO_RXQ_OVFL), &7_u32.to_ne_bytes());
        assert_eq!(parse_control(&control[..used]).overflow, Some(7));
    }
}
