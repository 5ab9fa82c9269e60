//! The configuration: what the file says (`file`), how it is read (`load`), what it means (`check`), and the typed result
//! that the rest of wattle works from (`plan`).

pub mod plan;
