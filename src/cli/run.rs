//! `wattle run`: the daemon.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use argh::FromArgs;

use super::{Exit, answer, check, complain, default_config, keys, logging};
use crate::config::check::log_problem;
use crate::config::load::{Loaded, MissingKey, load, load_with};
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

    /// log to the system's /dev/log instead of standard output and error
    #[argh(switch)]
    syslog: bool,

    /// a global address: the IPv6 default route leads there if nothing else sets one (RouterOS: the veth's gateway6)
    #[argh(option)]
    gateway6: Option<String>,
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
        let Loaded { report, plan, files } = load_with(&self.config, MissingKey::Make(&mut make_key));
        if let Some((path, key)) = made {
            answer(Exit::Fine, &format!("made the key file {}\n{}", path.display(), keys::shown(&key)));
        }
        // An environment that is wrong does not keep a router from starting.
        let environment = variable("WATTLE_LOG");
        let wrong = environment.as_deref().and_then(log_problem);
        let environment = environment.filter(|_| wrong.is_none());
        let log = plan.as_ref().and_then(|plan| plan.log.clone());
        logging::start(self.log.or(environment).or(log).as_deref().unwrap_or("info"), self.syslog);
        if let Some(message) = wrong {
            log::warn!("WATTLE_LOG: {message}");
        }
        let Some(plan) = plan else {
            let count = report.errors.len();
            let errors = if count == 1 { "error" } else { "errors" };
            let lines: Vec<String> = report.errors.iter().flat_map(check::log_lines).collect();
            return complain(Exit::Problem, &format!("the configuration has {count} {errors}\n{}", lines.join("\n")));
        };
        for line in report.warnings.iter().flat_map(check::log_lines) {
            log::warn!("{line}");
        }
        let gateway6 = self.gateway6.or_else(|| variable("WATTLE_GATEWAY6")).and_then(|text| gateway(&text));
        let config = self.config;
        let source = Box::new(move || {
            let Loaded { report, plan, files, .. } = load(&config);
            Reading { plan: plan.ok_or_else(|| summary(&report)), files }
        });
        let options = Options { resolv_conf: self.resolv_conf, hosts: self.hosts, gateway6 };
        match daemon::run(plan, files, source, options) {
            Ok(()) => Exit::Fine,
            Err(error) => complain(Exit::Problem, &error.to_string()),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What cannot be a gateway is told, and then there is none.
fn gateway(text: &str) -> Option<Ipv6Addr> {
    let address =
        text.parse().ok().filter(|address: &Ipv6Addr| !address.is_unicast_link_local() && !address.is_multicast());
    if address.is_none() {
        log::warn!("the IPv6 gateway {text:?} is no global address: no default route is set");
    }
    address
}

/// The first of the errors, and how many more there are.
fn summary(report: &Report) -> String {
    let first = report.errors.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string);
    match report.errors.len() {
        0 | 1 => first,
        count => format!("{count} errors, the first: {first}"),
    }
}
