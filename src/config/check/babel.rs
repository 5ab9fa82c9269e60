//! What `babel` says, here and at a node, and which kernel routes are announced.

use std::time::Duration;

use ipnet::IpNet;

use super::prefixes;
use crate::config::file::{At, FromKernel as FromKernelText, RuleText, Terms as TermsText};
use crate::config::plan::{Filter, FromKernel, Rule, Terms, Tuning};
use crate::config::report::Report;

/// What a node says, and for the rest what is said for all.
pub(super) fn terms(texts: &TermsText, all: &Terms, report: &mut Report) -> Terms {
    let small = |at: &Option<At<u64>>, other| at.as_ref().and_then(|at| u16::try_from(at.value).ok()).unwrap_or(other);
    let time = |at: &Option<At<u64>>, other| at.as_ref().map_or(other, |at| Duration::from_millis(at.value));
    let tuning = Tuning {
        hello: None,
        rxcost: small(&texts.rxcost, all.tuning.rxcost),
        rtt_cost: small(&texts.rtt_cost, all.tuning.rtt_cost),
        rtt_min: time(&texts.rtt_min_ms, all.tuning.rtt_min),
        rtt_max: time(&texts.rtt_max_ms, all.tuning.rtt_max),
    };
    if tuning.rtt_max <= tuning.rtt_min
        && let Some(at) = texts.rtt_max_ms.as_ref().or(texts.rtt_min_ms.as_ref())
    {
        let (min, max) = (tuning.rtt_min.as_millis(), tuning.rtt_max.as_millis());
        report.error(&at.place, format!("rtt_max_ms ({max}) must be more than rtt_min_ms ({min})"));
    }
    Terms {
        tuning,
        accept: texts.accept.as_ref().map_or(all.accept.clone(), |rules| filter(rules, report)),
        announce: texts.announce.as_ref().map_or(all.announce.clone(), |rules| filter(rules, report)),
    }
}

pub(super) fn hello(at: &At<u64>, report: &mut Report) -> Duration {
    // Babel's intervals count centiseconds (RFC 8966 §4.6.5).
    if !at.value.is_multiple_of(10) {
        report.error(&at.place, format!("hello_ms counts in steps of 10: write {}", at.value / 10 * 10));
    }
    Duration::from_millis(at.value)
}

pub(super) fn from_kernel(texts: &[FromKernelText], own_table: u32, report: &mut Report) -> Vec<FromKernel> {
    let mut result = Vec::new();
    for text in texts {
        let Ok(table) = u32::try_from(text.table.value) else { continue };
        if table == own_table {
            report.error(&text.table.place, format!("table {table} is wattle's own: its routes come from the mesh"));
        }
        result.push(FromKernel { table, filter: filter(&text.prefixes, report) });
    }
    result
}

fn filter(rules: &[RuleText], report: &mut Report) -> Filter {
    Filter(Some(rules.iter().filter_map(|text| rule(text, report)).collect()))
}

fn rule(text: &RuleText, report: &mut Report) -> Option<Rule> {
    let to = prefixes::covering(&text.to, report)?;
    let from = match &text.from {
        Some(from) => Some(prefixes::covering(from, report)?),
        None => None,
    };
    if from.is_some_and(|from| matches!(from, IpNet::V4(_)) != matches!(to, IpNet::V4(_))) {
        report.error(&text.to.place, "\"to\" and \"from\" must both be IPv4 or both be IPv6");
        return None;
    }
    let length = |at: &Option<At<u64>>| at.as_ref().and_then(|at| u8::try_from(at.value).ok());
    // "ge" alone reaches down to single addresses, "le" alone starts at the prefix itself.
    let low = length(&text.ge).unwrap_or(to.prefix_len());
    let high = length(&text.le).unwrap_or(if text.ge.is_some() { to.max_prefix_len() } else { to.prefix_len() });
    if let Some(at) = text.le.as_ref().or(text.ge.as_ref())
        && (low < to.prefix_len() || low > high || high > to.max_prefix_len())
    {
        let message = format!(
            "lengths {low} to {high} of {to}: it takes {} ≤ ge ≤ le ≤ {}",
            to.prefix_len(),
            to.max_prefix_len()
        );
        report.error(&at.place, message);
        return None;
    }
    Some(Rule { to, lengths: low..=high, from, permit: !text.deny })
}
