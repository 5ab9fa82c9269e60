//! Changing and looking at a link that runs: words in, JSON out, over a unix socket.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::task::Context;
use std::time::Duration;

use serde_json::{Value, json};
use smol::Async;

use crate::link::{Direction, apply};

/// The socket; its file goes away with it.
pub(super) struct Control {
    listener: Async<UnixListener>,
    path: PathBuf,
}

impl Control {
    pub(super) fn bind(path: &Path) -> Result<Control, String> {
        let failed = |error: io::Error| format!("cannot make {}: {error}", path.display());
        let listener = UnixListener::bind(path).map_err(failed)?;
        Ok(Control { listener: Async::new(listener).map_err(failed)?, path: path.to_owned() })
    }

    /// Answers whoever asks; afterwards the task wakes when somebody does.
    pub(super) fn serve(&mut self, context: &mut Context<'_>, directions: &mut [Direction; 2]) {
        loop {
            while let Ok((stream, _)) = self.listener.get_ref().accept() {
                // One that does not ask within a moment is not waited for: the frames are more important.
                let _ = converse(stream, directions);
            }
            if self.listener.poll_readable(context).is_pending() {
                return;
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends words to a link and prints its answer.
pub(super) fn ask(socket: &str, words: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{socket}: {error}");
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.write_all(words.as_bytes()).map_err(failed)?;
    stream.shutdown(Shutdown::Write).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let value: Value = serde_json::from_str(&answer).map_err(|error| format!("{socket}: {error}"))?;
    match value.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => {
            crate::say(&answer);
            Ok(())
        }
    }
}

fn converse(mut stream: UnixStream, directions: &mut [Direction; 2]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut words = String::new();
    (&mut stream).take(4096).read_to_string(&mut words)?;
    let mut settings = [directions[0].settings(), directions[1].settings()];
    let answer = match words.split_whitespace().try_for_each(|word| apply(&mut settings, word)) {
        Ok(()) => {
            for (direction, settings) in directions.iter_mut().zip(settings) {
                direction.set(settings);
            }
            json!({ "ab": directions[0].report(), "ba": directions[1].report() })
        }
        Err(error) => json!({ "error": error }),
    };
    stream.write_all(answer.to_string().as_bytes())
}

const PATIENCE: Duration = Duration::from_millis(20);
