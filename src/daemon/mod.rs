//! The event loop: the only place with a clock, file descriptors and threads.
