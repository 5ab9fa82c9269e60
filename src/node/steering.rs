//! Segment routing, composed: the plan's policies in the plane, their prefixes in the kernel, and what a person sees of both.

use std::net::IpAddr;

use super::Node;
use crate::config::plan;
use crate::fib::Target;
use crate::prefix::Prefix;
use crate::status::model::{self, PolicyState};
use crate::steer::Domain;
use crate::steer::headend::Encapsulation;
use crate::steer::policy::{Active, Conditions, Policy};
use crate::time::Time;

impl Node {
    /// Gives the plane what the plan says.
    pub(super) fn apply_steering(&mut self) {
        let plan = &self.plan;
        let domain = Domain {
            locator: plan.locator,
            locators: plan.peers.iter().filter_map(|peer| peer.locator).collect(),
            sources: plan.steering.sources.clone(),
        };
        let policies = plan.steering.policies.iter().map(|policy| Policy {
            prefix: policy.prefix,
            conditions: Conditions { protocol: policy.protocol, ports: policy.ports.clone(), dscp: policy.dscp },
            segments: policy.path.iter().map(|segment| segment.sid).collect(),
            reduced: policy.reduced,
            route_if_unreachable: policy.route_if_unreachable,
        });
        self.plane.set_steering(domain, policies.collect(), plan.steering.exit);
    }

    /// What the kernel must give us for the policies. One that lets its packets go when it has no way leaves them to the
    /// kernel's other routes meanwhile.
    pub(super) fn policy_prefixes(&self) -> impl Iterator<Item = Prefix> {
        let takes = |active: &&Active| {
            !active.policy.segments.is_empty() && (active.is_reachable() || !active.policy.route_if_unreachable)
        };
        self.plane.policies().filter(takes).map(|active| active.policy.prefix)
    }

    pub(super) fn policy_models(&self, now: Time) -> Vec<model::Policy> {
        let mtu = self.plan.tun.as_ref().map_or(0, |tun| tun.mtu);
        let both = self.plan.steering.policies.iter().zip(self.plane.policies());
        both.map(|(planned, active)| self.policy_model(now, mtu, planned, active)).collect()
    }

    fn policy_model(&self, now: Time, mtu: u16, planned: &plan::Policy, active: &Active) -> model::Policy {
        let missing = active.missing.and_then(|sid| planned.path.iter().find(|segment| segment.sid == sid));
        let state = match missing {
            _ if planned.path.is_empty() => PolicyState::Exempt,
            None => PolicyState::Active,
            Some(_) if planned.route_if_unreachable => PolicyState::Routed,
            Some(_) => PolicyState::Dropping,
        };
        let reason = missing.map(|segment| {
            let what = if state == PolicyState::Routed { "routed as if there were no policy" } else { "dropped" };
            match segment.name.parse::<IpAddr>() {
                Ok(sid) => format!("no route to the SID {sid}: its packets are {what}"),
                Err(_) => format!("no route to {} ({}): its packets are {what}", segment.name, segment.sid),
            }
        });
        model::Policy {
            name: planned.name.clone(),
            to: planned.prefix.destination().to_string(),
            from: planned.prefix.is_source_specific().then(|| planned.prefix.source().to_string()),
            protocol: planned.protocol,
            ports: planned.ports.as_ref().map(|ports| match (ports.start(), ports.end()) {
                (low, high) if low == high => low.to_string(),
                (low, high) => format!("{low}-{high}"),
            }),
            dscp: planned.dscp,
            path: planned.path.iter().map(|segment| segment.name.clone()).collect(),
            state,
            reason,
            mtu: active.encapsulation.as_ref().map(|_| active.mtu(now, mtu)),
            packets: active.count.packets,
            octets: active.count.octets,
        }
    }

    /// The policy that packets between two hosts meet by their addresses alone, and whether it has a way; none that steers nothing.
    pub(super) fn policy_of(&self, destination: IpAddr, source: IpAddr) -> Option<(&plan::Policy, bool)> {
        let index = self.plane.policy_of(destination, source)?;
        let planned = self.plan.steering.policies.get(index).filter(|planned| !planned.path.is_empty())?;
        let reachable = self.plane.policies().nth(index)?.is_reachable();
        (reachable || !planned.route_if_unreachable).then_some((planned, reachable))
    }

    /// The steps of a path, with the peers that packets to each segment leave by from here.
    pub(super) fn segment_models(&self, policy: &plan::Policy) -> Vec<model::Segment> {
        let source = self.plane.domain().source();
        let via = |segment: &plan::Segment| {
            let (_, target) = self.plane.fib().lookup(segment.sid.into(), source?.into())?;
            match target {
                Target::Local => Some("local".to_owned()),
                Target::Link(link) => Some(self.link_peer(link)),
                Target::Unreachable => None,
            }
        };
        let models = policy.path.iter().map(|segment| model::Segment {
            name: segment.name.clone(),
            sid: segment.sid.to_string(),
            via: via(segment),
        });
        models.collect()
    }

    /// Octets that a policy's path adds to a packet.
    pub(super) fn overhead(&self, policy: &plan::Policy) -> usize {
        let segments: Vec<_> = policy.path.iter().map(|segment| segment.sid).collect();
        let source = self.plane.domain().source();
        source.map_or(0, |source| Encapsulation::new(source, &segments, policy.reduced).overhead())
    }
}
