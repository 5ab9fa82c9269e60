//! `wattle reload`, `wattle rekey` and `wattle health`.

use std::path::PathBuf;

use argh::FromArgs;

use super::{Exit, answer, complain, default_socket};
use crate::status::client;
use crate::status::model::{Answer, Request};

/// Let the daemon read its configuration again; exit code 1 if it is wrong, and then nothing has changed.
#[derive(FromArgs)]
#[argh(subcommand, name = "reload")]
pub(super) struct Reload {
    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Make new keys for the sessions with a peer, now: no packet is lost. Without --ike and --data both are rekeyed.
#[derive(FromArgs)]
#[argh(subcommand, name = "rekey")]
pub(super) struct Rekey {
    /// the peer's name
    #[argh(positional)]
    peer: String,

    /// only the IKE SA
    #[argh(switch)]
    ike: bool,

    /// only the data tunnels (Child SAs)
    #[argh(switch)]
    data: bool,

    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

/// Say whether the daemon is alive, for a container's health check: exit code 0 or 1. Whether peers are up is for status.
#[derive(FromArgs)]
#[argh(subcommand, name = "health")]
pub(super) struct Health {
    /// the daemon's socket (/run/wattle.sock)
    #[argh(option, default = "default_socket()")]
    socket: PathBuf,
}

impl Reload {
    pub(super) fn run(self) -> Exit {
        match client::ask(&self.socket, &Request::Reload) {
            Ok(asked) => done(asked),
            Err(error) => complain(Exit::Unreachable, &error.to_string()),
        }
    }
}

impl Rekey {
    pub(super) fn run(self) -> Exit {
        let (ike, children) = (self.ike || !self.data, self.data || !self.ike);
        match client::ask(&self.socket, &Request::Rekey { peer: self.peer, ike, children }) {
            Ok(asked) => done(asked),
            Err(error) => complain(Exit::Unreachable, &error.to_string()),
        }
    }
}

impl Health {
    pub(super) fn run(self) -> Exit {
        match client::ask(&self.socket, &Request::Health) {
            Ok(asked) => done(asked),
            // Other codes than 0 and 1 are reserved for whoever runs health checks.
            Err(error) => complain(Exit::Problem, &error.to_string()),
        }
    }
}

fn done(asked: Answer) -> Exit {
    match asked {
        Answer::Done { fine: true, message } => answer(Exit::Fine, &message),
        Answer::Done { fine: false, message } | Answer::Error { message } => complain(Exit::Problem, &message),
        Answer::Snapshot(_) | Answer::Path(_) | Answer::Trace(_) => {
            complain(Exit::Problem, "the daemon answered something else")
        }
    }
}
