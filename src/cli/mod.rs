//! The command line: `wattle COMMAND …`.
//!
//! stdout is the answer, stderr the diagnostics; a broken pipe is silence. Exit codes: 0 fine, 1 a problem was found,
//! 2 wrong usage, 3 the daemon cannot be reached.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use argh::{EarlyExit, FromArgs};

mod check;
mod control;
mod keys;
mod logging;
mod run;
mod steering;
mod version;
mod views;

/// Runs the command that `args` (without the program's name) ask for.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(dispatch(args) as u8)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    Fine = 0,
    Problem = 1,
    Usage = 2,
    Unreachable = 3,
}

/// wattle joins routers into an encrypted mesh: IPsec with post-quantum keys, routes by round-trip time.
#[derive(FromArgs)]
struct Args {
    /// print the version
    #[argh(switch, short = 'V')]
    version: bool,

    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(FromArgs)]
#[argh(subcommand)]
enum Command {
    Run(run::Run),
    Check(check::Check),
    Keygen(keys::Keygen),
    Pubkey(keys::Pubkey),
    Status(views::Status),
    Peers(views::Peers),
    Routes(views::Routes),
    Neighbours(views::Neighbours),
    Path(views::Path),
    Policies(steering::Policies),
    Trace(steering::Trace),
    Drops(views::Drops),
    Sas(views::Sas),
    Rekey(control::Rekey),
    Reload(control::Reload),
    Health(control::Health),
    Version(version::Version),
}

fn dispatch(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Result<Vec<String>, OsString> = args.into_iter().map(OsString::into_string).collect();
    let Ok(args) = args else {
        return complain(Exit::Usage, "an argument is not UTF-8 text");
    };
    // As people are used to; argh knows only --help and help.
    let args: Vec<&str> = args.iter().map(|arg| if arg == "-h" { "--help" } else { arg }).collect();
    let args = match Args::from_args(&["wattle"], &args) {
        Ok(args) => args,
        Err(EarlyExit { output, status: Ok(()) }) => return answer(Exit::Fine, &output),
        Err(EarlyExit { output, status: Err(()) }) => {
            return complain(Exit::Usage, &format!("{}\nwattle help lists the commands", output.trim_end()));
        }
    };
    if args.version {
        return answer(Exit::Fine, &version::line());
    }
    match args.command {
        None => complain(Exit::Usage, "a command is missing; wattle help lists them"),
        Some(Command::Run(run)) => run.run(),
        Some(Command::Check(check)) => check.run(),
        Some(Command::Keygen(keygen)) => keygen.run(),
        Some(Command::Pubkey(pubkey)) => pubkey.run(),
        Some(Command::Status(view)) => view.run(),
        Some(Command::Peers(view)) => view.run(),
        Some(Command::Routes(view)) => view.run(),
        Some(Command::Neighbours(view)) => view.run(),
        Some(Command::Path(view)) => view.run(),
        Some(Command::Policies(view)) => view.run(),
        Some(Command::Trace(view)) => view.run(),
        Some(Command::Drops(view)) => view.run(),
        Some(Command::Sas(view)) => view.run(),
        Some(Command::Rekey(rekey)) => rekey.run(),
        Some(Command::Reload(reload)) => reload.run(),
        Some(Command::Health(health)) => health.run(),
        Some(Command::Version(version)) => version.run(),
    }
}

/// Writes the answer. Whoever has closed the pipe has read enough; an answer that cannot be written is a problem.
fn answer(exit: Exit, text: &str) -> Exit {
    let mut stdout = io::stdout().lock();
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => complain(Exit::Problem, &format!("cannot write the answer: {}", reason(&error))),
    }
}

fn answer_json(exit: Exit, value: &impl serde::Serialize) -> Exit {
    match serde_json::to_string_pretty(value) {
        Ok(text) => answer(exit, &text),
        Err(error) => complain(Exit::Problem, &format!("cannot write the answer as JSON: {error}")),
    }
}

/// Says what is wrong on stderr; if that is closed there is nobody to tell.
fn complain(exit: Exit, message: &str) -> Exit {
    let _ = writeln!(io::stderr().lock(), "wattle: {message}");
    exit
}

/// The system's words, without the number that the standard library appends.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

fn default_config() -> PathBuf {
    PathBuf::from("/etc/wattle/wattle.json")
}

fn default_socket() -> PathBuf {
    PathBuf::from(crate::config::check::DEFAULT_CONTROL)
}
