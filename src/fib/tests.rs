use proptest::prelude::*;

use super::*;

fn pair(to: &str, from: &str) -> Prefix {
    Prefix::new(to.parse().unwrap(), from.parse().unwrap()).unwrap()
}

fn to(prefix: &str) -> Prefix {
    Prefix::to(prefix.parse().unwrap())
}

fn link(number: u32) -> Target {
    Target::Link(LinkId(number))
}

fn target(fib: &Fib, destination: &str, source: &str) -> Option<Target> {
    fib.lookup(destination.parse().unwrap(), source.parse().unwrap()).map(|(_, target)| target)
}

#[test]
fn nothing_is_found_in_nothing() {
    assert_eq!(target(&Fib::default(), "192.0.2.1", "192.0.2.2"), None);
    assert_eq!(target(&Fib::new([]), "2001:db8::1", "2001:db8::2"), None);
}

#[test]
fn the_destination_counts_before_the_source() {
    let fib = Fib::new([
        (pair("2001:db8::/32", "2001:db8:1:2::/64"), link(1)),
        (pair("2001:db8:9::/48", "::/0"), link(2)),
        (pair("2001:db8:9::/48", "2001:db8:1::/48"), link(3)),
    ]);
    assert_eq!(target(&fib, "2001:db8:9::1", "2001:db8:1:2::1"), Some(link(3)));
    assert_eq!(target(&fib, "2001:db8:9::1", "2001:db8:2::1"), Some(link(2)));
    assert_eq!(target(&fib, "2001:db8:8::1", "2001:db8:1:2::1"), Some(link(1)));
    assert_eq!(target(&fib, "2001:db8:8::1", "2001:db8:1:3::1"), None);
}

#[test]
fn a_destination_without_a_matching_source_is_passed_over() {
    let fib = Fib::new([
        (to("0.0.0.0/0"), link(1)),
        (pair("192.0.2.0/24", "10.1.0.0/16"), link(2)),
        (pair("192.0.2.0/25", "10.2.0.0/16"), link(3)),
    ]);
    assert_eq!(target(&fib, "192.0.2.1", "10.2.0.1"), Some(link(3)));
    assert_eq!(target(&fib, "192.0.2.1", "10.1.0.1"), Some(link(2)));
    assert_eq!(target(&fib, "192.0.2.1", "10.3.0.1"), Some(link(1)));
}

#[test]
fn the_families_are_apart_and_a_mixed_pair_has_no_route() {
    let fib = Fib::new([(to("0.0.0.0/0"), link(4)), (to("::/0"), link(6))]);
    assert_eq!(target(&fib, "192.0.2.1", "192.0.2.2"), Some(link(4)));
    assert_eq!(target(&fib, "2001:db8::1", "::1"), Some(link(6)));
    assert_eq!(target(&fib, "2001:db8::1", "192.0.2.2"), None);
}

#[test]
fn the_last_of_equal_prefixes_counts() {
    let fib = Fib::new([(to("10.0.0.0/8"), link(1)), (to("10.0.0.0/8"), Target::Unreachable)]);
    assert_eq!(
        fib.lookup("10.1.1.1".parse().unwrap(), "10.2.2.2".parse().unwrap()),
        Some((to("10.0.0.0/8"), Target::Unreachable))
    );
}

#[test]
fn a_default_route_does_not_put_the_world_into_the_mesh() {
    let fib = Fib::new([
        (to("0.0.0.0/0"), link(1)),
        (to("128.0.0.0/1"), link(1)),
        (to("2000::/3"), link(1)),
        (to("172.17.0.0/16"), link(2)),
        (to("172.17.3.0/24"), Target::Local),
        (pair("2001:db8:7::/48", "2001:db8:8::/48"), link(3)),
        (to("fd00::/8"), link(3)),
    ]);
    let inside = |address: &str| fib.is_in_mesh(address.parse().unwrap());
    assert!(inside("172.17.0.5"));
    assert!(inside("::ffff:172.17.0.5"), "as a socket for both families shows it");
    assert!(inside("2001:db8:7::1"), "for whatever source");
    assert!(inside("fd12::1"));
    assert!(!inside("172.17.3.5"), "a neighbour in our own network");
    assert!(!inside("192.0.2.1"));
    assert!(!inside("8.8.8.8"));
    assert!(!inside("2001:db8:9::1"));
}

/// Reads RFC 9079 §4 word by word.
fn naive(routes: &[(Prefix, Target)], destination: IpAddr, source: IpAddr) -> Option<(Prefix, Target)> {
    routes
        .iter()
        .filter(|(prefix, _)| prefix.matches(destination, source))
        // `max_by_key` takes the last of equals, as `Fib::new` does.
        .max_by_key(|(prefix, _)| (prefix.destination().prefix_len(), prefix.source().prefix_len()))
        .copied()
}

/// Few distinct bits, so that prefixes nest and coincide.
fn address4() -> impl Strategy<Value = IpAddr> {
    (0..4_u8, 0..4_u8, prop_oneof![Just(0), Just(1), Just(128), Just(255)])
        .prop_map(|(a, b, c)| IpAddr::from([10 + (a >> 1) * 128, a & 1, b << 6, c]))
}

fn address6() -> impl Strategy<Value = IpAddr> {
    (0..4_u16, 0..4_u16, prop_oneof![Just(0), Just(1), Just(0x8000), Just(0xffff)])
        .prop_map(|(a, b, c)| IpAddr::from([0x2001, a << 14, b, 0, 0, 0, b << 14, c]))
}

fn prefix(address: impl Strategy<Value = IpAddr> + Clone, lengths: &'static [u8]) -> impl Strategy<Value = Prefix> {
    let one =
        (address, proptest::sample::select(lengths)).prop_map(|(address, length)| IpNet::new(address, length).unwrap());
    (one.clone(), one).prop_map(|(to, from)| Prefix::new(to, from).unwrap())
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![Just(Target::Local), Just(Target::Unreachable), (0..9_u32).prop_map(link)]
}

const LENGTHS4: &[u8] = &[0, 1, 7, 8, 9, 15, 16, 18, 24, 25, 31, 32];
const LENGTHS6: &[u8] = &[0, 1, 16, 17, 18, 47, 48, 64, 98, 112, 113, 127, 128];

proptest! {
    #[test]
    fn finds_what_the_rfc_says(
        routes4 in proptest::collection::vec((prefix(address4().boxed(), LENGTHS4), any_target()), 0..60),
        routes6 in proptest::collection::vec((prefix(address6().boxed(), LENGTHS6), any_target()), 0..60),
        packets4 in proptest::collection::vec((address4(), address4()), 40),
        packets6 in proptest::collection::vec((address6(), address6()), 40),
    ) {
        let routes: Vec<_> = routes4.into_iter().chain(routes6).collect();
        let fib = Fib::new(routes.iter().copied());
        for (destination, source) in packets4.into_iter().chain(packets6) {
            prop_assert_eq!(fib.lookup(destination, source), naive(&routes, destination, source));
        }
    }

    #[test]
    fn finds_each_of_its_own_prefixes(to in any::<u128>(), from in any::<u128>(), a in 0..=128_u8, b in 0..=128_u8) {
        let (to, from) = (IpAddr::V6(to.into()), IpAddr::V6(from.into()));
        let prefix = Prefix::new(IpNet::new(to, a).unwrap(), IpNet::new(from, b).unwrap()).unwrap();
        let fib = Fib::new([(prefix, Target::Local)]);
        prop_assert_eq!(fib.lookup(to, from), Some((prefix, Target::Local)));
    }
}
