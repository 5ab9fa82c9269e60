//! Files that are written or replaced, told by inotify.
//!
//! Editors and installers put a new file in the place of the old one, so the folders are watched; a file that is mounted by
//! itself is written in place, so the files are watched, too. A file that is mounted by itself and *replaced* outside stays the
//! old one in here: nothing can tell.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::task::Context;

use smol::Async;

use super::sys;

pub struct Watch {
    inotify: Async<File>,
    files: Vec<PathBuf>,
    /// The names that count, by watch; none for a watch on a file itself.
    watches: BTreeMap<i32, Vec<OsString>>,
}

impl Watch {
    /// # Errors
    /// When the kernel has no inotify, or all of it is in use.
    pub fn open(files: Vec<PathBuf>) -> io::Result<Watch> {
        let mut watch = Watch { inotify: Async::new(sys::inotify()?)?, files, watches: BTreeMap::new() };
        watch.renew()?;
        Ok(watch)
    }

    /// Watches these files instead.
    pub fn set(&mut self, files: Vec<PathBuf>) {
        self.files = files;
        if let Err(error) = self.renew() {
            log::debug!("inotify: {error}");
        }
    }

    /// Whether one of the files may have changed. After `false` the task wakes when one does.
    pub fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut changed = false;
        let mut buffer = [0; EVENTS];
        loop {
            match self.inotify.get_ref().read(&mut buffer) {
                Ok(length) => changed |= self.concerns(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    if self.inotify.poll_readable(context).is_pending() {
                        break;
                    }
                }
            }
        }
        if changed && let Err(error) = self.renew() {
            log::debug!("inotify: {error}");
        }
        changed
    }

    /// Adds what is missing: the kernel forgets the watch of a file that is gone.
    fn renew(&mut self) -> io::Result<()> {
        self.watches.clear();
        let mut last = None;
        for path in &self.files {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                Some(_) | None => Path::new("."),
            };
            match sys::inotify_add(self.inotify.as_ref(), folder, FOLDER) {
                Ok(id) => self.watches.entry(id).or_default().extend(path.file_name().map(OsStr::to_owned)),
                Err(error) => last = Some(error),
            }
            // It need not be there now.
            if let Ok(id) = sys::inotify_add(self.inotify.as_ref(), path, WRITTEN) {
                self.watches.entry(id).or_default();
            }
        }
        last.filter(|_| self.watches.is_empty()).map_or(Ok(()), Err)
    }

    /// Reads `struct inotify_event`s: watch, mask, cookie, length, name with padding.
    fn concerns(&self, mut events: &[u8]) -> bool {
        let mut any = false;
        while let Some((head, rest)) = events.split_first_chunk::<16>() {
            let [a, b, c, d, m0, m1, m2, m3, _, _, _, _, l0, l1, l2, l3] = *head;
            let (id, mask) = (i32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([m0, m1, m2, m3]));
            let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
            let Some((name, after)) = rest.split_at_checked(length) else { break };
            events = after;
            any |= mask & OVERFLOW != 0 || self.watches.get(&id).is_some_and(|names| matters(names, mask, name));
        }
        any
    }
}

fn matters(names: &[OsString], mask: u32, name: &[u8]) -> bool {
    let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
    match (name.is_empty(), names.is_empty()) {
        // The file itself, and not that its watch has gone.
        (true, true) => mask & WRITTEN != 0,
        // Kubernetes and its like swap a link called "..data".
        (false, false) => name.starts_with(b"..") || names.iter().any(|other| other.as_bytes() == name),
        (true, false) | (false, true) => false,
    }
}

const WRITTEN: u32 = libc::IN_CLOSE_WRITE;
const FOLDER: u32 = libc::IN_CLOSE_WRITE | libc::IN_MOVED_TO | libc::IN_CREATE;
const OVERFLOW: u32 = libc::IN_Q_OVERFLOW;
const EVENTS: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;

    /// Whether a change is told within the time.
    fn told(watch: &mut Watch, limit: Duration) -> bool {
        let change = poll_fn(|context| if watch.poll(context) { Poll::Ready(true) } else { Poll::Pending });
        let timer = async {
            smol::Timer::after(limit).await;
            false
        };
        smol::block_on(smol::future::or(change, timer))
    }

    const SOON: Duration = Duration::from_secs(5);
    const NEVER: Duration = Duration::from_millis(200);

    #[test]
    fn writing_and_replacing_are_told_again_and_again_and_neighbours_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("wattle.json"), folder.path().join("other"));
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::open(vec![file.clone()]).unwrap();
        assert!(!told(&mut watch, NEVER));
        for turn in 0..3 {
            fs::write(&file, format!("written {turn}")).unwrap();
            assert!(told(&mut watch, SOON), "written in place");
            while told(&mut watch, NEVER) {}
            let new = folder.path().join("new");
            fs::write(&new, format!("replaced {turn}")).unwrap();
            fs::rename(&new, &file).unwrap();
            assert!(told(&mut watch, SOON), "replaced");
            while told(&mut watch, NEVER) {}
        }
        fs::write(&other, "x").unwrap();
        fs::read(&file).unwrap();
        assert!(!told(&mut watch, NEVER), "another file, or reading");
    }

    #[test]
    fn a_file_that_appears_later_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("registry.json");
        let mut watch = Watch::open(vec![file.clone()]).unwrap();
        fs::write(&file, "1").unwrap();
        assert!(told(&mut watch, SOON));
        assert!(Watch::open(vec![PathBuf::from("/no/such/folder/file")]).is_err());
    }
}
