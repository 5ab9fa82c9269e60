//! Why packets are dropped: every drop has one of these reasons and is counted under its name.

use std::collections::BTreeMap;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why the plane did not carry a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)+];

            /// As `wattle drops` shows it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// ESP with an SPI that no SA has.
    UnknownSpi = "unknown_spi",
    /// ESP too short for its header, trailer and ICV.
    EspRunt = "esp_runt",
    /// ESP with sequence number zero.
    SequenceZero = "sequence_zero",
    /// Below the replay window.
    ReplayOld = "replay_old",
    /// In the replay window, and seen before.
    ReplaySeen = "replay_seen",
    /// The ICV does not verify.
    Forged = "forged",
    /// Authenticated, but the padding is wrong.
    BadPadding = "bad_padding",
    /// Authenticated, but the next header is neither 4 nor 41 nor 59.
    BadNextHeader = "bad_next_header",
    /// A dummy packet (next header 59): nothing was lost.
    Dummy = "dummy",
    /// ESP from a new address which is itself reached through the mesh.
    UnderlayInMesh = "underlay_in_mesh",
    /// Marked "congestion experienced" on the way, and the inner packet cannot carry that (RFC 6040 §4.2).
    EcnCe = "ecn_ce",
    /// The inner packet's header contradicts itself, its length or its ESP next header.
    Malformed = "malformed",
    /// An address that never stands on a wire: loopback, unspecified, or a group as source.
    Martian = "martian",
    /// To a group or to everybody: not forwarded.
    Multicast = "multicast",
    /// To or from a link-local address, and nothing that we answer.
    LinkLocal = "link_local",
    /// A Babel packet with a wrong UDP checksum or length.
    BadUdp = "bad_udp",
    /// No route to the destination.
    NoRoute = "no_route",
    /// The route is held unreachable.
    Unreachable = "unreachable",
    /// The route's link has no SA.
    NoSa = "no_sa",
    /// The outbound SA has used all its sequence numbers.
    SaWornOut = "sa_worn_out",
    /// From the TUN device, and to be delivered there again.
    LocalLoop = "local_loop",
    /// For this site, but the node has no TUN device.
    NoTun = "no_tun",
    /// Larger than the link takes, and not to be fragmented.
    TooBig = "too_big",
    /// TTL or hop limit spent.
    HopLimit = "hop_limit",
    /// To a SID, and neither from a node of the mesh nor from one of `segment_sources`.
    SidFromOutside = "sid_from_outside",
    /// A local host sent a segment list of its own.
    SrhFromOutside = "srh_from_outside",
    /// In our locator, but no SID.
    UnknownSid = "unknown_sid",
    /// A segment list that contradicts itself.
    BadSegmentList = "bad_segment_list",
    /// A longer segment list than we follow.
    TooManySegments = "too_many_segments",
    /// Segments are left at a SID that decapsulates.
    SegmentsLeft = "segments_left",
    /// To a SID, and what is inside is not for it.
    SidUpperLayer = "sid_upper_layer",
    /// Encapsulated for us several times over.
    NestedTooDeep = "nested_too_deep",
    /// The packet's policy has a waypoint or exit without a route.
    PolicyUnreachable = "policy_unreachable",
}

/// The counters, the plane's and those of others.
#[derive(Debug)]
pub(super) struct Counts {
    own: [u64; DropReason::ALL.len()],
    others: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(super) fn add(&mut self, reason: DropReason) {
        if let Some(count) = self.own.get_mut(reason as usize) {
            *count += 1;
        }
    }

    pub(super) fn add_named(&mut self, name: &'static str, times: u64) {
        let own = DropReason::ALL.iter().position(|reason| reason.name() == name);
        match own.and_then(|at| self.own.get_mut(at)) {
            Some(count) => *count += times,
            None => *self.others.entry(name).or_default() += times,
        }
    }

    /// What happened at least once.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let own = DropReason::ALL.iter().zip(self.own).map(|(reason, count)| (reason.name(), count));
        own.chain(self.others.iter().map(|(&name, &count)| (name, count))).filter(|&(_, count)| count > 0)
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { own: [0; DropReason::ALL.len()], others: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_in_snake_case() {
        let names: BTreeSet<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    #[test]
    fn a_name_is_counted_in_one_place() {
        let mut counts = Counts::default();
        counts.add(DropReason::NoRoute);
        counts.add_named("no_route", 1);
        counts.add_named("tun_write", 1);
        counts.add_named("tun_write", 2);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [("no_route", 2), ("tun_write", 3)]);
    }
}
