//! What a person sees: the model (the public JSON), its text form, and the unix socket it is asked over.

pub mod client;
pub mod model;
pub mod server;
pub mod text;

/// The system's words, without the number that the standard library appends.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
