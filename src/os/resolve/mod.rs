//! Names to addresses without ever blocking: the hosts file, then a small DNS stub (RFC 1035) over UDP.
//!
//! Each family is asked for itself, so that a server that drops AAAA costs nothing when there is an A. The files are read
//! anew each time: on routers they change with the uplink. Our sockets carry the mark, so that a name server behind a
//! mesh route is asked over the underlay. Everything is bounded: servers, tries, time.

mod dns;

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use smol::{Async, Timer, future};

pub use dns::Kind;

use super::udp::marked_socket;
use super::words;
use crate::crypto::rng::Rng;

/// How names are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    pub hosts: PathBuf,
    pub resolv_conf: PathBuf,
    /// Mark of the sockets.
    pub mark: u32,
}

impl Resolver {
    /// The addresses of a name, IPv6 first. Takes at most [`TRIES`] × [`SERVERS`] × [`TIMEOUT`].
    ///
    /// # Errors
    /// A sentence for the user: "no answer from 192.0.2.53".
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let known = std::fs::read_to_string(&self.hosts).map(|text| hosts_entry(&text, name)).unwrap_or_default();
        if !known.is_empty() {
            return Ok(known);
        }
        let file = self.resolv_conf.display();
        let text = match std::fs::read_to_string(&self.resolv_conf) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(format!("there is no {file}")),
            Err(error) => return Err(format!("cannot read {file}: {}", words(&error))),
        };
        let servers = name_servers(&text);
        if servers.is_empty() {
            return Err(format!("no nameserver in {file}"));
        }
        let mut rng = Rng::from_os().map_err(|error| format!("no random numbers: {error}"))?;
        let ids = [rng.u32().to_be_bytes(), rng.u32().to_be_bytes()].map(|[a, b, ..]| u16::from_be_bytes([a, b]));
        let [id_v6, id_v4] = ids;
        let v6 = self.ask_all(name, Kind::Aaaa, id_v6, &servers);
        let v4 = self.ask_all(name, Kind::A, id_v4, &servers);
        let (v6, v4) = both(v6, v4).await;
        let failure = match (&v4, &v6) {
            (Err(Failure::NoName), _) | (_, Err(Failure::NoName)) => format!("{name} does not exist"),
            (Err(failure), _) | (Ok(_), Err(failure)) => failure.to_string(),
            (Ok(_), Ok(_)) => format!("{name} has no address"),
        };
        let mut addresses = v6.unwrap_or_default();
        addresses.extend(v4.unwrap_or_default());
        if addresses.is_empty() { Err(failure) } else { Ok(addresses) }
    }

    /// Asks one server after the other, all of them several times, until one has an answer.
    async fn ask_all(&self, name: &str, kind: Kind, id: u16, servers: &[SocketAddr]) -> Result<Vec<IpAddr>, Failure> {
        let query = dns::query(name, kind, id).ok_or(Failure::NotAName)?;
        let mut last = None;
        for server in servers.iter().cycle().take(servers.len() * TRIES) {
            match future::or(self.ask(*server, &query, name, kind, id), give_up(*server)).await {
                Err(failure @ Failure::Server { .. }) => last = Some(failure),
                other => return other,
            }
        }
        Err(match last {
            Some(Failure::Server { reason, .. }) if reason == NO_ANSWER => Failure::NoAnswer(servers.to_vec()),
            Some(failure) => failure,
            None => Failure::NoAnswer(servers.to_vec()),
        })
    }

    async fn ask(
        &self,
        server: SocketAddr,
        query: &[u8],
        name: &str,
        kind: Kind,
        id: u16,
    ) -> Result<Vec<IpAddr>, Failure> {
        let failed = |error: io::Error| Failure::Server { server, reason: words(&error) };
        // The daemon's own sockets have said already if they cannot be marked.
        let socket = marked_socket(server.is_ipv6(), self.mark, &mut true).map_err(failed)?;
        // A connected socket takes datagrams from the server only, and hears "port unreachable".
        socket.connect(&server.into()).map_err(failed)?;
        let socket: Async<UdpSocket> = Async::new(socket.into()).map_err(failed)?;
        socket.send(query).await.map_err(failed)?;
        let mut buffer = [0; 1500];
        loop {
            let length = socket.recv(&mut buffer).await.map_err(failed)?;
            // What is not the answer to our question is passed over: the real one may still come.
            match dns::read_answer(buffer.get(..length).unwrap_or(&[]), name, kind, id) {
                None => {}
                Some(Ok(addresses)) => return Ok(addresses),
                Some(Err(dns::Refusal::NoName)) => return Err(Failure::NoName),
                Some(Err(dns::Refusal::Code(code))) => {
                    return Err(Failure::Server { server, reason: dns::code_name(code).to_owned() });
                }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Failure {
    #[error("not a name that DNS can hold")]
    NotAName,
    #[error("the name does not exist")]
    NoName,
    #[error("{}: {reason}", server.ip())]
    Server { server: SocketAddr, reason: String },
    #[error("no answer from {}", list(_0))]
    NoAnswer(Vec<SocketAddr>),
}

async fn give_up(server: SocketAddr) -> Result<Vec<IpAddr>, Failure> {
    Timer::after(TIMEOUT).await;
    Err(Failure::Server { server, reason: NO_ANSWER.to_owned() })
}

/// Both answers; but once one has addresses, the other gets [`GRACE`] and no more.
async fn both(
    v6: impl Future<Output = Result<Vec<IpAddr>, Failure>>,
    v4: impl Future<Output = Result<Vec<IpAddr>, Failure>>,
) -> (Result<Vec<IpAddr>, Failure>, Result<Vec<IpAddr>, Failure>) {
    type Answer = Result<Vec<IpAddr>, Failure>;
    let (mut v6, mut v4) = (std::pin::pin!(v6), std::pin::pin!(v4));
    let first = future::or(async { (Some(v6.as_mut().await), None) }, async { (None, Some(v4.as_mut().await)) }).await;
    let first: (Option<Answer>, Option<Answer>) = first;
    let found = matches!(&first, (Some(Ok(found)), _) | (_, Some(Ok(found))) if !found.is_empty());
    let limit = async {
        if found {
            Timer::after(GRACE).await;
        } else {
            future::pending::<()>().await;
        }
        Ok(Vec::new())
    };
    match first {
        (Some(v6), _) => (v6, future::or(v4, limit).await),
        (None, Some(v4)) => (future::or(v6, limit).await, v4),
        (None, None) => (Ok(Vec::new()), Ok(Vec::new())),
    }
}

/// The addresses of a name in a hosts file (hosts(5)).
fn hosts_entry(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let mut addresses = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
        if words.any(|word| word.eq_ignore_ascii_case(name)) && addresses.len() < dns::MOST {
            addresses.push(address);
        }
    }
    addresses
}

/// The name servers of a resolv.conf(5), at most [`SERVERS`].
fn name_servers(text: &str) -> Vec<SocketAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(server) = words.next().and_then(name_server)
            && servers.len() < SERVERS
        {
            servers.push(server);
        }
    }
    servers
}

/// An address, link-local ones with the interface: `fe80::1%eth0`.
fn name_server(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Some(SocketAddr::new(address, PORT));
    }
    let (address, interface) = text.split_once('%')?;
    let plain = interface.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c)) && interface != "..";
    let index =
        if plain { std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()? } else { return None };
    Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, index.trim().parse().ok()?).into())
}

fn list(servers: &[SocketAddr]) -> String {
    let names: Vec<String> = servers.iter().map(|server| server.ip().to_string()).collect();
    names.join(", ")
}

const PORT: u16 = 53;
/// As many as other resolvers look at.
pub const SERVERS: usize = 3;
/// How often each server is asked.
pub const TRIES: usize = 2;
/// How long one try waits.
pub const TIMEOUT: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(500);
const NO_ANSWER: &str = "no answer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_files() {
        let text = "127.0.0.1 localhost\n# 1.2.3.4 commented\r\n2001:db8::1\tVPN.example vpn # note vpn2\nbad vpn\n192.0.2.1 vpn\n";
        let expected: Vec<IpAddr> = vec!["2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
        assert_eq!(hosts_entry(text, "vpn"), expected);
        assert_eq!(hosts_entry(text, "vpn.Example."), expected[..1]);
        assert_eq!(hosts_entry(text, "vpn2"), Vec::<IpAddr>::new());
        assert_eq!(hosts_entry(text, "commented"), Vec::<IpAddr>::new());
    }

    #[test]
    fn resolv_conf() {
        let text = "search example\n nameserver 192.0.2.53\nnameserver\nnameserver x\nnameserver ::1 # local\nnameserver fe80::1%../../x\n";
        let servers = name_servers(text);
        assert_eq!(servers, ["192.0.2.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert_eq!(name_server("fe80::1%lo"), Some("[fe80::1%1]:53".parse().unwrap()));
        assert_eq!(name_servers(&"nameserver 192.0.2.1\n".repeat(9)).len(), SERVERS);
    }

    #[test]
    fn failures_are_sentences() {
        let servers: Vec<SocketAddr> = vec!["192.0.2.53:53".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap()];
        assert_eq!(Failure::NoAnswer(servers.clone()).to_string(), "no answer from 192.0.2.53, 2001:db8::53");
        let refused = Failure::Server { server: servers[0], reason: "query refused".to_owned() };
        assert_eq!(refused.to_string(), "192.0.2.53: query refused");
    }
}
