//! Our own minimal rtnetlink (RFC 3549, `<linux/rtnetlink.h>`): the few messages that `kernel` needs.
//!
//! `message` builds and reads octets and does nothing else; `socket` asks the kernel and listens to it.

mod message;
mod socket;

pub use message::{Address, Event, PROTOCOL, Route, Rule, address_add, decode, dump_routes, dump_rules, link_up};
pub use message::{
    accept_local, default_route_add, default_route_delete, no_link_local, route_add, route_delete, rule_add,
    rule_delete, tun_up,
};
pub use socket::{Listener, Socket};
