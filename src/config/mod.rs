//! The configuration: what the file says (`json`, `file`), how it is read (`load`), what it means (`check`), what is wrong
//! with it (`report`), and the typed result that the rest of wattle works from (`plan`).

pub mod check;
pub mod file;
pub mod json;
pub mod load;
pub mod plan;
pub mod report;
pub mod suggest;
