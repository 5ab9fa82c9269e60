//! Meshes by recipe: names `n0`, `n1`, …; overlay 10.66.0.*n* and fd66::*n*; underlay 192.0.2.*n* … or 198.18.*x*.*y*.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::wire::Wire;
use super::world::World;
use crate::config::plan::{Babel, Endpoint, Host, Kernel, Peer, Plan, Rekey, Steering, Suites, Terms, Tun};
use crate::crypto::sign::PrivateKey;
use crate::identity::Identity;
use crate::offload::Offload;

pub(crate) fn address4(host: usize) -> IpAddr {
    let [high, low] = (host as u16 + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 66, high, low))
}

pub(crate) fn address6(host: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, host as u16 + 1))
}

pub(crate) fn underlay(host: usize) -> IpAddr {
    let [high, low] = (host as u16 + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(198, 18, high, low))
}

/// A recipe for a world.
pub(crate) struct Mesh {
    pub(crate) seed: u64,
    pub(crate) hosts: usize,
    /// Which pairs have a wire, with which one-way delay in milliseconds.
    pub(crate) wires: Vec<(usize, usize, u64)>,
    /// Hosts that know no endpoints of others: they are dialled by nobody and dial.
    pub(crate) hidden: Vec<usize>,
    /// Only the first of each pair in `wires` knows the other's endpoint.
    pub(crate) one_way: bool,
}

impl Mesh {
    pub(crate) fn of(seed: u64, hosts: usize, wires: impl IntoIterator<Item = (usize, usize, u64)>) -> Mesh {
        Mesh { seed, hosts, wires: wires.into_iter().collect(), hidden: Vec::new(), one_way: false }
    }

    /// Only the first of each pair dials.
    pub(crate) fn one_way(mut self) -> Mesh {
        self.one_way = true;
        self
    }

    /// Builds the world, with every host switched off.
    pub(crate) fn build(self) -> World {
        let mut world = World::new(self.seed);
        let key = |host: usize| {
            let mut seed = [0x5e; 32];
            seed[..8].copy_from_slice(&(host as u64 ^ self.seed.rotate_left(17)).to_be_bytes());
            PrivateKey::from_seed(&seed)
        };
        for host in 0..self.hosts {
            let known = |other: usize| {
                let dialled = self
                    .wires
                    .iter()
                    .any(|(a, b, _)| (*a == host && *b == other) || (!self.one_way && *b == host && *a == other));
                dialled && !self.hidden.contains(&other)
            };
            let others = (0..self.hosts).filter(|other| *other != host);
            let wired = others.filter(|other| {
                self.wires.iter().any(|(a, b, _)| (*a, *b) == (host, *other) || (*b, *a) == (host, *other))
            });
            let peers = wired
                .map(|other| Peer {
                    name: format!("n{other}"),
                    public_key: key(other).public(),
                    endpoints: known(other)
                        .then(|| endpoint(SocketAddr::new(underlay(other), 4500)))
                        .into_iter()
                        .collect(),
                    locator: None,
                    routes: Vec::new(),
                    pin_port: false,
                    babel: Terms::default(),
                    remote_id: Identity::fqdn(&format!("n{other}")),
                    local_id: Identity::fqdn(&format!("n{host}")),
                    suites: Suites::default_for(true),
                })
                .collect();
            let plan = Plan {
                name: format!("n{host}"),
                private_key: key(host),
                listen: vec![4500],
                tun: Some(Tun {
                    name: "wattle0".into(),
                    mtu: 1400,
                    addresses: vec![address4(host).into(), address6(host).into()],
                }),
                announce: Vec::new(),
                from_kernel: Vec::new(),
                locator: None,
                steering: Steering::default(),
                peers,
                suites: Suites::default_for(true),
                rekey: Rekey::default(),
                babel: Babel::default(),
                offload: Offload::default(),
                kernel: Kernel::default(),
                control: "/nowhere".into(),
                log: None,
            };
            world.add(plan, vec![underlay(host)]);
        }
        for (a, b, delay) in &self.wires {
            world.connect(*a, *b, || Wire::new(*delay));
        }
        world
    }
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { host: Host::Address(address.ip()), port: address.port() }
}
