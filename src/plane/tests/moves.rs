//! SAs that come and go, and peers that move (cases C1 and C5).

use super::*;

fn moved(out: &Egress) -> Vec<Path> {
    let paths = out.control.iter().map(|control| match control {
        Control::Moved { link: LinkId(1), path } => *path,
        Control::Moved { .. } | Control::Babel { .. } | Control::Worn { .. } | Control::Message { .. } => {
            panic!("{control:?}")
        }
    });
    paths.collect()
}

fn sealed(a: &mut Plane, count: usize) -> Vec<Vec<u8>> {
    (0..count).flat_map(|_| datagrams(&outbound(a, &udp4(1, 2, 0, 64, 9)))).collect()
}

fn receive(b: &mut Plane, path: Path, datagram: &[u8]) -> Egress {
    let mut out = Egress::default();
    b.inbound(NOW, path, 0, &mut datagram.to_vec(), &mut out);
    out
}

#[test]
fn the_newest_packet_moves_the_peer_and_no_other_does() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let packets = sealed(&mut a, 5);
    assert!(moved(&receive(&mut b, path(1), &packets[1])).is_empty());
    assert!(moved(&receive(&mut b, path(7), &packets[0])).is_empty(), "an older one, late by another way");
    assert!(moved(&receive(&mut b, path(8), &packets[1])).is_empty(), "a copy");
    let mut forged = packets[4].clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(moved(&receive(&mut b, path(9), &forged)).is_empty());
    assert_eq!(moved(&receive(&mut b, path(7), &packets[2])), [path(7)]);
    b.set_path(LinkId(1), path(7));
    assert!(moved(&receive(&mut b, path(7), &packets[3])).is_empty());
    assert_eq!(moved(&receive(&mut b, path(1), &packets[4])), [path(1)]);
    assert_eq!(drops(&b), [("replay_seen", 1), ("forged", 1)]);
    // Answers go where the node says.
    let back = outbound(&mut b, &udp4(2, 1, 0, 64, 9));
    assert_eq!(back.trains[0].path, path(7));
}

#[test]
fn a_batch_says_it_once() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let mut out = Egress::default();
    for mut datagram in sealed(&mut a, 50) {
        b.inbound(NOW, path(3), 0, &mut datagram, &mut out);
    }
    assert_eq!(moved(&out), [path(3)]);
}

#[test]
fn another_port_or_socket_is_another_place_but_an_unknown_local_address_is_not() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let packets = sealed(&mut a, 5);
    let local = |number: u8| Path { local: Some(IpAddr::from([198, 51, 100, number])), ..path(1) };
    assert!(moved(&receive(&mut b, local(1), &packets[0])).is_empty());
    b.set_path(LinkId(1), local(1));
    assert!(moved(&receive(&mut b, path(1), &packets[1])).is_empty());
    assert_eq!(moved(&receive(&mut b, local(2), &packets[2])), [local(2)]);
    let other_port = Path { remote: ([192, 0, 2, 1], 61000).into(), ..local(1) };
    assert_eq!(moved(&receive(&mut b, other_port, &packets[3])), [other_port]);
    let other_socket = Path { socket: SocketId(3), ..local(1) };
    assert_eq!(moved(&receive(&mut b, other_socket, &packets[4])), [other_socket]);
}

#[test]
fn a_copy_through_the_mesh_neither_moves_the_peer_nor_costs_the_original() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let packets = sealed(&mut a, 2);
    let in_mesh = Path { remote: (host4(1), 4500).into(), ..path(1) };
    assert!(is_silent(&receive(&mut b, in_mesh, &packets[0])));
    assert_eq!(drops(&b), [("underlay_in_mesh", 1)]);
    assert_eq!(inner(&receive(&mut b, path(1), &packets[0])).len(), 1);
    // The peer's configured endpoint may lie in what it announces: there is no better one.
    b.set_path(LinkId(1), in_mesh);
    assert_eq!(inner(&receive(&mut b, in_mesh, &packets[1])).len(), 1);
    assert_eq!(drops(&b), [("underlay_in_mesh", 1)]);
}

#[test]
fn a_default_route_through_the_peer_does_not_pin_it() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    route(&mut b, &[("0.0.0.0/0", via(1)), ("10.2.0.0/16", Target::Local)]);
    let packets = sealed(&mut a, 2);
    assert_eq!(moved(&receive(&mut b, path(99), &packets[0])), [path(99)]);
    let in_our_lan = Path { remote: (host4(2), 4500).into(), ..path(1) };
    assert_eq!(moved(&receive(&mut b, in_our_lan, &packets[1])), [in_our_lan]);
}

#[test]
fn a_new_child_is_made_before_the_old_one_breaks() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    let old = sealed(&mut a, 3);
    connect((&mut a, 1), (&mut b, 2), Cipher::ChaCha20Poly1305, 2);
    let new = sealed(&mut a, 1);
    assert_ne!(old[0][..4], new[0][..4], "the new one seals at once");
    assert_eq!(new[0][4..8], [0, 0, 0, 1]);
    for datagram in [&new[0], &old[1], &old[0]] {
        assert_eq!(inner(&receive(&mut b, path(1), datagram)).len(), 1);
    }
    let (_, first) = children(Cipher::Aes256Gcm, 1);
    b.remove(LinkId(1), first.spi_in);
    assert!(is_silent(&receive(&mut b, path(1), &old[2])));
    assert_eq!(drops(&b), [("unknown_spi", 1)]);
    assert_eq!(outbound(&mut b, &udp4(2, 1, 0, 64, 9)).trains.len(), 1, "the newer outbound SA stays");
    let (_, second) = children(Cipher::ChaCha20Poly1305, 2);
    b.remove(LinkId(1), second.spi_in);
    assert!(outbound(&mut b, &udp4(2, 1, 0, 64, 9)).trains.is_empty());
    assert_eq!(b.link(LinkId(1)).unwrap().packets_in, 3, "the link and its counters stay");
    b.remove_link(LinkId(1));
    assert_eq!(b.link(LinkId(1)), None);
}

#[test]
fn a_link_that_is_gone_leaves_nothing() {
    let (mut a, mut b) = two(Cipher::Aes256Gcm);
    connect((&mut a, 1), (&mut b, 2), Cipher::Aes256Gcm, 2);
    let packets = sealed(&mut a, 1);
    b.remove_link(LinkId(1));
    assert!(is_silent(&receive(&mut b, path(1), &packets[0])));
    assert_eq!(drops(&b), [("unknown_spi", 1)]);
    // A new link under the same name does not bring the old SAs back.
    connect((&mut a, 1), (&mut b, 2), Cipher::Aes256Gcm, 3);
    assert!(is_silent(&receive(&mut b, path(1), &packets[0])));
    assert_eq!(drops(&b), [("unknown_spi", 2)]);
    b.remove_link(LinkId(1));
    // Calls about what is not there do nothing.
    b.remove(LinkId(1), 0x2001);
    b.set_path(LinkId(1), path(5));
    b.set_link_local(LinkId(1), "fe80::1".parse().unwrap());
    assert_eq!(b.link(LinkId(1)), None);
}

#[test]
fn keys_that_do_not_fit_are_not_installed() {
    let mut a = node(1, &[]);
    let (mut child, _) = children(Cipher::Aes256Gcm, 1);
    child.cipher = Cipher::Aes128Gcm;
    a.install(LinkId(2), path(2), &child, false);
    assert_eq!(a.link(LinkId(2)), None);
}
