//! `wattle run` where it cannot: one clear line, exit code 1, and nothing left behind. In namespaces of its own, as root.

#![expect(clippy::unwrap_used, reason = "a test fails where its helper does")]
#![expect(clippy::disallowed_methods, reason = "the other side of the system is played here")]

use std::net::UdpSocket;
use std::process::Command;

use tempfile::TempDir;
use wattle::os::netns::within;

/// A configuration in a folder of its own, and a namespace to start it in.
struct Site {
    folder: TempDir,
    namespace: String,
}

impl Site {
    fn new(test: &str, tun: &str) -> Site {
        let namespace = format!("wattle-start-{test}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &namespace]).status();
        assert!(made.is_ok_and(|status| status.success()), "live tests need root and iproute2");
        let site = Site { folder: TempDir::new().unwrap(), namespace };
        assert!(site.run(&["keygen", "a.key"]).0 == Some(0));
        let configuration = format!(r#"{{ "name": "a", "private_key": "a.key", "tun": {tun}, "control": "a.sock" }}"#);
        std::fs::write(site.folder.path().join("a.json"), configuration).unwrap();
        site
    }

    /// Runs wattle in the folder and the namespace, after these words; gives its exit code and standard error.
    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        self.run_by(&[], words)
    }

    fn run_by(&self, before: &[&str], words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).args(before).arg(env!("CARGO_BIN_EXE_wattle")).args(words);
        let output = command.current_dir(self.folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Starting fails with exactly this line, which is not too long, and leaves nothing.
    fn fails(&self, before: &[&str], expected: &str) {
        let (code, error) = self.run_by(before, &["run", "--log", "error", "--config", "a.json"]);
        assert_eq!((code, error.trim_end()), (Some(1), &*format!("wattle: {expected}")));
        assert!(expected.len() <= 160);
        assert!(!self.folder.path().join("a.sock").exists());
        for view in [&["link"][..], &["rule"], &["-6", "rule"]] {
            let output = Command::new("ip").args(["-n", &self.namespace]).args(view).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(!text.contains("wattle0") && !text.contains("proto 87"), "{text}");
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

const TUN: &str = r#"{ "addresses": ["10.66.0.1/32", "fd66::1/128"] }"#;

#[test]
fn live_port_taken() {
    let site = Site::new("port", TUN);
    let _other = within(&site.namespace, || UdpSocket::bind("0.0.0.0:4500")).unwrap();
    site.fails(&[], "UDP port 4500 is taken by another program (to see which: ss -ulpn 'sport = :4500')");
}

#[test]
fn live_no_device_file() {
    let site = Site::new("device", TUN);
    let hide = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$@\"", "sh"];
    site.fails(
        &hide,
        "cannot open /dev/net/tun: No such file or directory; run as root or give CAP_NET_ADMIN; in a container pass the device",
    );
}

#[test]
fn live_no_permission() {
    let site = Site::new("rights", TUN);
    let without = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"];
    site.fails(&without, "cannot make wattle0: Operation not permitted; run as root or give CAP_NET_ADMIN");
}

#[test]
fn live_device_busy() {
    let site = Site::new("busy", r#"{ "name": "mesh0" }"#);
    let _other = within(&site.namespace, || {
        wattle::os::tun::Tun::open("mesh0", wattle::offload::Switch::Auto).map_err(std::io::Error::other)
    })
    .unwrap();
    site.fails(&[], "cannot make mesh0: another program has this device open (another wattle?)");
}
