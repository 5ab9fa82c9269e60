//! `wattle run`: the daemon.

use std::path::{Path, PathBuf};

use argh::FromArgs;

use super::{Exit, answer, check, complain, default_config, keys, logging};
use crate::config::check::log_problem;
use crate::config::load::{Loaded, load, load_or_make};
use crate::config::report::Report;
use crate::daemon::{self, Options, Reading};

/// Run the node until it is told to stop.
#[derive(FromArgs)]
#[argh(subcommand, name = "run")]
pub(super) struct Run {
    /// the configuration (/etc/wattle/wattle.json)
    #[argh(option, short = 'c', default = "default_config()")]
    config: PathBuf,

    /// what to log: off, error, warn, info, debug or trace, also for parts: info,wattle::ike=debug
    #[argh(option)]
    log: Option<String>,

    /// where the name servers are found (/etc/resolv.conf)
    #[argh(option, default = "Options::default().resolv_conf")]
    resolv_conf: PathBuf,

    /// names that need no name server (/etc/hosts)
    #[argh(option, default = "Options::default().hosts")]
    hosts: PathBuf,
}

impl Run {
    pub(super) fn run(self) -> Exit {
        if let Some(message) = self.log.as_deref().and_then(log_problem) {
            return complain(Exit::Usage, &format!("--log: {message}"));
        }
        let mut made = None;
        let mut make_key = |path: &Path| {
            let (key, pem) = keys::make_if_missing(path)?;
            made = Some((path.to_owned(), key));
            Ok(pem)
        };
        let Loaded { report, plan, log, files } = load_or_make(&self.config, Some(&mut make_key));
        if let Some((path, key)) = made {
            answer(Exit::Fine, &format!("made the key file {}\n{}", path.display(), keys::shown(&key)));
        }
        // An environment that is wrong does not keep a router from starting.
        let environment = std::env::var("WATTLE_LOG").ok().filter(|filter| !filter.is_empty());
        let wrong = environment.as_deref().and_then(log_problem);
        let environment = environment.filter(|_| wrong.is_none());
        logging::start(self.log.or(environment).or(log).as_deref().unwrap_or("info"));
        if let Some(message) = wrong {
            log::warn!("WATTLE_LOG: {message}");
        }
        let Some(plan) = plan else {
            let count = report.errors.len();
            return complain(
                Exit::Problem,
                &format!(
                    "the configuration has {count} {}\n{}",
                    if count == 1 { "error" } else { "errors" },
                    check::listing(&report).trim_end()
                ),
            );
        };
        for warning in &report.warnings {
            log::warn!("{warning}");
        }
        let config = self.config;
        let source = Box::new(move || {
            let Loaded { report, plan, files, .. } = load(&config);
            Reading { plan: plan.ok_or_else(|| summary(&report)), files }
        });
        match daemon::run(plan, files, source, Options { resolv_conf: self.resolv_conf, hosts: self.hosts }) {
            Ok(()) => Exit::Fine,
            Err(error) => complain(Exit::Problem, &error.to_string()),
        }
    }
}

/// The first of the errors, and how many more there are.
fn summary(report: &Report) -> String {
    let first = report.errors.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string);
    match report.errors.len() {
        0 | 1 => first,
        count => format!("{count} errors, the first: {first}"),
    }
}
