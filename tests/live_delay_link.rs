//! delay-link, which other tests stand on: it delays as told, changes while it runs, and leaves nothing. As root.

#![expect(clippy::unwrap_used, reason = "a test fails where its helper does")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_delay-link");

struct World {
    namespaces: [String; 2],
    link: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.link.kill();
        let _ = self.link.wait();
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The smallest round-trip time of ten pings, in milliseconds: the busiest machine cannot make it smaller.
fn ping(namespace: &str) -> Option<f64> {
    let words = ["netns", "exec", namespace, "ping", "-qc10", "-i0.02", "-W1", "10.0.0.2"];
    let output = Command::new("ip").args(words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.split_once("mdev = ")?.1.split_once('/')?.0.parse().unwrap())
}

#[test]
fn live_delay_link() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control").display().to_string();
    let namespaces = ["a", "b"].map(|end| format!("wattle-link-{end}-{}", std::process::id()));
    for namespace in &namespaces {
        ip(&format!("netns add {namespace}"));
    }
    let [a, b] = namespaces.each_ref().map(String::as_str);
    let link = Command::new(PROGRAM)
        .args(["run", a, "wire0", b, "wire0", "--mtu", "1400", "--control", &socket, "delay=12", "delay_ba=8"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut world = World { namespaces: namespaces.clone(), link };
    let mut first = String::new();
    BufReader::new(world.link.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "ready\n");
    ip(&format!("-n {a} addr add 10.0.0.1/24 dev wire0"));
    ip(&format!("-n {b} addr add 10.0.0.2/24 dev wire0"));
    assert!(ip(&format!("-n {a} link show wire0")).contains("mtu 1400"));
    let set = |setting: &str| Command::new(PROGRAM).args(["set", &socket, setting]).output().unwrap();

    let rtt = ping(a).unwrap();
    assert!((20.0..21.5).contains(&rtt), "12 ms + 8 ms: {rtt}");
    assert!(set("delay=1").status.success());
    let rtt = ping(a).unwrap();
    assert!((2.0..3.5).contains(&rtt), "twice 1 ms: {rtt}");
    assert!(set("loss_ab=100").status.success());
    assert_eq!(ping(a), None);
    assert!(set("loss=0").status.success());
    assert!(ping(a).is_some());
    for wrong in ["delay", "delay=x", "delay=-1", "speed=1"] {
        assert!(!set(wrong).status.success(), "{wrong}");
    }

    let _ = Command::new("kill").args(["-TERM", &world.link.id().to_string()]).status();
    assert!(world.link.wait().unwrap().success());
    assert!(!std::path::Path::new(&socket).exists());
    assert!(!ip(&format!("-n {a} link")).contains("wire0"));
}
