//! Who yields when both sides act at once (RFC 7296 §2.8, §2.25; RFC 9370 §2.2.4). Decisions only: nothing here has a state.

use super::event::Role;

/// What we have under way on the IKE SA when a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    /// A Child SA beside what there is.
    Creating,
    /// Of the Child SA that receives by `spi_in`. `followed`: the peer has agreed, and additional key exchanges have begun.
    RekeyingChild {
        spi_in: u32,
        followed: bool,
    },
    RekeyingIke {
        followed: bool,
    },
    DeletingChild,
}

/// The Child SA that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Unknown,
    Standing {
        spi_in: u32,
    },
    /// It has a successor already, or is being deleted.
    Leaving,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    Give,
    /// Given, and the same is under way from our side: the nonces will say which one stays.
    Cross,
    /// TEMPORARY_FAILURE
    Busy,
    /// CHILD_SA_NOT_FOUND
    NotFound,
}

/// A request for a further Child SA.
pub(super) fn on_create(doing: Doing, role: Role) -> Ruling {
    match doing {
        // RFC 7296 §2.25.2.
        Doing::RekeyingIke { .. } => Ruling::Busy,
        // Both lack a Child SA. One is enough: the one that the original initiator asks for.
        Doing::Creating if role == Role::Initiator => Ruling::Busy,
        Doing::Creating | Doing::Nothing | Doing::RekeyingChild { .. } | Doing::DeletingChild => Ruling::Give,
    }
}

/// A request to rekey a Child SA.
pub(super) fn on_rekey_child(doing: Doing, target: Target) -> Ruling {
    match (doing, target) {
        (Doing::RekeyingIke { .. }, _) => Ruling::Busy,
        (_, Target::Unknown) => Ruling::NotFound,
        // RFC 7296 §2.25.1.
        (_, Target::Leaving) => Ruling::Busy,
        (Doing::RekeyingChild { spi_in: ours, followed }, Target::Standing { spi_in }) if ours == spi_in => {
            if followed { Ruling::Busy } else { Ruling::Cross }
        }
        (
            Doing::Nothing | Doing::Creating | Doing::RekeyingChild { .. } | Doing::DeletingChild,
            Target::Standing { .. },
        ) => Ruling::Give,
    }
}

/// A request to rekey the IKE SA.
pub(super) fn on_rekey_ike(doing: Doing) -> Ruling {
    match doing {
        Doing::Nothing => Ruling::Give,
        Doing::RekeyingIke { followed: false } => Ruling::Cross,
        // RFC 7296 §2.25.2: while a Child SA is created, rekeyed or closed.
        Doing::RekeyingIke { followed: true }
        | Doing::Creating
        | Doing::RekeyingChild { .. }
        | Doing::DeletingChild => Ruling::Busy,
    }
}

/// Of two exchanges that both got a positive answer, the one with the lowest of the four nonces is taken back by its initiator
/// (RFC 7296 §2.8.1); octets are compared from the front, and a nonce that ends first is the lower one.
pub(super) fn ours_loses(ours: [&[u8]; 2], theirs: [&[u8]; 2]) -> bool {
    ours.iter().min() < theirs.iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Doing; 7] = [
        Doing::Nothing,
        Doing::Creating,
        Doing::RekeyingChild { spi_in: 1, followed: false },
        Doing::RekeyingChild { spi_in: 1, followed: true },
        Doing::RekeyingIke { followed: false },
        Doing::RekeyingIke { followed: true },
        Doing::DeletingChild,
    ];

    /// RFC 7296 §2.25.1 and §2.25.2, each cell.
    #[test]
    fn the_whole_matrix() {
        use Ruling::{Busy, Cross, Give, NotFound};
        let row = |rule: &dyn Fn(Doing) -> Ruling| ALL.map(rule);
        assert_eq!(row(&|doing| on_create(doing, Role::Initiator)), [Give, Busy, Give, Give, Busy, Busy, Give]);
        assert_eq!(row(&|doing| on_create(doing, Role::Responder)), [Give, Give, Give, Give, Busy, Busy, Give]);
        assert_eq!(row(&on_rekey_ike), [Give, Busy, Busy, Busy, Cross, Busy, Busy]);
        let child = |target| row(&|doing| on_rekey_child(doing, target));
        assert_eq!(child(Target::Standing { spi_in: 1 }), [Give, Give, Cross, Busy, Busy, Busy, Give]);
        assert_eq!(child(Target::Standing { spi_in: 2 }), [Give, Give, Give, Give, Busy, Busy, Give]);
        assert_eq!(child(Target::Leaving), [Busy; 7]);
        assert_eq!(child(Target::Unknown), [NotFound, NotFound, NotFound, NotFound, Busy, Busy, NotFound]);
    }

    #[test]
    fn exactly_one_of_two_exchanges_loses() {
        let nonces: [&[u8]; 5] = [&[0, 9], &[0, 9, 0], &[1, 2, 3], &[1, 3], &[2]];
        for a in nonces {
            for b in nonces {
                for c in nonces {
                    for d in nonces {
                        if [a, b].iter().min() != [c, d].iter().min() {
                            assert_ne!(ours_loses([a, b], [c, d]), ours_loses([c, d], [a, b]));
                        }
                    }
                }
            }
        }
        assert!(ours_loses([&[5], &[1, 0]], [&[1, 0, 0], &[3]]), "the shorter one is the lower one");
        assert!(!ours_loses([&[5], &[2]], [&[1, 0, 0], &[9]]));
    }
}
