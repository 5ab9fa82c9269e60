//! The TUN device: inner packets from and to the kernel, never waiting. One a system call, or, where the kernel can, one
//! super-packet of up to 64 KiB that stands for many (`IFF_VNET_HDR`).
//!
//! Its addresses, MTU and routes are [`super::kernel`]'s; it disappears from the system when it is dropped.

use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::task::Context;

use smol::Async;
use tun::AbstractDevice as _;

use super::{sys, words};
use crate::offload::Switch;

pub struct Tun {
    file: Async<File>,
    name: String,
    index: u32,
    /// There may be something to read.
    ready: bool,
    /// There is a header before each packet.
    offloads: bool,
    /// What the kernel hands over in super-packets: TCP, UDP.
    merged: (bool, bool),
}

/// What one read gave.
#[derive(Debug)]
pub struct Frame<'a> {
    /// `struct virtio_net_hdr`, of a device with offloads.
    pub header: Option<[u8; HEADER]>,
    pub packet: &'a mut [u8],
}

#[derive(Debug, thiserror::Error)]
pub enum TunError {
    #[error(
        "cannot open /dev/net/tun: {}; run as root or give CAP_NET_ADMIN; in a container pass the device",
        words(_0)
    )]
    Device(io::Error),
    #[error("cannot make {name}: {}; run as root or give CAP_NET_ADMIN", words(error))]
    NotPermitted { name: String, error: io::Error },
    #[error("cannot make {name}: another program has this device open (another wattle?)")]
    Busy { name: String },
    #[error("cannot make {name}: a device of this name and of another kind exists, or the name is not allowed")]
    Invalid { name: String },
    #[error("cannot make {name}: {}", words(error))]
    Other { name: String, error: io::Error },
}

impl Tun {
    /// Makes the device, still down and without addresses.
    ///
    /// # Errors
    /// In words for the user: no `/dev/net/tun`, no permission, the name in use.
    pub fn open(name: &str, offload: Switch) -> Result<Tun, TunError> {
        // The library's error does not tell which step failed.
        File::options().read(true).write(true).open("/dev/net/tun").map_err(TunError::Device)?;
        if offload.is_wanted()
            && let Ok(mut tun) = Tun::create(name, true)
        {
            let step = OFFLOADS.iter().position(|&features| sys::set_tun_offload(tun.file.as_fd(), features));
            tun.merged = (step.is_some_and(|step| step <= 1), step == Some(0));
            return Ok(tun);
        }
        Tun::create(name, false).map_err(|error| explain(name, error))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Learns whether there is something to read.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> bool {
        self.ready = self.ready || self.file.poll_readable(context).is_ready();
        self.ready
    }

    /// Whether there may be more to read, as far as is known.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether it takes and gives super-packets.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Whether the kernel hands over TCP, and UDP, in super-packets.
    pub fn merges(&self) -> (bool, bool) {
        self.merged
    }

    /// One packet; `None` when there is none. `buffer` has room for 64 KiB and [`HEADER`].
    ///
    /// # Errors
    /// Those after which the device is of no more use: somebody deleted it or set it down.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<Option<Frame<'a>>> {
        if !self.ready {
            return Ok(None);
        }
        match self.file.get_ref().read(buffer) {
            Ok(length) => {
                let octets = buffer.get_mut(..length).unwrap_or_default();
                if !self.offloads {
                    return Ok(Some(Frame { header: None, packet: octets }));
                }
                let Some((header, packet)) = octets.split_first_chunk_mut() else { return Ok(None) };
                Ok(Some(Frame { header: Some(*header), packet }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.ready = false;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the kernel.
    ///
    /// # Errors
    /// The kernel did not take it (device down, no memory, not an IP packet): the packet is lost.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        if self.offloads {
            return self.write_pieces(&[0; HEADER], &[packet]);
        }
        self.file.get_ref().write(packet).map(drop)
    }

    /// Hands over a packet or super-packet that stands in several places (at most [`PIECES`]), to a device with offloads.
    ///
    /// # Errors
    /// As [`Tun::write`]; `EINVAL` for super-packets that this kernel does not want.
    pub fn write_pieces(&self, header: &[u8; HEADER], pieces: &[&[u8]]) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); 1 + PIECES];
        let count = 1 + pieces.len().min(PIECES);
        for (slice, octets) in slices.iter_mut().zip(std::iter::once(&&header[..]).chain(pieces)) {
            *slice = IoSlice::new(octets);
        }
        self.file.get_ref().write_vectored(slices.get(..count).unwrap_or_default()).map(drop)
    }

    fn create(name: &str, offloads: bool) -> io::Result<Tun> {
        let mut settings = tun::Configuration::default();
        // Addresses and the rest are set over netlink, which can do both families; the library's way cannot.
        settings.tun_name(name).platform_config(|platform| {
            platform.ensure_root_privileges(false).vnet_hdr(offloads);
        });
        let device = tun::create(&settings)?;
        let name = device.tun_name()?;
        let index = u32::try_from(device.tun_index()?).map_err(io::Error::other)?;
        // Our own descriptor for the same device: the library's reader copies, and smol wants a file.
        let file = File::from(sys::duplicate(device.as_raw_fd())?);
        Ok(Tun { file: Async::new(file)?, name, index, ready: true, offloads, merged: (false, false) })
    }
}

fn explain(name: &str, error: io::Error) -> TunError {
    let name = name.to_owned();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => TunError::NotPermitted { name, error },
        Some(libc::EBUSY) => TunError::Busy { name },
        Some(libc::EINVAL) => TunError::Invalid { name },
        _ => TunError::Other { name, error },
    }
}

/// Octets of `struct virtio_net_hdr`.
pub const HEADER: usize = 10;
/// The most that [`Tun::write_pieces`] takes.
pub const PIECES: usize = 64;
/// What the kernel may leave to us, in steps down: checksums and TCP segments, with UDP segments from Linux 6.2 on.
const OFFLOADS: [u32; 3] = [TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6, TCP, libc::TUN_F_CSUM];
const TCP: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
