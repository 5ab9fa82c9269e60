//! What the daemon is asked for: `status`, `peers`, `routes`, `neighbours`, `path`, `drops`, `sas`.

use std::net::IpAddr;
use std::path::PathBuf;

use argh::FromArgs;
use serde::Serialize;

use super::{Exit, answer, answer_json, complain, default_socket};
use crate::status::model::{Answer, Drop, Neighbour, Peer, Refused, Request, Route, Sa, Snapshot};
use crate::status::text::NotUp;
use crate::status::{client, text};

/// Show whether the mesh works, and if not, which peer fails and why; exit code 1 if one fails.
#[derive(FromArgs)]
#[argh(subcommand, name = "status")]
pub(super) struct Status {
    /// as JSON: everything there is
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Show each peer and its tunnels in full.
#[derive(FromArgs)]
#[argh(subcommand, name = "peers")]
pub(super) struct Peers {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Show the routes that Babel knows.
#[derive(FromArgs)]
#[argh(subcommand, name = "routes")]
pub(super) struct Routes {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Show the Babel neighbours and what their links cost.
#[derive(FromArgs)]
#[argh(subcommand, name = "neighbours")]
pub(super) struct Neighbours {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Explain the way of a packet; exit code 1 if it would get nowhere.
#[derive(FromArgs)]
#[argh(subcommand, name = "path")]
pub(super) struct Path {
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

/// Show what was dropped and who was refused, by reason.
#[derive(FromArgs)]
#[argh(subcommand, name = "drops")]
pub(super) struct Drops {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Show the IKE and ESP SAs with suites, ages and counters, and which tunnels have none, and why.
#[derive(FromArgs)]
#[argh(subcommand, name = "sas")]
pub(super) struct Sas {
    /// as JSON
    #[argh(switch)]
    json: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// A part of the snapshot, as JSON.
#[derive(Serialize)]
struct Part<T> {
    schema: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct PeersPart {
    peers: Vec<Peer>,
}

#[derive(Serialize)]
struct RoutesPart {
    routes: Vec<Route>,
}

#[derive(Serialize)]
struct NeighboursPart {
    neighbours: Vec<Neighbour>,
}

#[derive(Serialize)]
struct DropsPart {
    drops: Vec<Drop>,
    refused: Vec<Refused>,
}

#[derive(Serialize)]
struct SasPart {
    sas: Vec<Sa>,
    not_up: Vec<NotUp>,
}

impl Status {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |snapshot| {
            let exit = if text::has_problem(&snapshot) { Exit::Problem } else { Exit::Fine };
            if self.json { answer_json(exit, &snapshot) } else { answer(exit, &text::status(&snapshot, WIDTH)) }
        })
    }
}

impl Peers {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, peers, .. }| match self.json {
            true => answer_json(Exit::Fine, &Part { schema, content: PeersPart { peers } }),
            false => answer(Exit::Fine, &text::peers(&peers, WIDTH)),
        })
    }
}

impl Routes {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, routes, .. }| match self.json {
            true => answer_json(Exit::Fine, &Part { schema, content: RoutesPart { routes } }),
            false => answer(Exit::Fine, &text::routes(&routes, WIDTH)),
        })
    }
}

impl Neighbours {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, neighbours, .. }| match self.json {
            true => answer_json(Exit::Fine, &Part { schema, content: NeighboursPart { neighbours } }),
            false => answer(Exit::Fine, &text::neighbours(&neighbours, WIDTH)),
        })
    }
}

impl Drops {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, drops, refused, .. }| match self.json {
            true => answer_json(Exit::Fine, &Part { schema, content: DropsPart { drops, refused } }),
            false => answer(Exit::Fine, &text::drops(&drops, &refused, WIDTH)),
        })
    }
}

impl Sas {
    pub(super) fn run(self) -> Exit {
        with_snapshot(self.socket, |Snapshot { schema, sas, peers, .. }| {
            let not_up = text::not_up(&peers);
            match self.json {
                true => answer_json(Exit::Fine, &Part { schema, content: SasPart { sas, not_up } }),
                false => answer(Exit::Fine, &text::sas(&sas, &not_up, WIDTH)),
            }
        })
    }
}

impl Path {
    pub(super) fn run(self) -> Exit {
        if self.from.is_some_and(|from| from.is_ipv4() != self.destination.is_ipv4()) {
            return complain(Exit::Usage, "destination and --from must both be IPv4 or both be IPv6");
        }
        let request = Request::Path { to: self.destination.to_string(), from: self.from.map(|from| from.to_string()) };
        match ask(self.socket, request) {
            Ok(Answer::Path(report)) => {
                let exit = if text::is_lost(&report) { Exit::Problem } else { Exit::Fine };
                if self.json { answer_json(exit, &report) } else { answer(exit, &text::path(&report, WIDTH)) }
            }
            Ok(Answer::Snapshot(_) | Answer::Trace(_) | Answer::Done { .. } | Answer::Error { .. }) => foreign(),
            Err(exit) => exit,
        }
    }
}

pub(super) fn with_snapshot(socket: PathBuf, show: impl FnOnce(Snapshot) -> Exit) -> Exit {
    match ask(socket, Request::Snapshot) {
        Ok(Answer::Snapshot(snapshot)) => show(*snapshot),
        Ok(Answer::Path(_) | Answer::Trace(_) | Answer::Done { .. } | Answer::Error { .. }) => foreign(),
        Err(exit) => exit,
    }
}

pub(super) fn ask(socket: PathBuf, request: Request) -> Result<Answer, Exit> {
    match client::ask(&socket, &request) {
        Err(error) => Err(complain(Exit::Unreachable, &error.to_string())),
        Ok(Answer::Error { message }) => Err(complain(Exit::Problem, &message)),
        Ok(answered) => Ok(answered),
    }
}

pub(super) fn foreign() -> Exit {
    complain(Exit::Unreachable, "the daemon answered something else: is it of another version?")
}

/// Columns of the smallest screen that is common.
pub(super) const WIDTH: usize = 80;
