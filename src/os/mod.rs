//! The operating system: TUN, UDP, netlink, names, signals, changed files, the machine itself. The only unsafe code, nearly all of it in `sys`.
//!
//! Everything here is non-blocking and is polled by the daemon's loop through smol; nothing here knows the protocols.
//! Linux 5.6 (RouterOS) is enough; what an older or smaller kernel lacks costs one warning, never the process.

pub mod host;
pub mod kernel;
pub mod netlink;
pub mod netns;
pub mod resolve;
pub mod signals;
mod sys;
pub mod tun;
pub mod udp;
pub mod uplink;
pub mod watch;

/// The system's words for an error, without the number that the standard library appends.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_have_no_number() {
        // glibc's words are "Network is unreachable", musl's "Network unreachable".
        let words = super::words(&std::io::Error::from_raw_os_error(libc::ENETUNREACH));
        assert!(words.starts_with("Network ") && words.ends_with("unreachable"), "{words}");
    }
}
