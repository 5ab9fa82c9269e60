//! The daemon: opens what the system gives, then carries octets and clock ticks between it and the [`Node`].
//!
//! The only place with a clock, file descriptors and threads. Start-up errors are one line each and end it before it has
//! changed anything; once it runs, nothing but a signal ends it.

mod clock;
mod driver;
mod errors;
mod reload;
mod selfcheck;

use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::config::plan::Plan;
use crate::crypto::rng::Rng;
use crate::os::kernel::{Kernel, Link, Settings};
use crate::os::resolve::Resolver;
use crate::os::signals::Signals;
use crate::os::tun::{Tun, TunError};
use crate::os::udp::{OpenError, Udp};
use crate::os::uplink::Uplink;
use crate::os::words;
use crate::path::SocketId;
use crate::status::server::{BindError, Server};
use clock::Clock;
pub use reload::{Reading, Source};

/// What is not the configuration's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the name servers are found; routers often keep the uplink's in another file.
    pub resolv_conf: PathBuf,
    pub hosts: PathBuf,
    /// Where the system's IPv6 default route shall lead, if nobody else sets one.
    pub gateway6: Option<Ipv6Addr>,
}

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Port(#[from] OpenError),
    #[error("{0}")]
    Tun(#[from] TunError),
    #[error("{0}")]
    Control(#[from] BindError),
    #[error("cannot set up routes (netlink): {}; run as root or give CAP_NET_ADMIN", words(_0))]
    Kernel(io::Error),
    #[error("cannot set up {name}: {}; run as root or give CAP_NET_ADMIN", words(error))]
    Device { name: String, error: io::Error },
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot receive signals: {}", words(_0))]
    Signals(io::Error),
}

/// Runs until SIGTERM or SIGINT. Log lines go to [`log`]. `source` reads the configuration again when it has changed, from
/// `files` or others by then.
///
/// # Errors
/// What kept it from starting. Nothing of ours is left in the system then.
pub fn run(plan: Plan, files: Vec<PathBuf>, source: Source, options: Options) -> Result<(), StartError> {
    selfcheck::machine();
    // Before smol starts its helper thread, which must not take the signals.
    let signals = Signals::open().map_err(StartError::Signals)?;
    let seed = Rng::from_os()?.array();
    let mut udp = Udp::new(plan.kernel.mark, plan.offload);
    for (index, &port) in plan.listen.iter().enumerate() {
        udp.open(SocketId(u16::try_from(index).unwrap_or(u16::MAX)), port)?;
    }
    let server = Server::bind(&plan.control)?;
    let tun = plan.tun.as_ref().map(|tun| Tun::open(&tun.name, plan.offload.tun)).transpose()?;
    let mut kernel = match &tun {
        Some(tun) => Some(install(&plan, tun)?),
        // A relay may run without rights; what an earlier run with a device has left goes if we are allowed to.
        None => Kernel::open(settings(&plan)).ok().filter(|_| options.gateway6.is_some()),
    };
    if let (Some(kernel), Some(gateway)) = (&mut kernel, options.gateway6) {
        kernel.keep_default_route(gateway, Clock::instant());
    }
    selfcheck::system(&plan, tun.as_ref(), &udp);
    let resolver = Resolver { hosts: options.hosts, resolv_conf: options.resolv_conf, mark: plan.kernel.mark };
    let uplink = Uplink::new(plan.kernel.mark);
    let system = driver::System { udp, uplink, tun, kernel, resolver, signals };
    smol::block_on(driver::drive(plan, seed, system, server, (files, source)));
    Ok(())
}

impl Default for Options {
    fn default() -> Options {
        Options { resolv_conf: PathBuf::from("/etc/resolv.conf"), hosts: PathBuf::from("/etc/hosts"), gateway6: None }
    }
}

fn settings(plan: &Plan) -> Settings {
    Settings {
        table: plan.kernel.table,
        mark: plan.kernel.mark,
        preference: plan.kernel.rule,
        exit: plan.steering.exit,
    }
}

fn install(plan: &Plan, tun: &Tun) -> Result<Kernel, StartError> {
    let mut kernel = Kernel::open(settings(plan)).map_err(StartError::Kernel)?;
    match link(plan, tun).map_or(Ok(()), |link| kernel.attach(link)) {
        Ok(()) => Ok(kernel),
        Err(error) => {
            kernel.close();
            Err(StartError::Device { name: tun.name().to_owned(), error })
        }
    }
}

fn link(plan: &Plan, tun: &Tun) -> Option<Link> {
    let settings = plan.tun.as_ref()?;
    Some(Link {
        device: tun.index(),
        name: tun.name().to_owned(),
        mtu: settings.mtu,
        addresses: settings.addresses.clone(),
    })
}
