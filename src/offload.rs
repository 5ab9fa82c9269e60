//! What the kernel may do for us in bulk, and whether to ask it.

/// Work on whole trains of packets; each part falls back to single packets where the kernel lacks or refuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Packets of up to 64 KiB to and from the TUN device (TSO, USO).
    pub tun: Switch,
    /// Trains of datagrams sent in one piece (`UDP_SEGMENT`).
    pub udp_gso: Switch,
    /// Trains of datagrams received in one piece (`UDP_GRO`).
    pub udp_gro: Switch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// Where the system can do it.
    #[default]
    Auto,
    /// The same, and a warning where it cannot.
    On,
    Off,
}

impl Switch {
    pub fn is_wanted(self) -> bool {
        self != Switch::Off
    }

    /// How loudly to say that it does not work.
    pub fn level(self) -> log::Level {
        if self == Switch::On { log::Level::Warn } else { log::Level::Info }
    }
}
