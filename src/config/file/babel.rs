//! The fields of `babel`, here and at a node, and of announcements that follow the kernel.

use super::{At, Decoder, FROM_KERNEL, Object, RULE, TERMS};
use crate::config::json::{Kind, Value};
use crate::config::report::Place;

/// How a link counts and what goes over it; what is not given is as everywhere.
#[derive(Debug, Default)]
pub struct Terms {
    pub hello_ms: Option<At<u64>>,
    pub rxcost: Option<At<u64>>,
    pub rtt_cost: Option<At<u64>>,
    pub rtt_min_ms: Option<At<u64>>,
    pub rtt_max_ms: Option<At<u64>>,
    pub accept: Option<Vec<RuleText>>,
    pub announce: Option<Vec<RuleText>>,
}

/// `"10.0.0.0/8"`, just that, or an object with a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    pub to: At<String>,
    pub from: Option<At<String>>,
    pub ge: Option<At<u64>>,
    pub le: Option<At<u64>>,
    pub deny: bool,
}

/// `{ "kernel": "main", "prefixes": […] }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromKernel {
    pub table: At<u64>,
    pub prefixes: Vec<RuleText>,
}

impl Decoder<'_> {
    pub(super) fn terms(&mut self, parent: &Object<'_>) -> Terms {
        let Some(o) = self.section(parent, "babel", TERMS) else { return Terms::default() };
        Terms {
            hello_ms: self.integer(&o, "hello_ms", 100..=60_000),
            rxcost: self.integer(&o, "rxcost", 1..=0xfffe),
            rtt_cost: self.integer(&o, "rtt_cost", 0..=60_000),
            rtt_min_ms: self.integer(&o, "rtt_min_ms", 0..=60_000),
            rtt_max_ms: self.integer(&o, "rtt_max_ms", 1..=60_000),
            accept: self.rules(&o, "accept"),
            announce: self.rules(&o, "announce"),
        }
    }

    fn rules(&mut self, parent: &Object<'_>, name: &str) -> Option<Vec<RuleText>> {
        self.list(parent, name, Self::rule).map(|list| list.value)
    }

    fn rule(&mut self, value: &Value, place: Place) -> Option<RuleText> {
        if let Kind::String(text) = &value.kind {
            let to = At { value: text.clone(), place };
            return Some(RuleText { to, from: None, ge: None, le: None, deny: false });
        }
        if !matches!(value.kind, Kind::Object(_)) {
            self.wrong(
                value,
                &place,
                "a prefix such as \"10.0.0.0/8\", or { \"to\", \"from\", \"ge\", \"le\", \"deny\" }",
            );
            return None;
        }
        let object = self.object(value, place, RULE, &["to"])?;
        let from = self.string(&object, "from");
        if object.field("from").is_some() && from.is_none() {
            return None;
        }
        Some(RuleText {
            to: self.string(&object, "to")?,
            from,
            ge: self.integer(&object, "ge", 0..=128),
            le: self.integer(&object, "le", 0..=128),
            deny: self.boolean(&object, "deny").unwrap_or(false),
        })
    }

    /// Whether an entry of `announce` follows the kernel's routes.
    pub(super) fn follows_kernel(value: &Value) -> bool {
        matches!(&value.kind, Kind::Object(members) if members.iter().any(|member| member.key == "kernel"))
    }

    pub(super) fn kernel_table(&mut self, value: &Value, place: Place) -> Option<FromKernel> {
        let object = self.object(value, place, FROM_KERNEL, &["kernel", "prefixes"])?;
        let prefixes = self.rules(&object, "prefixes");
        let (table, place) = object.field("kernel")?;
        let table = match &table.kind {
            Kind::String(name) if name == "main" => At { value: 254, place },
            Kind::Number(_) => self.whole(table, place, 1..=u32::MAX.into())?,
            Kind::String(_) | Kind::Null | Kind::Bool(_) | Kind::Array(_) | Kind::Object(_) => {
                self.wrong(table, &place, "\"main\" or the number of a routing table");
                return None;
            }
        };
        Some(FromKernel { table, prefixes: prefixes? })
    }
}
