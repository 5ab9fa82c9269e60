//! Policies and traces as text.

use super::clean;
use super::table::{Column, Fit, Row, paragraph, table};
use super::units::{amount, rtt};
use crate::status::model::{Policy, PolicyState, TraceReport};

/// What is steered where, how much of it, and if not, why.
pub fn policies(policies: &[Policy], width: usize) -> String {
    if policies.is_empty() {
        return "no policies: nothing is steered\n".to_owned();
    }
    let columns = [
        Column { head: "POLICY", fit: Fit::Cut(10) },
        Column { head: "STATE", fit: Fit::Whole },
        Column { head: "PATH", fit: Fit::Cut(20) },
        Column { head: "PACKETS", fit: Fit::Whole },
        Column { head: "OCTETS", fit: Fit::Whole },
        Column { head: "MTU", fit: Fit::Whole },
    ];
    let rows: Vec<Row> = policies.iter().map(row).collect();
    table(&columns, &rows, width)
}

/// Each waypoint's answer.
pub fn trace(report: &TraceReport, width: usize) -> String {
    let mut out = String::new();
    let by = report.policy.as_ref().map_or("by no policy".to_owned(), |name| format!("by policy {}", clean(name)));
    paragraph(&mut out, &format!("{} {by}", clean(&report.to)), 0, width);
    let columns = [
        Column { head: "WAYPOINT", fit: Fit::Cut(12) },
        Column { head: "SID", fit: Fit::Cut(20) },
        Column { head: "RTT", fit: Fit::Whole },
        Column { head: "ANSWER", fit: Fit::Cut(16) },
    ];
    let rows: Vec<Row> = report
        .steps
        .iter()
        .map(|step| Row {
            cells: vec![
                clean(&step.name),
                clean(&step.sid),
                rtt(step.rtt_us),
                step.answer.as_deref().map_or("no answer".to_owned(), clean),
            ],
            notes: Vec::new(),
        })
        .collect();
    out.push_str(&table(&columns, &rows, width));
    out
}

/// Whether somebody on the path did not answer.
pub fn trace_failed(report: &TraceReport) -> bool {
    !report.steps.iter().all(|step| step.reached)
}

fn row(policy: &Policy) -> Row {
    let state = match policy.state {
        PolicyState::Active => "active",
        PolicyState::Dropping => "dropping",
        PolicyState::Routed => "routed",
        PolicyState::Exempt => "exempt",
    };
    let mut matches = format!("to {}", clean(&policy.to));
    for (word, value) in [
        ("from", policy.from.clone()),
        ("protocol", policy.protocol.map(|number| number.to_string())),
        ("port", policy.ports.clone()),
        ("dscp", policy.dscp.map(|number| number.to_string())),
    ] {
        if let Some(value) = value {
            matches.push_str(&format!(" {word} {}", clean(&value)));
        }
    }
    let path: Vec<String> = policy.path.iter().map(|name| clean(name)).collect();
    Row {
        cells: vec![
            clean(&policy.name),
            state.to_owned(),
            if path.is_empty() { "not steered".to_owned() } else { path.join(" > ") },
            policy.packets.to_string(),
            amount(policy.octets),
            policy.mtu.map_or("-".to_owned(), |mtu| mtu.to_string()),
        ],
        notes: std::iter::once(matches).chain(policy.reason.as_deref().map(clean)).collect(),
    }
}
