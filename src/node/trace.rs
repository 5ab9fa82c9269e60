//! `wattle trace`: echo requests to each waypoint of a path, along the path itself, and what comes back.
//!
//! One trace at a time; whoever asks drives it by asking for the result, so that it needs no timer.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::Node;
use crate::status::model;
use crate::steer::headend;
use crate::time::Time;
use crate::wire::icmp::{self, Heard};
use crate::wire::srv6;

pub(super) struct Trace {
    identifier: u16,
    to: String,
    policy: Option<String>,
    started: Time,
    steps: Vec<Step>,
}

struct Step {
    name: String,
    /// Up to and with the waypoint that is asked.
    path: Vec<Ipv6Addr>,
    tries: u16,
    sent: Time,
    answer: Option<(Duration, Ipv6Addr, Heard)>,
}

impl Node {
    /// Sends probes along the path that packets to `destination` take; the error says why none can be sent.
    pub fn start_trace(&mut self, now: Time, destination: IpAddr, source: Option<IpAddr>) -> Result<(), String> {
        if self.plane.domain().source().is_none() {
            return Err("probes come from a SID of ours: give this node a \"locator\"".to_owned());
        }
        let source = self.source_for(destination, source);
        let policy = self.policy_of(destination, source).map(|(policy, _)| policy);
        let steps: Vec<(String, Vec<Ipv6Addr>)> = match policy {
            Some(policy) => {
                let sids: Vec<Ipv6Addr> = policy.path.iter().map(|segment| segment.sid).collect();
                let names = policy.path.iter().map(|segment| segment.name.clone());
                let exit = policy.path.last().and_then(|last| self.locator_of(&last.name));
                let ask = |(index, name): (usize, String)| {
                    let mut path = sids.get(..=index).unwrap_or_default().to_vec();
                    // An exit that we know answers at its End SID.
                    if let (Some(last), Some(locator)) = (path.last_mut().filter(|_| index + 1 == sids.len()), exit) {
                        *last = srv6::sid(locator, srv6::END);
                    }
                    (name, path)
                };
                names.enumerate().map(ask).collect()
            }
            None => {
                let origin = self.explain(now, destination, Some(source)).origin;
                let origin = origin.ok_or_else(|| format!("no route to {destination}"))?;
                let locator = self.locator_of(&origin).ok_or_else(|| {
                    format!("no policy matches, and {origin}, which announces the route, has no locator to be asked at")
                })?;
                vec![(origin, vec![srv6::sid(locator, srv6::END)])]
            }
        };
        let policy = policy.map(|policy| policy.name.clone());
        let [a, b, ..] = self.rng.array::<8>();
        let step = |(name, path)| Step { name, path, tries: 0, sent: now, answer: None };
        self.trace = Some(Trace {
            identifier: u16::from_be_bytes([a, b]),
            to: destination.to_string(),
            policy,
            started: now,
            steps: steps.into_iter().map(step).collect(),
        });
        self.plane.set_probing(true);
        self.probe(now);
        self.settle(now);
        Ok(())
    }

    /// What has been heard so far; asks again those that have not answered.
    pub fn trace_result(&mut self, now: Time) -> Option<model::TraceReport> {
        self.probe(now);
        self.settle(now);
        let trace = self.trace.as_ref()?;
        let done = trace.steps.iter().all(|step| step.answer.is_some()) || now.since(trace.started) >= PATIENCE;
        let steps = trace.steps.iter().map(|step| model::TraceStep {
            name: step.name.clone(),
            sid: step.path.last().map(Ipv6Addr::to_string).unwrap_or_default(),
            rtt_us: step.answer.map(|(rtt, ..)| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
            reached: step.answer.is_some_and(|(_, _, heard)| heard.is_from_target()),
            answer: step.answer.map(|(_, from, heard)| match heard {
                Heard::Reply => "answers".to_owned(),
                Heard::Unreachable | Heard::TooBig | Heard::TimeExceeded | Heard::UpperLayer | Heard::Parameter => {
                    format!("{} says: {}", self.name_of(from), heard.words())
                }
            }),
        });
        let report = model::TraceReport {
            schema: model::SCHEMA,
            to: trace.to.clone(),
            policy: trace.policy.clone(),
            done,
            steps: steps.collect(),
        };
        if done {
            self.end_trace();
        }
        Some(report)
    }

    /// An ICMPv6 message to our End SID.
    pub(super) fn hear(&mut self, now: Time, from: Ipv6Addr, message: &[u8]) {
        if self.trace.as_ref().is_some_and(|trace| now.since(trace.started) > FORGOTTEN) {
            self.end_trace();
        }
        let Some(trace) = &mut self.trace else { return };
        let Some((identifier, sequence, heard)) = icmp::heard6(message) else { return };
        let index = usize::from(sequence % MOST_STEPS);
        let Some(step) = trace.steps.get_mut(index).filter(|_| identifier == trace.identifier) else { return };
        if step.answer.is_none() && sequence / MOST_STEPS == step.tries {
            step.answer = Some((now.since(step.sent), from, heard));
        }
    }

    fn probe(&mut self, now: Time) {
        let Some(source) = self.plane.domain().source() else { return };
        let Some(trace) = &mut self.trace else { return };
        for (step, index) in trace.steps.iter_mut().zip(0..) {
            let due = step.tries == 0 || now.since(step.sent) >= AGAIN;
            if step.answer.is_some() || !due || step.tries >= TRIES {
                continue;
            }
            step.tries += 1;
            step.sent = now;
            let packet = headend::probe(source, &step.path, trace.identifier, step.tries * MOST_STEPS + index);
            self.plane.send_routed(now, &packet, &mut self.egress);
        }
    }

    fn end_trace(&mut self) {
        self.trace = None;
        self.plane.set_probing(false);
    }

    /// Of a node by its name.
    fn locator_of(&self, name: &str) -> Option<ipnet::Ipv6Net> {
        if self.plan.name == name {
            return self.plan.locator;
        }
        self.plan.peers.iter().find(|peer| peer.name == name)?.locator
    }

    /// The node whose locator an address lies in, or the address.
    fn name_of(&self, address: Ipv6Addr) -> String {
        let owner = self.plan.peers.iter().find(|peer| peer.locator.is_some_and(|net| net.contains(&address)));
        owner.map_or_else(|| address.to_string(), |peer| peer.name.clone())
    }
}

/// More than a path has segments.
const MOST_STEPS: u16 = 32;
const TRIES: u16 = 3;
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(3);
/// Whoever asked has gone.
const FORGOTTEN: Duration = Duration::from_secs(10);
