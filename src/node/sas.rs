//! SAs as a person sees them, and what a person may ask of them: `wattle sas`, `wattle rekey`.

use super::Node;
use super::link::Link;
use super::snapshot::micros;
use crate::ike::endpoint::{Role, SaInfo};
use crate::path::PeerId;
use crate::status::model;
use crate::time::Time;

impl Node {
    /// Every IKE SA with its Child SAs, those of one peer together, in the order of the configuration; strangers last.
    pub(super) fn sa_models(&self, now: Time) -> Vec<model::Sa> {
        let places: Vec<PeerId> = self.peers.iter().map(|(id, _)| id).collect();
        let place = |info: &SaInfo| {
            let of_peer = info.peer.and_then(|peer| places.iter().position(|id| *id == peer));
            (of_peer.unwrap_or(usize::MAX), info.sa)
        };
        let mut infos: Vec<SaInfo> = self.ike.sas().collect();
        infos.sort_by_key(place);
        infos.into_iter().map(|info| self.sa_model(now, info)).collect()
    }

    /// Has new keys made for the sessions with a peer; the answer, or why not, in words.
    pub fn rekey(&mut self, now: Time, name: &str, ike: bool, children: bool) -> Result<String, String> {
        let peer =
            self.peers.named(name).ok_or_else(|| format!("no peer is called {name}: wattle peers lists them"))?;
        let links = self.links.values().filter(|link| link.peer == peer);
        let sessions: Vec<_> = links.filter_map(|link| link.session.as_ref()).map(|session| session.sa).collect();
        if sessions.is_empty() {
            return Err(format!("{name} has no session that could be rekeyed: wattle sas says why"));
        }
        for sa in &sessions {
            if children {
                self.ike.rekey_children(now, *sa);
            }
            if ike {
                self.ike.rekey_ike(now, *sa);
            }
        }
        self.settle(now);
        let what = match (ike, children) {
            (true, false) => "the IKE SA",
            (false, true) => "the data tunnels",
            _ => "the data tunnels, then the IKE SA",
        };
        let count = if sessions.len() == 1 { String::new() } else { format!(" of {} sessions", sessions.len()) };
        Ok(format!("rekeying {what}{count} with {name}: wattle sas shows the new ones"))
    }

    fn sa_model(&self, now: Time, info: SaInfo) -> model::Sa {
        let link = self.links.values().find(|link| link.session.as_ref().is_some_and(|session| session.sa == info.sa));
        let until = |at: Option<Time>| at.map(|at| micros(at.since(now)));
        let children = link.map_or(Vec::new(), |link| self.child_models(now, link, &info));
        model::Sa {
            peer: info.peer.filter(|peer| self.peers.contains(*peer)).map(|peer| self.peer(peer).name.clone()),
            state: info.state,
            established: info.established,
            role: match info.role {
                Role::Initiator => "initiator".to_owned(),
                Role::Responder => "responder".to_owned(),
            },
            spi_initiator: format!("{:016x}", info.spi_initiator),
            spi_responder: format!("{:016x}", info.spi_responder),
            remote: info.path.remote.to_string(),
            local_port: self.ports.get(&info.path.socket).copied(),
            suite: info.suite,
            age_us: micros(now.since(info.since)),
            rekey_us: until(info.rekey_at),
            children,
        }
    }

    /// The one that is sent on comes first.
    fn child_models(&self, now: Time, link: &Link, info: &SaInfo) -> Vec<model::ChildSa> {
        let known = link.session.iter().flat_map(|session| session.children.iter().rev());
        let model = |(at, child): (usize, &super::link::ChildInfo)| {
            let (inbound, (packets_out, octets_out)) = self.plane.child(link.id, child.spi_in);
            let ike = info.children.iter().find(|own| own.spi_in == child.spi_in);
            let leaving = ike.is_none_or(|own| own.leaving);
            model::ChildSa {
                spi_in: child.spi_in,
                spi_out: child.spi_out,
                suite: child.suite.clone(),
                role: match (at, leaving) {
                    (0, _) => model::ChildRole::Sending,
                    (_, true) => model::ChildRole::Leaving,
                    (_, false) => model::ChildRole::Standby,
                },
                age_us: micros(now.since(child.since)),
                rekey_us: ike.filter(|_| !leaving).and_then(|own| own.rekey_at).map(|at| micros(at.since(now))),
                packets_in: inbound.packets,
                octets_in: inbound.octets,
                packets_out,
                octets_out,
                replays: inbound.replays,
            }
        };
        known.enumerate().map(model).collect()
    }
}
