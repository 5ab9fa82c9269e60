//! A link with delay, jitter, loss and rate between two network namespaces, for the demo and for tests.
//!
//! Each end is a TAP device in its namespace; this process carries the frames between them. Settings hold for both
//! directions, or for one with `_ab` or `_ba` behind the key, and can be changed while it runs. It takes only what it has
//! made with it when it ends: on SIGTERM, and with its parent.

mod control;
mod link;

use std::path::PathBuf;
use std::process::ExitCode;

use link::{Direction, Settings};
use wattle::os::signals::Signals;

const USAGE: &str = "\
delay-link run NS_A IF_A NS_B IF_B [--mtu N] [--control SOCKET] [--outlive-parent] [KEY=VALUE...]
delay-link set SOCKET KEY=VALUE...
delay-link show SOCKET
NS \"-\" is the namespace of the caller. Keys: delay, jitter (ms, one way), loss (percent), rate (kbit/s, 0: no limit),
queue (frames); with _ab or _ba behind them for one direction. Prints \"ready\" when both ends are up, and ends with its
parent unless told to --outlive-parent.";

struct Run {
    ends: [(String, String); 2],
    mtu: u32,
    control: Option<PathBuf>,
    outlive_parent: bool,
    settings: [Settings; 2],
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["run", ns_a, if_a, ns_b, if_b, ref rest @ ..] => {
            parse([(ns_a, if_a), (ns_b, if_b)], rest).and_then(|run| run_link(&run))
        }
        ["set", socket, ref settings @ ..] if !settings.is_empty() => control::ask(socket, &settings.join(" ")),
        ["show", socket] => control::ask(socket, ""),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

fn parse(ends: [(&str, &str); 2], rest: &[&str]) -> Result<Run, String> {
    let ends = ends.map(|(namespace, device)| (namespace.to_owned(), device.to_owned()));
    let mut run = Run { ends, mtu: 1500, control: None, outlive_parent: false, settings: [Settings::default(); 2] };
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
        match word {
            "--mtu" => run.mtu = value()?.parse().map_err(|error| format!("--mtu: {error}"))?,
            "--control" => run.control = Some(PathBuf::from(value()?)),
            "--outlive-parent" => run.outlive_parent = true,
            setting => link::apply(&mut run.settings, setting)?,
        }
    }
    Ok(run)
}

fn run_link(run: &Run) -> Result<(), String> {
    // First of all: smol's helper thread must not take the signals.
    let signals = Signals::open().map_err(|error| error.to_string())?;
    if !run.outlive_parent {
        signals.end_with_parent().map_err(|error| error.to_string())?;
    }
    let open = |(namespace, device): &(String, String)| {
        wattle::os::netns::open_tap(namespace, device, run.mtu)
            .map_err(|error| format!("cannot make {device} in {namespace}: {error}"))
    };
    let [a, b] = [open(&run.ends[0])?, open(&run.ends[1])?];
    let control = run.control.as_deref().map(control::Control::bind).transpose()?;
    let directions = run.settings.map(Direction::new);
    smol::block_on(link::carry([a, b], directions, control, signals)).map_err(|error| error.to_string())
}

#[expect(clippy::print_stderr, reason = "a command's diagnostics")]
fn complain(message: &str) {
    eprintln!("{message}");
}

#[expect(clippy::print_stdout, reason = "a command's answer")]
fn say(message: &str) {
    println!("{message}");
}
