//! On which terms Babel talks to a neighbour: how the link counts, and which prefixes go over it.

use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

use crate::prefix::Prefix;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    pub tuning: Tuning,
    /// What we take from the neighbour.
    pub accept: Filter,
    /// What we tell it.
    pub announce: Filter,
}

/// How a link counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The time between Hellos on this link; `None`: as everywhere.
    pub hello: Option<Duration>,
    /// What our IHUs ask the neighbour to pay while we hear it (RFC 8966 A.2.1): free of RTT, which each side measures itself.
    /// BIRD and babeld add their RTT penalty to it, as we do to our base cost, so that all count alike.
    pub rxcost: u16,
    /// RFC 9616 §4: the RTT cost is 0 up to `rtt_min`, `rtt_cost` from `rtt_max` on, and a straight line between them.
    pub rtt_min: Duration,
    pub rtt_max: Duration,
    pub rtt_cost: u16,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let (rtt_min, rtt_max) = (Duration::from_millis(1), Duration::from_secs(1));
        Tuning { hello: None, rxcost: 16, rtt_min, rtt_max, rtt_cost: 4000 }
    }
}

/// The first rule that matches decides, and what none matches is refused. Without rules everything passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(pub Option<Vec<Rule>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Prefixes inside of this one …
    pub to: IpNet,
    /// … of these lengths …
    pub lengths: RangeInclusive<u8>,
    /// … and, if given, for sources inside of this.
    pub from: Option<IpNet>,
    pub permit: bool,
}

impl Filter {
    pub fn permits(&self, prefix: &Prefix) -> bool {
        let Some(rules) = &self.0 else { return true };
        rules.iter().find(|rule| rule.matches(prefix)).is_some_and(|rule| rule.permit)
    }
}

impl Rule {
    fn matches(&self, prefix: &Prefix) -> bool {
        let to = prefix.destination();
        self.lengths.contains(&to.prefix_len())
            && self.to.contains(&to)
            && self.from.is_none_or(|from| from.contains(&prefix.source()))
    }
}

/// Kernel routes that are announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromKernel {
    pub table: u32,
    pub filter: Filter,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(to: &str, lengths: RangeInclusive<u8>, from: Option<&str>, permit: bool) -> Rule {
        Rule { to: to.parse().unwrap(), lengths, from: from.map(|from| from.parse().unwrap()), permit }
    }

    fn prefix(to: &str, from: Option<&str>) -> Prefix {
        let to = to.parse().unwrap();
        from.map_or(Prefix::to(to), |from| Prefix::new(to, from.parse().unwrap()).unwrap())
    }

    #[test]
    fn the_first_rule_decides() {
        let filter = Filter(Some(vec![
            rule("10.9.0.0/16", 16..=32, None, false),
            rule("10.0.0.0/8", 16..=24, None, true),
            rule("::/0", 0..=0, Some("2001:db8::/32"), true),
        ]));
        for (to, from, passes) in [
            ("10.1.0.0/16", None, true),
            ("10.1.2.0/24", None, true),
            ("10.1.2.0/25", None, false),
            ("10.0.0.0/8", None, false),
            ("10.9.4.0/24", None, false),
            ("0.0.0.0/0", None, false),
            ("192.168.0.0/16", None, false),
            ("::/0", Some("2001:db8:7::/48"), true),
            ("::/0", None, false),
            ("2001:db8::/32", Some("2001:db8:7::/48"), false),
        ] {
            assert_eq!(filter.permits(&prefix(to, from)), passes, "{to} from {from:?}");
        }
        assert!(Filter::default().permits(&prefix("0.0.0.0/0", None)));
        assert!(!Filter(Some(Vec::new())).permits(&prefix("0.0.0.0/0", None)), "an empty list permits nothing");
    }
}
