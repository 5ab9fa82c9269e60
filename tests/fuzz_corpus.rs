//! Everything that the fuzzer found worth keeping, once through its target (see `scripts/fuzz`): `fuzz/corpus` holds what reaches
//! each part of the code, `fuzz/found` each input that once showed a fault.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, its helpers too")]

use std::path::{Path, PathBuf};

#[path = "../fuzz/targets/mod.rs"]
mod targets;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

/// Each input has its length in front, in two octets.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let packed = std::fs::read(folder("corpus").join(target)).expect("a corpus");
    let mut rest = packed.as_slice();
    let mut inputs = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (input, after) = after.split_at(u16::from_be_bytes(*length).into());
        inputs.push(input.to_vec());
        rest = after;
    }
    inputs
}

fn replay(target: &str) {
    let run = targets::ALL.iter().find(|(name, _)| *name == target).expect("a target").1;
    let inputs = corpus(target);
    assert!(inputs.len() > 20, "only {} inputs", inputs.len());
    // The least there is, and the most that is common.
    run(&[]);
    run(&[0; 300]);
    run(&[0xff; 300]);
    for input in inputs {
        run(&input);
    }
}

macro_rules! replay {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let all: Vec<&str> = targets::ALL.iter().map(|target| target.0).collect();
            assert_eq!(all, [$(stringify!($target)),*]);
        }
    };
}

replay! {
    ike_message ike_exchanges ike_member babel_packet babel_speaker babel_net node_pair plane_member super_packets
}

/// A file is named `TARGET-WHAT`: what was wrong.
#[test]
fn what_was_mended_stays_mended() {
    // No folder, no faults so far.
    for entry in std::fs::read_dir(folder("found")).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let target = name.split('-').next().unwrap();
        let run = targets::ALL.iter().find(|(known, _)| *known == target).expect("a target").1;
        run(&std::fs::read(&path).unwrap());
    }
}
