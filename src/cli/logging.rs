//! Log lines: level and message, one line of at most 160 characters. Whoever collects them adds the time.
//!
//! Warnings and errors go to stderr, the rest to stdout, as routers' container logs tell them apart; or all of it to syslog,
//! which knows the level of each.

use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use env_logger::{Logger, Target};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::config::report::clip;

/// Starts logging with a filter such as `info,wattle::ike=debug`.
pub(super) fn start(filter: &str, syslog: bool) {
    let syslog = syslog.then(|| Syslog::new(Path::new(DEV_LOG)));
    let both = Both { out: logger(filter, Target::Stdout), err: logger(filter, Target::Stderr), syslog };
    let level = both.err.filter();
    // It can only fail if it was called before, and then there is a logger.
    if log::set_boxed_logger(Box::new(both)).is_ok() {
        log::set_max_level(level);
    }
}

struct Both {
    out: Logger,
    err: Logger,
    syslog: Option<Syslog>,
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
        let logger = self.of(record.level());
        // Whoever is not there to listen does not make the line disappear.
        match &self.syslog {
            Some(syslog) if logger.matches(record) => {
                if syslog.send(record.level(), &line(record)).is_err() {
                    logger.log(record);
                }
            }
            _ => logger.log(record),
        }
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
        writeln!(out, "{}", clip(&format!("{level:5} {}", line(record)), MAX_LINE))
    });
    builder.build()
}

/// What others put into a message must not look like a line of its own.
fn line(record: &Record<'_>) -> String {
    record.args().to_string().replace(char::is_control, " ")
}

/// The system's log: datagrams of RFC 3164 without time and host, which the one who collects them adds.
struct Syslog {
    path: PathBuf,
    /// `None` until the next line: the other end is made anew when its daemon restarts.
    socket: Mutex<Option<UnixDatagram>>,
}

impl Syslog {
    fn new(path: &Path) -> Syslog {
        Syslog { path: path.to_owned(), socket: Mutex::new(None) }
    }

    /// Never waits: a log daemon that does not read must not stop the packets.
    fn send(&self, level: Level, line: &str) -> io::Result<()> {
        let text = format!("<{}>wattle[{}]: {}", priority(level), std::process::id(), clip(line, MAX_LINE));
        let mut slot = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = &*slot
            && socket.send(text.as_bytes()).is_ok()
        {
            return Ok(());
        }
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.path)?;
        socket.set_nonblocking(true)?;
        socket.send(text.as_bytes())?;
        *slot = Some(socket);
        Ok(())
    }
}

/// The facility `daemon` (3) and the severity (RFC 3164 §4.1.1).
fn priority(level: Level) -> u8 {
    3 * 8
        + match level {
            Level::Error => 3,
            Level::Warn => 4,
            Level::Info => 6,
            Level::Debug | Level::Trace => 7,
        }
}

const DEV_LOG: &str = "/dev/log";
/// RouterOS cuts lines at 179, the container's name included.
pub(super) const MAX_LINE: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslog_gets_levels_and_survives_its_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let syslog = Syslog::new(&path);
        assert!(syslog.send(Level::Warn, "nobody listens").is_err());
        for turn in 0..2 {
            let daemon = UnixDatagram::bind(&path).unwrap();
            daemon.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let pid = std::process::id();
            for (level, number) in [(Level::Error, 27), (Level::Warn, 28), (Level::Info, 30), (Level::Debug, 31)] {
                syslog.send(level, &format!("turn {turn}")).unwrap();
                let mut buffer = [0; 512];
                let length = daemon.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], format!("<{number}>wattle[{pid}]: turn {turn}").as_bytes());
            }
            drop(daemon);
            std::fs::remove_file(&path).unwrap();
            assert!(syslog.send(Level::Info, "gone").is_err());
        }
    }

    #[test]
    fn a_log_daemon_that_does_not_read_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let syslog = Syslog::new(&path);
        let sent = (0..10_000).take_while(|_| syslog.send(Level::Info, &"x".repeat(1000)).is_ok()).count();
        assert!(sent > 0 && sent < 10_000, "{sent}");
    }
}
