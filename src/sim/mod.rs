//! Worlds of nodes on virtual time (tests).
