//! `wattle policies` and `wattle trace`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use argh::FromArgs;
use serde::Serialize;

use super::views::{WIDTH, ask, foreign, with_snapshot};
use super::{Exit, answer, answer_json, complain, default_socket};
use crate::status::model::{Answer, Policy, PolicyState, Request, Snapshot};
use crate::status::text;

/// Show which packets are steered, and why not; exit code 1 if a policy drops its packets.
#[derive(FromArgs)]
#[argh(subcommand, name = "policies")]
pub(super) struct Policies {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Send probes along the path of a packet and show what each waypoint answers; exit code 1 if one does not.
#[derive(FromArgs)]
#[argh(subcommand, name = "trace")]
pub(super) struct Trace {
    /// where the packet goes
    #[argh(positional)]
    destination: IpAddr,

    /// where it comes from
    #[argh(option)]
    from: Option<IpAddr>,

    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

#[derive(Serialize)]
struct Part {
    schema: u32,
    policies: Vec<Policy>,
}

impl Policies {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, policies, .. }| {
            let dropping = policies.iter().any(|policy| policy.state == PolicyState::Dropping);
            let exit = if dropping { Exit::Problem } else { Exit::Fine };
            match self.json {
                true => answer_json(exit, &Part { schema, policies }),
                false => answer(exit, &text::policies(&policies, WIDTH)),
            }
        })
    }
}

impl Trace {
    pub(super) fn run(self) -> Exit {
        if self.from.is_some_and(|from| from.is_ipv4() != self.destination.is_ipv4()) {
            return complain(Exit::Usage, "destination and --from must both be IPv4 or both be IPv6");
        }
        let from = self.from.map(|from| from.to_string());
        let mut request = Request::Trace { to: self.destination.to_string(), from };
        loop {
            match ask(self.socket.clone(), request) {
                Ok(Answer::Trace(report)) if report.done => {
                    let exit = if text::trace_failed(&report) { Exit::Problem } else { Exit::Fine };
                    return if self.json {
                        answer_json(exit, &report)
                    } else {
                        answer(exit, &text::trace(&report, WIDTH))
                    };
                }
                Ok(Answer::Trace(_)) => {}
                Ok(Answer::Path(_) | Answer::Snapshot(_) | Answer::Done { .. } | Answer::Error { .. }) => {
                    return foreign();
                }
                Err(exit) => return exit,
            }
            std::thread::sleep(PAUSE);
            request = Request::TraceResult;
        }
    }
}

const PAUSE: Duration = Duration::from_millis(50);
