//! `wattle check`: every problem of a configuration at once.

use std::path::PathBuf;

use argh::FromArgs;
use serde::Serialize;

use super::{Exit, answer, answer_json, logging};
use crate::config::load::{Loaded, MissingKey, load_with};
use crate::config::plan::Plan;
use crate::config::report::{Problem, Report};

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
        let Loaded { report, plan, .. } = load_with(&self.file, MissingKey::Allow);
        let ok = report.errors.is_empty();
        let exit = if ok { Exit::Fine } else { Exit::Problem };
        if self.json {
            return answer_json(exit, &Verdict { schema: SCHEMA, ok, report: &report });
        }
        let mut text = listing(&report);
        let shown = self.file.display();
        text.push_str(&match plan {
            Some(plan) => format!("{shown}: fine: {}\n", summary(&plan)),
            None if ok => format!("{shown}: fine, but for the key\n"),
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

/// One line, or two where a log would cut it off: the place, then what is wrong there and the cure.
pub(super) fn log_lines(problem: &Problem) -> Vec<String> {
    let whole = problem.to_string();
    if whole.chars().count() + LEVEL <= logging::MAX_LINE {
        return vec![whole];
    }
    let place = whole.strip_suffix(&problem.message).unwrap_or_default().trim_end();
    vec![place.to_owned(), problem.message.clone()]
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
/// What stands before the message in a line of the log.
const LEVEL: usize = 6;
