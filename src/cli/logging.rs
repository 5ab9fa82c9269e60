//! Log lines: level and message, one line of at most 160 characters. Whoever collects them adds the time.
//!
//! Warnings and errors go to stderr, the rest to stdout, as routers' container logs tell them apart.

use std::io::Write as _;

use env_logger::{Logger, Target};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::config::report::clip;

/// Starts logging with a filter such as `info,wattle::ike=debug`.
pub(super) fn start(filter: &str) {
    let both = Both { out: logger(filter, Target::Stdout), err: logger(filter, Target::Stderr) };
    let level = both.err.filter();
    // It can only fail if it was called before, and then there is a logger.
    if log::set_boxed_logger(Box::new(both)).is_ok() {
        log::set_max_level(level);
    }
}

struct Both {
    out: Logger,
    err: Logger,
}

impl Both {
    fn of(&self, level: Level) -> &Logger {
        if level <= Level::Warn { &self.err } else { &self.out }
    }
}

impl Log for Both {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.of(metadata.level()).enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.of(record.level()).log(record);
    }

    fn flush(&self) {
        self.out.flush();
        self.err.flush();
    }
}

fn logger(filter: &str, target: Target) -> Logger {
    let mut builder = env_logger::Builder::new();
    builder.filter_level(LevelFilter::Info).parse_filters(filter).target(target).format(|out, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        let line = format!("{level:5} {}", record.args());
        // What others put into a message must not look like a line of its own.
        writeln!(out, "{}", clip(&line.replace(char::is_control, " "), MAX_LINE))
    });
    builder.build()
}

const MAX_LINE: usize = 160;
