//! Signals as something to read. SIGPIPE is ignored by Rust's runtime already; SIGHUP is taken, so that it ends nothing.
//! As process 1 of a container we also bury the orphans: nobody else does.

use std::fs::File;
use std::io::{self, Read as _};
use std::task::Context;

use smol::Async;

use super::sys;

pub struct Signals {
    file: Async<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: end cleanly.
    Terminate,
    /// SIGHUP.
    Hangup,
}

impl Signals {
    /// Blocks the signals in this thread and in those it starts later: call it before smol starts its helper.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn open() -> io::Result<Signals> {
        let mut signals = vec![libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
        if std::process::id() == 1 {
            signals.push(libc::SIGCHLD);
        }
        let file = sys::signal_descriptor(&signals)?;
        Ok(Signals { file: Async::new(file)? })
    }

    /// The next signal, if one has come. After a `None` the task wakes when one comes.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Option<Signal> {
        loop {
            // struct signalfd_siginfo, which starts with the number
            let mut information = [0; 128];
            match self.file.get_ref().read(&mut information) {
                Ok(_) => {
                    let [a, b, c, d, ..] = information;
                    match i32::try_from(u32::from_ne_bytes([a, b, c, d])) {
                        Ok(libc::SIGTERM | libc::SIGINT) => return Some(Signal::Terminate),
                        Ok(libc::SIGHUP) => return Some(Signal::Hangup),
                        Ok(libc::SIGCHLD) => sys::reap(),
                        _ => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    if self.file.poll_readable(context).is_pending() {
                        return None;
                    }
                }
            }
        }
    }

    /// Ends this process cleanly when its parent ends: the parent's end comes as SIGTERM.
    ///
    /// # Errors
    /// When the kernel cannot do it.
    pub fn end_with_parent(&self) -> io::Result<()> {
        sys::signal_on_parent_exit(libc::SIGTERM)
    }
}
