//! The binary as a person or a script runs it: exit codes, and what goes to stdout and to stderr.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests, too, fail by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use wattle::status::model::{Answer, Config, PathReport, Peer, Request, SCHEMA, Snapshot, State};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn wattle(folder: &Path, args: &[&str]) -> Ran {
    let output = command(folder, args).output().unwrap();
    Ran {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattle"));
    command.args(args).current_dir(folder).env_remove("WATTLE_LOG").stdin(Stdio::null());
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Answers one request at `wattle.sock` in the folder while `test` runs.
fn with_daemon(answer: Answer, test: impl FnOnce(&Path)) {
    let folder = folder();
    let listener = UnixListener::bind(folder.path().join("wattle.sock")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a daemon that gives known answers")]
    let daemon = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let request: Request = serde_json::from_str(&line).unwrap();
        stream.write_all(format!("{}\n", serde_json::to_string(&answer).unwrap()).as_bytes()).unwrap();
        request
    });
    test(folder.path());
    daemon.join().unwrap();
}

fn snapshot(state: State) -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        version: "0.1.0".to_owned(),
        name: "riga".to_owned(),
        fingerprint: "SHA256:x".to_owned(),
        uptime_us: 7_000_000,
        tun: None,
        listen: vec![4500],
        ike_suite: "a".to_owned(),
        esp_suite: "b".to_owned(),
        octets_in: 0,
        octets_out: 0,
        bits_in_per_s: 0,
        bits_out_per_s: 0,
        peers: vec![Peer {
            name: "frankfurt".to_owned(),
            fingerprint: "SHA256:y".to_owned(),
            state,
            via: None,
            reason: None,
            since_us: 1,
            links: Vec::new(),
        }],
        neighbours: Vec::new(),
        routes: Vec::new(),
        policies: Vec::new(),
        drops: Vec::new(),
        sas: Vec::new(),
        refused: Vec::new(),
        half_open: 0,
        config: Config::default(),
    }
}

#[test]
fn help_and_version_are_answers() {
    let folder = folder();
    for args in [&["help"][..], &["--help"], &["-h"], &["status", "--help"], &["status", "-h"]] {
        let ran = wattle(folder.path(), args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.starts_with("Usage: wattle"), "{}", ran.out);
    }
    let commands = wattle(folder.path(), &["help"]).out;
    for command in [
        "run",
        "check",
        "keygen",
        "pubkey",
        "status",
        "peers",
        "routes",
        "neighbours",
        "path",
        "drops",
        "sas",
        "rekey",
        "version",
    ] {
        assert!(commands.contains(&format!("\n  {command} ")), "{commands}");
    }
    let version = format!("wattle {}\n", env!("CARGO_PKG_VERSION"));
    for args in ["--version", "-V"] {
        let ran = wattle(folder.path(), &[args]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, version.as_str(), ""));
    }
    let ran = wattle(folder.path(), &["version"]);
    assert!(ran.out.starts_with(&version) && ran.out.contains("mlkem512 mlkem768 mlkem1024"), "{}", ran.out);
    let json: serde_json::Value = serde_json::from_str(&wattle(folder.path(), &["version", "--json"]).out).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["key_exchanges"], serde_json::json!(["x25519", "mlkem512", "mlkem768", "mlkem1024"]));
}

#[test]
fn wrong_usage_is_two() {
    let folder = folder();
    for args in [
        &[][..],
        &["bogus"],
        &["status", "extra"],
        &["check"],
        &["path"],
        &["path", "not-an-address"],
        &["path", "10.0.0.1", "--from", "::1"],
        &["status", "--sockt", "x"],
        &["run", "--log", "loud"],
    ] {
        let ran = wattle(folder.path(), args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.starts_with("wattle: "), "{args:?}: {}", ran.err);
    }
}

#[test]
fn keys() {
    let folder = folder();
    let made = wattle(folder.path(), &["keygen", "riga.key"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    let mode = fs::metadata(folder.path().join("riga.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let public = wattle(folder.path(), &["pubkey", "riga.key"]);
    let fingerprint = wattle(folder.path(), &["pubkey", "--fingerprint", "riga.key"]);
    assert_eq!((public.code, fingerprint.code), (0, 0));
    assert!(public.out.starts_with("MCowBQYDK2VwAyEA") && fingerprint.out.starts_with("SHA256:"));
    assert_eq!(made.out, format!("public_key   {}fingerprint  {}", public.out, fingerprint.out));
    let json: serde_json::Value =
        serde_json::from_str(&wattle(folder.path(), &["pubkey", "--json", "riga.key"]).out).unwrap();
    assert_eq!(
        (json["public_key"].as_str(), json["fingerprint"].as_str()),
        (Some(public.out.trim()), Some(fingerprint.out.trim()))
    );

    let key = fs::read(folder.path().join("riga.key")).unwrap();
    let again = wattle(folder.path(), &["keygen", "riga.key"]);
    assert_eq!((again.code, again.out.as_str()), (1, ""));
    assert!(again.err.contains("riga.key exists: --force replaces it"), "{}", again.err);
    assert_eq!(fs::read(folder.path().join("riga.key")).unwrap(), key);
    fs::set_permissions(folder.path().join("riga.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(wattle(folder.path(), &["keygen", "--force", "riga.key"]).code, 0);
    assert_ne!(fs::read(folder.path().join("riga.key")).unwrap(), key);
    let mode = fs::metadata(folder.path().join("riga.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

    fs::write(folder.path().join("peer.pub"), &public.out).unwrap();
    assert_eq!(wattle(folder.path(), &["pubkey", "peer.pub"]).out, public.out);
    fs::write(folder.path().join("bad.key"), "nonsense").unwrap();
    for name in ["bad.key", "missing.key"] {
        let ran = wattle(folder.path(), &["pubkey", name]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""));
        assert!(ran.err.contains(name), "{}", ran.err);
    }
    assert_eq!(wattle(folder.path(), &["keygen", "no/such/folder.key"]).code, 1);
}

#[test]
fn check_answers_on_stdout() {
    let folder = folder();
    wattle(folder.path(), &["keygen", "riga.key"]);
    let fine = "{ \"name\": \"riga\", \"private_key\": \"riga.key\", \"tun\": null }";
    fs::write(folder.path().join("fine.json"), fine).unwrap();
    let ran = wattle(folder.path(), &["check", "fine.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.ends_with("fine.json: fine: riga, 0 peers (0 to dial), relay only, UDP 4500\n"), "{}", ran.out);
    assert!(ran.out.contains("no nodes") && ran.out.contains("(warning)"), "{}", ran.out);
    let json = wattle(folder.path(), &["check", "--json", "fine.json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (json.code, verdict["ok"].as_bool(), verdict["errors"].as_array().map(Vec::len)),
        (0, Some(true), Some(0))
    );

    // Before the first start there is no key, which that start makes.
    fs::write(folder.path().join("first.json"), fine.replace("riga.key", "node.key")).unwrap();
    let ran = wattle(folder.path(), &["check", "first.json"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("private_key: there is no key file \"node.key\" yet: wattle run makes it (warning)\n"));
    assert!(ran.out.ends_with("first.json: fine, but for the key\n"), "{}", ran.out);
    let json = wattle(folder.path(), &["check", "--json", "first.json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, verdict["ok"].as_bool()), (0, Some(true)));

    fs::write(folder.path().join("bad.json"), "{ \"name\": \"riga\",\r\n \"privat_key\": 1 }").unwrap();
    let ran = wattle(folder.path(), &["check", "bad.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(
        ran.out,
        "bad.json:2:2: privat_key: unknown field; did you mean \"private_key\"?\nbad.json: 1 error, 0 warnings\n"
    );
    let json = wattle(folder.path(), &["check", "--json", "bad.json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, verdict["ok"].as_bool()), (1, Some(false)));
    assert_eq!(
        (verdict["errors"][0]["line"].as_u64(), verdict["errors"][0]["path"].as_str()),
        (Some(2), Some("privat_key"))
    );
    assert_eq!(wattle(folder.path(), &["check", "missing.json"]).code, 1);
}

#[test]
fn run_refuses_a_bad_configuration_and_says_all_of_it() {
    let folder = folder();
    fs::write(folder.path().join("bad.json"), "{ \"nam\": \"riga\", \"private_key\": \"none.key\" }").unwrap();
    let ran = wattle(folder.path(), &["run", "--config", "bad.json"]);
    // The key that the others have to know is made all the same: it is what a first start is for.
    assert!(ran.code == 1 && ran.out.starts_with("made the key file none.key\npublic_key "), "{}", ran.out);
    assert!(ran.err.starts_with("wattle: the configuration has 1 error\nbad.json:1:3: nam: "), "{}", ran.err);
    let ran = wattle(folder.path(), &["run", "-c", "missing.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("missing.json: cannot read the configuration"), "{}", ran.err);
    // What a mount that was empty has been filled with.
    fs::write(folder.path().join("missing.json.example"), "{}").unwrap();
    let ran = wattle(folder.path(), &["run", "-c", "missing.json"]);
    assert!(ran.err.ends_with("; make it from missing.json.example beside it\n"), "{}", ran.err);
    // A line of a router's log holds 179 characters: place and cure are two lines where they would not fit.
    let long = format!("{}.json", "x".repeat(120));
    fs::write(folder.path().join(&long), "{ \"log\": \"verbose\", \"private_key\": \"none.key\" }").unwrap();
    let ran = wattle(folder.path(), &["run", "-c", &long]);
    assert!(ran.err.lines().all(|line| line.chars().count() <= 160), "{}", ran.err);
    assert!(ran.err.contains(&format!("{long}:1:3: log:\nlog levels are ")), "{}", ran.err);
}

#[test]
fn without_a_daemon_it_is_three() {
    let folder = folder();
    drop(UnixListener::bind(folder.path().join("stale.sock")).unwrap());
    for view in ["status", "peers", "routes", "neighbours", "drops", "sas"] {
        for socket in ["none.sock", "stale.sock"] {
            let ran = wattle(folder.path(), &[view, "--socket", socket]);
            assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{view} {socket}");
            assert!(ran.err.contains("is \"wattle run\" running?"), "{}", ran.err);
        }
    }
    assert_eq!(wattle(folder.path(), &["path", "10.0.0.1", "--socket", "none.sock"]).code, 3);
}

#[test]
fn status_is_one_while_a_peer_fails() {
    for (state, code) in
        [(State::Up, 0), (State::Waiting, 0), (State::Down, 1), (State::NoData, 1), (State::Connecting, 1)]
    {
        with_daemon(Answer::Snapshot(Box::new(snapshot(state))), |folder| {
            let ran = wattle(folder, &["status", "--socket", "wattle.sock"]);
            assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{state:?}");
            assert!(ran.out.starts_with("riga  up 7s   relay only") && ran.out.contains("frankfurt"), "{}", ran.out);
        });
    }
}

#[test]
fn reload_and_health_answer_in_one_line() {
    for (command, fine, code) in [("reload", true, 0), ("reload", false, 1), ("health", true, 0), ("health", false, 1)]
    {
        with_daemon(Answer::Done { fine, message: "what came of it".to_owned() }, |folder| {
            let ran = wattle(folder, &[command, "--socket", "wattle.sock"]);
            assert_eq!(ran.code, code, "{command} {fine}");
            let (said, silent) = if fine { (ran.out, ran.err) } else { (ran.err, ran.out) };
            assert!(said.trim_end().ends_with("what came of it") && said.lines().count() == 1, "{said}");
            assert_eq!(silent, "");
        });
    }
    let folder = tempfile::tempdir().unwrap();
    // Health checks of containers know 0 and 1 only.
    assert_eq!(wattle(folder.path(), &["health", "--socket", "none.sock"]).code, 1);
    assert_eq!(wattle(folder.path(), &["reload", "--socket", "none.sock"]).code, 3);
}

#[test]
fn the_first_run_makes_the_key_once() {
    let folder = tempfile::tempdir().unwrap();
    // The mistake keeps the daemon from starting.
    fs::write(folder.path().join("wattle.json"), r#"{"name": "a", "private_key": "a.key", "listen": []}"#).unwrap();
    let checked = wattle(folder.path(), &["check", "wattle.json"]);
    assert!(checked.out.contains("a.key") && !folder.path().join("a.key").exists(), "{}", checked.out);
    let first = wattle(folder.path(), &["run", "--config", "wattle.json"]);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(folder.path().join("a.key")).unwrap().permissions());
    assert_eq!((first.code, mode & 0o777), (1, 0o600), "{}", first.err);
    let public = wattle(folder.path(), &["pubkey", "a.key"]).out;
    assert!(first.out.contains(public.trim_end()), "{}", first.out);
    assert!(!first.err.contains("a.key"), "{}", first.err);
    let second = wattle(folder.path(), &["run", "--config", "wattle.json"]);
    assert_eq!((second.code, second.out.as_str()), (1, ""), "told once, made once");
    assert_eq!(wattle(folder.path(), &["pubkey", "a.key"]).out, public);
    // Nothing half made is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    fs::write(folder.path().join("wattle.json"), r#"{"name": "a", "private_key": "none/a.key"}"#).unwrap();
    let cannot = wattle(folder.path(), &["run", "--config", "wattle.json"]);
    assert!(cannot.code == 1 && cannot.err.contains("it cannot be made"), "{}", cannot.err);
}

#[test]
fn every_view_has_json() {
    for (view, field) in [
        ("status", "uptime_us"),
        ("peers", "peers"),
        ("routes", "routes"),
        ("neighbours", "neighbours"),
        ("drops", "refused"),
        ("sas", "not_up"),
    ] {
        with_daemon(Answer::Snapshot(Box::new(snapshot(State::Up))), |folder| {
            let ran = wattle(folder, &[view, "--json", "--socket", "wattle.sock"]);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""));
            let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(json["schema"], SCHEMA);
            assert!(json.get(field).is_some(), "{}", ran.out);
        });
    }
}

#[test]
fn path_explains_one_packet() {
    let report = |next_hop: &str| PathReport {
        schema: SCHEMA,
        to: "10.0.0.1".to_owned(),
        from: Some("10.0.0.2".to_owned()),
        route: None,
        metric: None,
        next_hop: next_hop.to_owned(),
        link: None,
        origin: None,
        policy: None,
        segments: Vec::new(),
        overhead: None,
    };
    for (next_hop, code) in [("frankfurt", 0), ("local", 0), ("no route", 1), ("unreachable", 1)] {
        with_daemon(Answer::Path(report(next_hop)), |folder| {
            let ran = wattle(folder, &["path", "10.0.0.1", "--from", "10.0.0.2", "--socket", "wattle.sock"]);
            assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{next_hop}");
            assert!(ran.out.starts_with(&format!("10.0.0.1 from 10.0.0.2: {next_hop}\n")), "{}", ran.out);
        });
    }
    with_daemon(Answer::Path(report("frankfurt")), |folder| {
        let ran = wattle(folder, &["path", "--json", "10.0.0.1", "--socket", "wattle.sock"]);
        assert_eq!(serde_json::from_str::<PathReport>(&ran.out).unwrap(), report("frankfurt"));
    });
    with_daemon(Answer::Error { message: "no".to_owned() }, |folder| {
        let ran = wattle(folder, &["path", "10.0.0.1", "--socket", "wattle.sock"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", "wattle: no\n"));
    });
}

#[test]
fn a_broken_pipe_is_silence_and_a_full_disk_is_not() {
    let folder = folder();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(folder.path(), &["help"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(folder.path(), &["help"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("No space left on device"));
}

#[test]
fn rekey_asks_for_what_was_meant() {
    for (message, fine) in [("rekeying the IKE SA with frankfurt", true), ("no peer is called frankfurt", false)] {
        let answer = Answer::Done { fine, message: message.to_owned() };
        with_daemon(answer, |folder| {
            let ran = wattle(folder, &["rekey", "frankfurt", "--ike", "--socket", "wattle.sock"]);
            let text = if fine { &ran.out } else { &ran.err };
            assert_eq!((ran.code, text.contains(message)), (i32::from(!fine), true), "{} {}", ran.out, ran.err);
        });
    }
    assert_eq!(wattle(folder().path(), &["rekey"]).code, 2);
    assert_eq!(wattle(folder().path(), &["rekey", "a", "--socket", "none.sock"]).code, 3);
}
