//! The configuration as a person writes it: what is right loads, and everything that is wrong is reported in one run.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too, fail by panicking")]

mod folder;
mod keys;
mod routing;
mod suites;
mod underlay;
mod whole;
