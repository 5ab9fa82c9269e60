//! The unix socket that `wattle status` asks: one line of JSON in, one line out, then it is closed.
//!
//! A client costs at most 4 KiB and five seconds for its request, and five more for reading the answer; sixteen are served
//! at a time, the others wait in the kernel. Only the user that runs the daemon may connect (mode 0600).

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::lock::Semaphore;
use smol::net::unix::UnixStream;
use smol::{Async, LocalExecutor, Timer};
use socket2::{Domain, SockAddr, Socket, Type};

use super::model::{Answer, Request};

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("another wattle runs: it answers at {} (\"control\" names another socket)", path.display())]
    Taken { path: PathBuf },
    #[error("{} exists and is not a socket: remove it, or name another one in \"control\"", path.display())]
    NotSocket { path: PathBuf },
    #[error("cannot make the control socket {}: {reason}", path.display())]
    Failed { path: PathBuf, reason: String },
}

/// The listening socket; its file goes away with it.
#[derive(Debug)]
pub struct Server {
    listener: Async<UnixListener>,
    path: PathBuf,
    /// Device and inode, so that a successor's file is left alone.
    identity: (u64, u64),
}

/// The answer to one line, with its newline. Nothing in `line` can make it fail: bad requests get [`Answer::Error`].
pub fn answer(line: &[u8], ask: impl FnOnce(Request) -> Answer) -> Vec<u8> {
    let answer = match serde_json::from_slice(line) {
        Ok(request) => ask(request),
        Err(_) => Answer::Error { message: "not a request that this version of wattle knows".to_owned() },
    };
    let mut line = serde_json::to_vec(&answer)
        .unwrap_or_else(|_| br#"{"answer":"error","message":"the answer cannot be written as JSON"}"#.to_vec());
    line.push(b'\n');
    line
}

impl Server {
    /// Listens at `path`; a socket that nobody serves any more is replaced.
    pub fn bind(path: &Path) -> Result<Server, BindError> {
        let failed = |error: io::Error| BindError::Failed { path: path.to_owned(), reason: super::reason(&error) };
        // An image made from nothing has no /run.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                return Err(BindError::NotSocket { path: path.to_owned() });
            }
            if is_served(path).map_err(failed)? {
                return Err(BindError::Taken { path: path.to_owned() });
            }
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = listen(path).map_err(failed)?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Server { listener: Async::new(listener).map_err(failed)?, path: path.to_owned(), identity })
    }

    /// Answers for ever; drop the future to stop. `ask` runs on this thread, for one request at a time.
    pub async fn serve(self, ask: impl FnMut(Request) -> Answer) {
        let ask = RefCell::new(ask);
        let places = Arc::new(Semaphore::new(MAX_CLIENTS));
        let clients = LocalExecutor::new();
        let accept = async {
            loop {
                let place = places.acquire_arc().await;
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let client = async {
                            // A client that goes away or is too slow has only itself to tell.
                            let _ = client(stream.into(), &ask).await;
                            drop(place);
                        };
                        clients.spawn(client).detach();
                    }
                    Err(error) => {
                        log::debug!("control socket: {error}");
                        Timer::after(PAUSE).await;
                    }
                }
            }
        };
        clients.run(accept).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

async fn client(mut stream: UnixStream, ask: &RefCell<impl FnMut(Request) -> Answer>) -> io::Result<()> {
    let Some(line) = in_time(read_line(&mut stream)).await? else { return Ok(()) };
    let answer = answer(&line, |request| (ask.borrow_mut())(request));
    in_time(stream.write_all(&answer)).await
}

/// `None` if the line is too long, which no request is, or empty.
async fn read_line(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let read = stream.read(&mut buffer).await?;
        let octets = buffer.get(..read).unwrap_or_default();
        let (part, ended) = match octets.iter().position(|&octet| octet == b'\n') {
            Some(end) => (octets.get(..end).unwrap_or_default(), true),
            None => (octets, read == 0),
        };
        line.extend_from_slice(part);
        if line.len() > MAX_REQUEST {
            return Ok(None);
        }
        if ended {
            return Ok(Some(line).filter(|line| !line.is_empty()));
        }
    }
}

async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = async {
        Timer::after(TIMEOUT).await;
        Err(io::ErrorKind::TimedOut.into())
    };
    work.or(late).await
}

fn is_served(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        // Its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = File::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
    // Linux gives the file the mode of the socket: at no time can others connect.
    socket.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

const TIMEOUT: Duration = Duration::from_secs(5);
/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_REQUEST: usize = 4096;
const MAX_CLIENTS: usize = 16;
const BACKLOG: i32 = 16;

#[cfg(test)]
mod tests;
