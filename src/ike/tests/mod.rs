//! Two endpoints, or one and a script, on virtual time.

mod auth;
mod child;
mod foreign;
mod init;
mod life;
mod mobike;
mod pair;
mod rekey;
mod strangers;
mod told;
