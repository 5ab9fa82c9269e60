//! The TUN device: inner packets from and to the kernel, one a system call, never waiting.
//!
//! Its addresses, MTU and routes are [`super::kernel`]'s; it disappears from the system when it is dropped.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::task::Context;

use smol::Async;
use tun::AbstractDevice as _;

use super::{sys, words};

pub struct Tun {
    file: Async<File>,
    name: String,
    index: u32,
    /// There may be something to read.
    ready: bool,
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
    pub fn open(name: &str) -> Result<Tun, TunError> {
        // The library's error does not tell which step failed.
        File::options().read(true).write(true).open("/dev/net/tun").map_err(TunError::Device)?;
        Tun::create(name).map_err(|error| explain(name, error))
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

    /// One packet; `None` when there is none.
    ///
    /// # Errors
    /// Those after which the device is of no more use: somebody deleted it or set it down.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        if !self.ready {
            return Ok(None);
        }
        match self.file.get_ref().read(buffer) {
            Ok(length) => Ok(buffer.get(..length)),
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
        self.file.get_ref().write(packet).map(drop)
    }

    fn create(name: &str) -> io::Result<Tun> {
        let mut settings = tun::Configuration::default();
        // Addresses and the rest are set over netlink, which can do both families; the library's way cannot.
        settings.tun_name(name).platform_config(|platform| {
            platform.ensure_root_privileges(false);
        });
        let device = tun::create(&settings)?;
        let name = device.tun_name()?;
        let index = u32::try_from(device.tun_index()?).map_err(io::Error::other)?;
        // Our own descriptor for the same device: the library's reader copies, and smol wants a file.
        let file = File::from(sys::duplicate(device.as_raw_fd())?);
        Ok(Tun { file: Async::new(file)?, name, index, ready: true })
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
