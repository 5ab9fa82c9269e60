//! The operating system: TUN, UDP, netlink, resolver, signals. The only unsafe code.
