//! Network namespaces, for `delay-link` and the live tests; the daemon itself stays in the one it was started in.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use smol::Async;
use tun::AbstractDevice as _;

use super::{netlink, sys};

/// Runs `work` in the namespace that `ip netns` knows as `name` ("-" is the current one), then comes back.
///
/// Only the calling thread moves; descriptors that `work` opens stay in the namespace they were opened in.
///
/// # Errors
/// When the namespace does not exist, entering it is not permitted, or `work` fails.
pub fn within<T>(name: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if name == "-" {
        return work();
    }
    let home = File::open("/proc/thread-self/ns/net")?;
    let target = File::open(format!("/run/netns/{name}"))
        .map_err(|error| io::Error::new(error.kind(), format!("network namespace {name}: {error}")))?;
    sys::enter_namespace(target.as_fd())?;
    let result = work();
    sys::enter_namespace(home.as_fd())?;
    result
}

/// Makes a TAP device (Ethernet frames) in a namespace and sets it up.
///
/// # Errors
/// No permission, or the name is in use.
pub fn open_tap(namespace: &str, name: &str, mtu: u32) -> io::Result<Async<File>> {
    within(namespace, || {
        let mut settings = tun::Configuration::default();
        settings.tun_name(name).layer(tun::Layer::L2).platform_config(|platform| {
            platform.ensure_root_privileges(false);
        });
        let device = tun::create(&settings)?;
        let index = u32::try_from(device.tun_index()?).map_err(io::Error::other)?;
        let file = File::from(sys::duplicate(device.as_raw_fd())?);
        // A point-to-point wire needs no duplicate address detection, and waiting a second for it slows every test.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0");
        netlink::Socket::open()?.request(netlink::link_up(index, mtu))?;
        Async::new(file)
    })
}
