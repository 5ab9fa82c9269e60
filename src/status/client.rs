//! Asking the daemon over its unix socket: one line of JSON there, one line back.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::model::{Answer, Request};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no daemon answers at {}: {reason}; is \"wattle run\" running? (--socket names another socket)", path.display())]
    Unreachable { path: PathBuf, reason: String },
    #[error("the daemon at {} does not answer in time", path.display())]
    Silent { path: PathBuf },
    #[error("the daemon at {} speaks another language: is it of another version?", path.display())]
    Foreign { path: PathBuf },
}

/// Asks, and waits at most [`TIMEOUT`] for each step.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ClientError> {
    let line = exchange(path, request).map_err(|error| {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            ClientError::Silent { path: path.to_owned() }
        } else {
            ClientError::Unreachable { path: path.to_owned(), reason: super::reason(&error) }
        }
    })?;
    if line.is_empty() {
        let reason = "it closed the connection".to_owned();
        return Err(ClientError::Unreachable { path: path.to_owned(), reason });
    }
    serde_json::from_slice(&line).map_err(|_| ClientError::Foreign { path: path.to_owned() })
}

fn exchange(path: &Path, request: &Request) -> io::Result<Vec<u8>> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // For a unix socket this bounds the time of connecting, too.
    socket.set_write_timeout(Some(TIMEOUT))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(&SockAddr::unix(path)?)?;
    let mut stream = UnixStream::from(OwnedFd::from(socket));
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

pub const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER: u64 = 64 << 20;
