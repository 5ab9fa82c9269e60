use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream as Blocking;
use std::sync::mpsc;
use std::time::Instant;

use super::super::client::{self, ClientError};
use super::*;

fn reply(request: Request) -> Answer {
    match request {
        Request::Snapshot => Answer::Error { message: "snapshot".to_owned() },
        Request::Path { to, .. } => Answer::Error { message: format!("path to {to}") },
        Request::Rekey { peer, ike, children } => Answer::Error { message: format!("rekey {peer} {ike} {children}") },
        Request::Reload | Request::Health | Request::Trace { .. } | Request::TraceResult => {
            Answer::Error { message: "other".to_owned() }
        }
    }
}

/// Runs `test` against a server at a path of its own.
fn with_server(test: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/wattle.sock");
    let (started, wait) = mpsc::channel();
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let served = path.clone();
    #[expect(clippy::disallowed_methods, reason = "the server under test")]
    let thread = std::thread::spawn(move || {
        let server = Server::bind(&served).unwrap();
        started.send(()).unwrap();
        let stop = async {
            let _ = stopped.recv().await;
        };
        smol::block_on(server.serve(reply).or(stop));
    });
    wait.recv().unwrap();
    test(&path);
    drop(stop);
    thread.join().unwrap();
    assert!(!path.exists(), "the socket's file is left behind");
}

fn message(answer: Answer) -> String {
    match answer {
        Answer::Error { message } => message,
        Answer::Snapshot(_) | Answer::Path(_) | Answer::Trace(_) | Answer::Done { .. } => panic!("{answer:?}"),
    }
}

fn raw(path: &Path, request: &[u8]) -> String {
    let mut stream = Blocking::connect(path).unwrap();
    stream.write_all(request).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn answers_one_line_with_one_line() {
    let text = |line: &[u8]| String::from_utf8(answer(line, reply)).unwrap();
    assert_eq!(text(b"{\"request\":\"snapshot\"}"), "{\"answer\":\"error\",\"message\":\"snapshot\"}\n");
    assert_eq!(
        text(b"{\"request\":\"path\",\"to\":\"10.0.0.1\"}"),
        "{\"answer\":\"error\",\"message\":\"path to 10.0.0.1\"}\n"
    );
    for bad in [&b""[..], b"{", b"\xff", b"[]", b"{\"request\":\"reboot\"}", b"{\"request\":\"path\"}"] {
        assert!(text(bad).contains("not a request"), "{}", text(bad));
    }
}

#[test]
fn client_and_server_understand_each_other() {
    with_server(|path| {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        for _ in 0..3 {
            assert_eq!(message(client::ask(path, &Request::Snapshot).unwrap()), "snapshot");
        }
        let request = Request::Path { to: "10.0.0.1".to_owned(), from: None };
        assert_eq!(message(client::ask(path, &request).unwrap()), "path to 10.0.0.1");
    });
}

#[test]
fn slow_and_silent_clients_do_not_keep_others_waiting() {
    with_server(|path| {
        let mut slow = Blocking::connect(path).unwrap();
        slow.write_all(b"{\"request\":").unwrap();
        let silent: Vec<Blocking> = (0..10).map(|_| Blocking::connect(path).unwrap()).collect();
        assert_eq!(message(client::ask(path, &Request::Snapshot).unwrap()), "snapshot");
        slow.write_all(b"\"snapshot\"}\n").unwrap();
        let mut line = String::new();
        slow.read_to_string(&mut line).unwrap();
        assert!(line.contains("snapshot"), "{line}");
        drop(silent);
    });
}

#[test]
fn silent_clients_are_thrown_out_so_that_others_get_their_places() {
    with_server(|path| {
        let silent: Vec<Blocking> = (0..MAX_CLIENTS).map(|_| Blocking::connect(path).unwrap()).collect();
        #[expect(clippy::disallowed_methods, reason = "a timeout is measured")]
        let start = Instant::now();
        let mut rest = String::new();
        (&silent[0]).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(start.elapsed() >= TIMEOUT - Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(message(client::ask(path, &Request::Snapshot).unwrap()), "snapshot");
    });
}

#[test]
fn bad_requests_are_answered_or_cut_off() {
    with_server(|path| {
        assert!(raw(path, b"hello\n").contains("not a request"));
        let mut long = vec![b' '; MAX_REQUEST + 1];
        long.push(b'\n');
        let mut stream = Blocking::connect(path).unwrap();
        // The server may have closed before it has read all.
        let _ = stream.write_all(&long);
        let mut line = String::new();
        let _ = stream.read_to_string(&mut line);
        assert_eq!(line, "");
        drop(Blocking::connect(path).unwrap());
        assert_eq!(message(client::ask(path, &Request::Snapshot).unwrap()), "snapshot");
    });
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    with_server(|path| {
        let error = Server::bind(path).unwrap_err();
        assert!(matches!(error, BindError::Taken { .. }), "{error}");
        assert!(error.to_string().starts_with("another wattle runs"), "{error}");
        assert_eq!(message(client::ask(path, &Request::Snapshot).unwrap()), "snapshot");
    });
}

#[test]
fn a_stale_socket_is_replaced_and_another_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wattle.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&path).unwrap());
    assert!(!path.exists());
    fs::write(&path, "precious").unwrap();
    let error = Server::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::NotSocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_successors_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wattle.sock");
    let old = Server::bind(&path).unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    let new = Server::bind(&path).unwrap();
    drop(old);
    assert!(path.exists());
    drop(new);
    assert!(!path.exists());
}

#[test]
fn the_client_says_why_there_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wattle.sock");
    let error = client::ask(&path, &Request::Snapshot).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("No such file or directory; is \"wattle run\" running?"), "{error}");
    let listener = UnixListener::bind(&path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a daemon of another kind")]
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail\n").unwrap();
    });
    let error = client::ask(&path, &Request::Snapshot).unwrap_err();
    assert!(matches!(error, ClientError::Foreign { .. } | ClientError::Unreachable { .. }), "{error}");
    other.join().unwrap();
}
