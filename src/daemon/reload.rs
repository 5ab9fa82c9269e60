//! Reading the configuration again: on SIGHUP, on `wattle reload`, and when one of its files is replaced.
//!
//! A file that is wrong is told and changes nothing.

use std::cell::RefCell;
use std::path::PathBuf;
use std::task::Context;
use std::time::{Duration, Instant};

use super::clock::Clock;
use crate::config::plan::Plan;
use crate::node::Node;
use crate::os::watch::Watch;
use crate::os::words;

/// What the files say now.
pub struct Reading {
    /// The plan, or what is wrong, in one line.
    pub plan: Result<Plan, String>,
    /// The files that it was read from.
    pub files: Vec<PathBuf>,
}

/// Reads the configuration; its files are the caller's business.
pub type Source = Box<dyn Fn() -> Reading>;

pub(super) struct Reloader<'a> {
    node: &'a RefCell<Node>,
    clock: Clock,
    source: Source,
    files: RefCell<Vec<PathBuf>>,
}

impl<'a> Reloader<'a> {
    pub(super) fn new(node: &'a RefCell<Node>, clock: Clock, source: Source, files: Vec<PathBuf>) -> Reloader<'a> {
        Reloader { node, clock, source, files: RefCell::new(files) }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    /// Whether it was of use, and what came of it.
    pub(super) fn reload(&self, why: &str) -> (bool, String) {
        let Reading { plan, files } = (self.source)();
        *self.files.borrow_mut() = files;
        match plan {
            Ok(plan) => {
                let done = self.node.borrow_mut().reload(self.clock.now(), plan);
                let text = format!("configuration read again ({why}): {done}");
                // Files are touched without being changed, by editors and by whoever mounts them.
                let level = match (done.is_nothing(), done.needs_restart.is_empty()) {
                    (_, false) => log::Level::Warn,
                    (true, true) => log::Level::Debug,
                    (false, true) => log::Level::Info,
                };
                log::log!(level, "{text}");
                (true, text)
            }
            Err(problem) => {
                let text = format!("the new configuration is not in force ({why}): {problem}");
                log::warn!("{text}");
                self.node.borrow_mut().reload_failed(problem);
                (false, text)
            }
        }
    }
}

/// Looks out for changed files, and lets them settle before they are read.
pub(super) struct Lookout {
    watch: Option<Watch>,
    at: Option<Instant>,
}

impl Lookout {
    pub(super) fn new(files: Vec<PathBuf>) -> Lookout {
        let watch = Watch::open(files).inspect_err(|error| {
            log::warn!("changed files are not noticed here ({}): use wattle reload or SIGHUP", words(error));
        });
        Lookout { watch: watch.ok(), at: None }
    }

    pub(super) fn set(&mut self, files: Vec<PathBuf>) {
        if let Some(watch) = &mut self.watch {
            watch.set(files);
        }
    }

    /// Learns of changes. `true` if [`Lookout::deadline`] has moved.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let changed = self.watch.as_mut().is_some_and(|watch| watch.poll(context));
        if changed && self.at.is_none() {
            self.at = Some(Clock::instant() + SETTLE);
            return true;
        }
        false
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Whether it is time to read the files.
    pub(super) fn take_due(&mut self) -> bool {
        self.at.take_if(|at| *at <= Clock::instant()).is_some()
    }
}

/// Several files change together, and some are written in several steps.
const SETTLE: Duration = Duration::from_millis(500);
