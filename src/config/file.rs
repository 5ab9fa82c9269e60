//! What the file says: its fields with their places, types checked, meaning not yet.
//!
//! [`FIELDS`] is the list of every field; `docs/config.md` describes them. A field that is wrong is reported and then
//! absent, so that the rest can still be checked.

use std::ops::RangeInclusive;

use super::json::{Kind, Value, quoted};
use super::report::{Place, Report};
use super::suggest::{did_you_mean, nearest};
pub use babel::{FromKernel, RuleText, Terms};

mod babel;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub place: Place,
}

/// The configuration file.
#[derive(Debug, Default)]
pub struct File {
    pub name: Option<At<String>>,
    pub private_key: Option<At<String>>,
    pub listen: Option<At<Vec<At<u16>>>>,
    /// The inner `None`: `null`, a node that only relays.
    pub tun: Option<At<Option<Tun>>>,
    pub announce: Vec<At<PrefixText>>,
    pub from_kernel: Vec<FromKernel>,
    pub locator: Option<At<String>>,
    pub steer: Vec<Policy>,
    pub segment_sources: Vec<At<String>>,
    pub exit: bool,
    pub nodes: Option<Vec<Node>>,
    pub registry: Option<At<String>>,
    pub babel: Terms,
    pub suites: SuitesText,
    pub child_s: Option<At<u64>>,
    pub child_mb: Option<At<u64>>,
    pub ike_s: Option<At<u64>>,
    pub table: Option<At<u64>>,
    pub mark: Option<At<u64>>,
    pub rule: Option<At<u64>>,
    pub offload: Switches,
    pub control: Option<At<String>>,
    pub log: Option<At<String>>,
}

/// `proposals`, `esp` and `pq`, of the whole node or of one peer.
#[derive(Debug, Default)]
pub struct SuitesText {
    pub proposals: Option<At<Vec<At<String>>>>,
    pub esp: Option<At<Vec<At<String>>>>,
    pub pq: Option<At<String>>,
}

/// Each `"auto"`, `"on"` or `"off"`.
#[derive(Debug, Default)]
pub struct Switches {
    pub tun: Option<At<String>>,
    pub udp_gso: Option<At<String>>,
    pub udp_gro: Option<At<String>>,
}

#[derive(Debug, Default)]
pub struct Tun {
    pub name: Option<At<String>>,
    pub mtu: Option<At<u64>>,
    pub addresses: Vec<At<String>>,
}

#[derive(Debug)]
pub struct Node {
    /// Of the whole object.
    pub place: Place,
    pub name: Option<At<String>>,
    pub public_key: Option<At<String>>,
    pub endpoints: Vec<At<String>>,
    pub locator: Option<At<String>>,
    pub routes: Vec<At<PrefixText>>,
    pub pin_port: bool,
    pub babel: Terms,
    pub remote_id: Option<At<String>>,
    pub local_id: Option<At<String>>,
    pub suites: SuitesText,
}

/// An entry of `steer`.
#[derive(Debug)]
pub struct Policy {
    /// Of the whole object.
    pub place: Place,
    pub name: Option<At<String>>,
    pub from: Option<At<String>>,
    pub to: Option<At<String>>,
    pub protocol: Option<At<String>>,
    pub port: Option<At<String>>,
    pub dscp: Option<At<u64>>,
    pub via: Vec<At<String>>,
    pub exit: Option<At<String>>,
    pub srh: Option<At<String>>,
    pub if_unreachable: Option<At<String>>,
}

/// `"192.168.88.0/24"`, or an object with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixText {
    pub to: At<String>,
    pub from: Option<At<String>>,
}

/// Every field, by the object that holds it.
pub const FIELDS: &[(&str, &[&str])] = &[
    ("the configuration", TOP),
    ("tun", TUN),
    ("announce[], nodes[].routes[]", PREFIX),
    ("announce[] that follows the kernel", FROM_KERNEL),
    ("nodes[]", NODE),
    ("babel, nodes[].babel", TERMS),
    ("accept[], announce[], prefixes[]", RULE),
    ("steer[]", STEER),
    ("rekey", REKEY),
    ("kernel", KERNEL),
    ("offload", OFFLOAD),
    ("the registry", REGISTRY),
];

pub fn decode(root: &Value, file: &str, report: &mut Report) -> File {
    let mut decoder = Decoder { report };
    let place = Place { position: Some(root.position), ..Place::file(file) };
    let Some(top) = decoder.object(root, place, TOP, &["name", "private_key"]) else { return File::default() };
    let d = &mut decoder;
    let mut from_kernel = Vec::new();
    let rekey = d.section(&top, "rekey", REKEY);
    let kernel = d.section(&top, "kernel", KERNEL);
    let offload = d.section(&top, "offload", OFFLOAD);
    File {
        name: d.string(&top, "name"),
        private_key: d.string(&top, "private_key"),
        listen: d.list(&top, "listen", Decoder::port),
        tun: d.tun(&top),
        announce: d
            .list(&top, "announce", |d, value, place| {
                if !Decoder::follows_kernel(value) {
                    return d.prefix(value, place);
                }
                from_kernel.extend(d.kernel_table(value, place));
                None
            })
            .map_or(Vec::new(), |list| list.value),
        from_kernel,
        locator: d.string(&top, "locator"),
        steer: d.list(&top, "steer", Decoder::policy).map_or(Vec::new(), |list| list.value),
        segment_sources: d.list(&top, "segment_sources", Decoder::text).map_or(Vec::new(), |list| list.value),
        exit: d.boolean(&top, "exit").unwrap_or(false),
        nodes: d.nodes(&top),
        registry: d.string(&top, "registry"),
        babel: d.terms(&top),
        suites: d.suites(&top),
        // Below ten seconds an SA would hardly stand before its successor is due.
        child_s: rekey.as_ref().and_then(|o| d.integer(o, "child_s", 10..=604_800)),
        child_mb: rekey.as_ref().and_then(|o| d.integer(o, "child_mb", 1..=1_000_000_000)),
        ike_s: rekey.as_ref().and_then(|o| d.integer(o, "ike_s", 10..=604_800)),
        table: kernel.as_ref().and_then(|o| d.integer(o, "table", 1..=u32::MAX.into())),
        mark: kernel.as_ref().and_then(|o| d.integer(o, "mark", 1..=u32::MAX.into())),
        // Rule 0 is the kernel's own, and so are 32766 and 32767; we need the next one too.
        rule: kernel.as_ref().and_then(|o| d.integer(o, "rule", 1..=32_764)),
        offload: Switches {
            tun: offload.as_ref().and_then(|o| d.string(o, "tun")),
            udp_gso: offload.as_ref().and_then(|o| d.string(o, "udp_gso")),
            udp_gro: offload.as_ref().and_then(|o| d.string(o, "udp_gro")),
        },
        control: d.string(&top, "control"),
        log: d.string(&top, "log"),
    }
}

/// The nodes of a registry file.
pub fn decode_registry(root: &Value, file: &str, report: &mut Report) -> Vec<Node> {
    let mut decoder = Decoder { report };
    let place = Place { position: Some(root.position), ..Place::file(file) };
    let Some(top) = decoder.object(root, place, REGISTRY, &["nodes"]) else { return Vec::new() };
    decoder.nodes(&top).unwrap_or_default()
}

struct Decoder<'r> {
    report: &'r mut Report,
}

/// An object whose field names have been looked at.
struct Object<'v> {
    place: Place,
    fields: Vec<(&'v str, Place, &'v Value)>,
}

impl<'v> Object<'v> {
    fn field(&self, name: &str) -> Option<(&'v Value, Place)> {
        self.fields.iter().find(|(field, ..)| *field == name).map(|(_, place, value)| (*value, place.clone()))
    }
}

impl Decoder<'_> {
    fn object<'v>(
        &mut self,
        value: &'v Value,
        place: Place,
        known: &[&'static str],
        required: &[&'static str],
    ) -> Option<Object<'v>> {
        let Kind::Object(members) = &value.kind else {
            self.wrong(value, &place, "an object");
            return None;
        };
        let mut object = Object { place, fields: Vec::with_capacity(members.len()) };
        // A misspelt field is not missing as well.
        let mut meant = Vec::new();
        for member in members {
            let place = object.place.field(&super::report::clip(&member.key, MAX_KEY), member.position);
            if !known.contains(&member.key.as_str()) {
                meant.extend(nearest(&member.key, known.iter().copied()));
                self.unknown(&place, &member.key, known);
            } else if let Some((_, first)) = object.field(&member.key) {
                let line = first.position.map_or(0, |p| p.line);
                self.report.error(&place, format!("given twice, first in line {line}"));
            } else {
                object.fields.push((&member.key, place, &member.value));
            }
        }
        self.string(&object, "description");
        for name in required {
            if object.field(name).is_none() && !meant.contains(name) {
                let message = match *name {
                    "private_key" => "missing: the name of our key file (make one with: wattle keygen FILE)",
                    "public_key" => "missing: the node's key, as \"wattle pubkey FILE\" prints it there",
                    "name" if known.contains(&"via") => "missing: \"wattle policies\" shows a policy by its name",
                    "name" => "missing: every node has a name, the same in all files",
                    _ => "missing",
                };
                let position = value.position;
                self.report.error(&object.place.field(name, position), message);
            }
        }
        Some(object)
    }

    fn unknown(&mut self, place: &Place, key: &str, known: &[&'static str]) {
        let hint = did_you_mean(key, known.iter().copied());
        let message = if known == TERMS && matches!(key, "interfaces" | "key" | "keys" | "mac") {
            let what = if key == "interfaces" { "Babel on other interfaces" } else { "Babel's MAC authentication" };
            format!("{what} is not in this version of wattle: remove this field")
        } else if hint.is_empty() {
            // Every object may be described; what it is made of is of more use.
            let known: Vec<&str> = known.iter().copied().filter(|field| *field != "description").collect();
            format!("unknown field; known here: {}", known.join(", "))
        } else {
            format!("unknown field{hint}")
        };
        self.report.error(place, message);
    }

    fn wrong(&mut self, value: &Value, place: &Place, expected: &str) {
        self.report.error(place, format!("expected {expected}, found {}", value.kind.noun()));
    }

    fn section<'v>(&mut self, parent: &Object<'v>, name: &str, known: &[&'static str]) -> Option<Object<'v>> {
        let (value, place) = parent.field(name)?;
        self.object(value, place, known, &[])
    }

    fn string(&mut self, parent: &Object<'_>, name: &str) -> Option<At<String>> {
        let (value, place) = parent.field(name)?;
        self.text(value, place)
    }

    fn text(&mut self, value: &Value, place: Place) -> Option<At<String>> {
        let Kind::String(text) = &value.kind else {
            self.wrong(value, &place, "a string");
            return None;
        };
        Some(At { value: text.clone(), place })
    }

    fn boolean(&mut self, parent: &Object<'_>, name: &str) -> Option<bool> {
        let (value, place) = parent.field(name)?;
        let Kind::Bool(boolean) = value.kind else {
            self.wrong(value, &place, "true or false");
            return None;
        };
        Some(boolean)
    }

    fn integer(&mut self, parent: &Object<'_>, name: &str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let (value, place) = parent.field(name)?;
        self.whole(value, place, range)
    }

    fn whole(&mut self, value: &Value, place: Place, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let Kind::Number(text) = &value.kind else {
            self.wrong(value, &place, "a number");
            return None;
        };
        match text.parse() {
            Ok(number) if range.contains(&number) => Some(At { value: number, place }),
            _ => {
                let (low, high) = range.into_inner();
                self.report.error(&place, format!("expected a whole number from {low} to {high}, found {text}"));
                None
            }
        }
    }

    fn port(&mut self, value: &Value, place: Place) -> Option<At<u16>> {
        let at = self.whole(value, place, 1..=u16::MAX.into())?;
        u16::try_from(at.value).ok().map(|value| At { value, place: at.place })
    }

    fn list<T>(
        &mut self,
        parent: &Object<'_>,
        name: &str,
        mut item: impl FnMut(&mut Self, &Value, Place) -> Option<T>,
    ) -> Option<At<Vec<T>>> {
        let (value, place) = parent.field(name)?;
        let Kind::Array(values) = &value.kind else {
            let as_list = match &value.kind {
                Kind::String(text) => format!(": write [{}]", quoted(text)),
                Kind::Number(text) => format!(": write [{text}]"),
                Kind::Null | Kind::Bool(_) | Kind::Array(_) | Kind::Object(_) => String::new(),
            };
            self.report.error(&place, format!("expected a list, found {}{as_list}", value.kind.noun()));
            return None;
        };
        let items = values.iter().enumerate();
        let value: Vec<T> = items.filter_map(|(index, v)| item(self, v, place.item(index, v.position))).collect();
        // A list of which nothing is left is not an empty list.
        (values.is_empty() || !value.is_empty()).then_some(At { value, place })
    }

    fn prefix(&mut self, value: &Value, place: Place) -> Option<At<PrefixText>> {
        if let Kind::String(text) = &value.kind {
            let to = At { value: text.clone(), place: place.clone() };
            return Some(At { value: PrefixText { to, from: None }, place });
        }
        if !matches!(value.kind, Kind::Object(_)) {
            self.wrong(value, &place, "a prefix such as \"192.168.88.0/24\", or { \"to\", \"from\" }");
            return None;
        }
        let object = self.object(value, place, PREFIX, &["to"])?;
        let from = self.string(&object, "from");
        let to = self.string(&object, "to")?;
        // Without its source it would be a route for everybody.
        if object.field("from").is_some() && from.is_none() {
            return None;
        }
        Some(At { value: PrefixText { to, from }, place: object.place })
    }

    fn tun(&mut self, top: &Object<'_>) -> Option<At<Option<Tun>>> {
        let (value, place) = top.field("tun")?;
        if value.kind == Kind::Null {
            return Some(At { value: None, place });
        }
        let object = self.object(value, place, TUN, &[])?;
        let tun = Tun {
            name: self.string(&object, "name"),
            mtu: self.integer(&object, "mtu", 1280..=9000),
            addresses: self.list(&object, "addresses", Self::text).map_or(Vec::new(), |list| list.value),
        };
        Some(At { value: Some(tun), place: object.place })
    }

    fn policy(&mut self, value: &Value, place: Place) -> Option<Policy> {
        let object = self.object(value, place, STEER, &["name"])?;
        Some(Policy {
            name: self.string(&object, "name"),
            from: self.string(&object, "from"),
            to: self.string(&object, "to"),
            protocol: self.word_or_number(&object, "protocol"),
            port: self.word_or_number(&object, "port"),
            dscp: self.integer(&object, "dscp", 0..=63),
            via: self.list(&object, "via", Self::text).map_or(Vec::new(), |list| list.value),
            exit: self.string(&object, "exit"),
            srh: self.string(&object, "srh"),
            if_unreachable: self.string(&object, "if_unreachable"),
            place: object.place,
        })
    }

    /// `"tcp"` or `6`, `443` or `"443-500"`.
    fn word_or_number(&mut self, parent: &Object<'_>, name: &str) -> Option<At<String>> {
        let (value, place) = parent.field(name)?;
        match &value.kind {
            Kind::String(text) | Kind::Number(text) => Some(At { value: text.clone(), place }),
            Kind::Null | Kind::Bool(_) | Kind::Array(_) | Kind::Object(_) => {
                self.wrong(value, &place, "a number or a string");
                None
            }
        }
    }

    fn suites(&mut self, object: &Object<'_>) -> SuitesText {
        SuitesText {
            proposals: self.list(object, "proposals", Self::text),
            esp: self.list(object, "esp", Self::text),
            pq: self.string(object, "pq"),
        }
    }

    fn nodes(&mut self, top: &Object<'_>) -> Option<Vec<Node>> {
        self.list(top, "nodes", Self::node).map(|list| list.value)
    }

    fn node(&mut self, value: &Value, place: Place) -> Option<Node> {
        let object = self.object(value, place, NODE, &["name", "public_key"])?;
        Some(Node {
            name: self.string(&object, "name"),
            public_key: self.string(&object, "public_key"),
            endpoints: self.list(&object, "endpoints", Self::text).map_or(Vec::new(), |list| list.value),
            locator: self.string(&object, "locator"),
            routes: self.list(&object, "routes", Self::prefix).map_or(Vec::new(), |list| list.value),
            pin_port: self.boolean(&object, "pin_port").unwrap_or(false),
            babel: self.terms(&object),
            remote_id: self.string(&object, "remote_id"),
            local_id: self.string(&object, "local_id"),
            suites: self.suites(&object),
            place: object.place,
        })
    }
}

const TOP: &[&str] = &[
    "name",
    "private_key",
    "listen",
    "tun",
    "announce",
    "locator",
    "steer",
    "segment_sources",
    "exit",
    "nodes",
    "registry",
    "proposals",
    "esp",
    "pq",
    "babel",
    "rekey",
    "kernel",
    "offload",
    "control",
    "log",
    "description",
];
const TUN: &[&str] = &["name", "mtu", "addresses", "description"];
const PREFIX: &[&str] = &["to", "from", "description"];
const NODE: &[&str] = &[
    "name",
    "public_key",
    "endpoints",
    "locator",
    "routes",
    "pin_port",
    "remote_id",
    "local_id",
    "proposals",
    "esp",
    "pq",
    "babel",
    "description",
];
const FROM_KERNEL: &[&str] = &["kernel", "prefixes", "description"];
const TERMS: &[&str] =
    &["hello_ms", "rxcost", "rtt_cost", "rtt_min_ms", "rtt_max_ms", "accept", "announce", "description"];
const RULE: &[&str] = &["to", "from", "ge", "le", "deny", "description"];
const STEER: &[&str] =
    &["name", "from", "to", "protocol", "port", "dscp", "via", "exit", "srh", "if_unreachable", "description"];
const REKEY: &[&str] = &["child_s", "child_mb", "ike_s", "description"];
const KERNEL: &[&str] = &["table", "mark", "rule", "description"];
const OFFLOAD: &[&str] = &["tun", "udp_gso", "udp_gro", "description"];
const REGISTRY: &[&str] = &["nodes", "description"];
const MAX_KEY: usize = 40;
