//! Log lines: level and message on stderr, one line of at most 160 characters. Whoever collects them adds the time.

use std::io::Write as _;

use log::LevelFilter;

use crate::config::report::clip;

/// Starts logging with a filter such as `info,wattle::ike=debug`.
pub(super) fn start(filter: &str) {
    let mut builder = env_logger::Builder::new();
    builder.filter_level(LevelFilter::Info).parse_filters(filter).format(|out, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        writeln!(out, "{}", clip(&format!("{level:5} {}", record.args()), MAX_LINE))
    });
    // It can only fail if it was called before, and then there is a logger.
    let _ = builder.try_init();
}

const MAX_LINE: usize = 160;
