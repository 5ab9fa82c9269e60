fn main() -> std::process::ExitCode {
    wattle::cli::main(std::env::args_os().skip(1))
}
