//! `wattle check`: every problem of a configuration at once.

use std::path::PathBuf;

use argh::FromArgs;
use serde::Serialize;

use super::{Exit, answer, answer_json};
use crate::config::load::{Loaded, load};
use crate::config::plan::Plan;
use crate::config::report::Report;

/// Report every problem of a configuration; exit code 1 if there is one.
#[derive(FromArgs)]
#[argh(subcommand, name = "check")]
pub(super) struct Check {
    /// the configuration
    #[argh(positional)]
    file: PathBuf,

    /// as JSON
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Verdict<'a> {
    schema: u32,
    ok: bool,
    #[serde(flatten)]
    report: &'a Report,
}

impl Check {
    pub(super) fn run(self) -> Exit {
        let Loaded { report, plan, .. } = load(&self.file);
        let exit = if plan.is_some() { Exit::Fine } else { Exit::Problem };
        if self.json {
            return answer_json(exit, &Verdict { schema: SCHEMA, ok: plan.is_some(), report: &report });
        }
        let mut text = listing(&report);
        let shown = self.file.display();
        text.push_str(&match plan {
            Some(plan) => format!("{shown}: fine: {}\n", summary(&plan)),
            None => format!(
                "{shown}: {}, {}\n",
                count(report.errors.len(), "error"),
                count(report.warnings.len(), "warning")
            ),
        });
        answer(exit, &text)
    }
}

/// One line for each problem.
pub(super) fn listing(report: &Report) -> String {
    let mut text = String::new();
    for error in &report.errors {
        text.push_str(&format!("{error}\n"));
    }
    for warning in &report.warnings {
        text.push_str(&format!("{warning} (warning)\n"));
    }
    text
}

fn summary(plan: &Plan) -> String {
    let dialled = plan.peers.iter().filter(|peer| !peer.endpoints.is_empty()).count();
    let tun = match &plan.tun {
        Some(tun) => format!("{} mtu {}", tun.name, tun.mtu),
        None => "relay only".to_owned(),
    };
    let ports: Vec<String> = plan.listen.iter().map(u16::to_string).collect();
    let peers = count(plan.peers.len(), "peer");
    format!("{}, {peers} ({dialled} to dial), {tun}, UDP {}", plan.name, ports.join(" "))
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

const SCHEMA: u32 = 1;
