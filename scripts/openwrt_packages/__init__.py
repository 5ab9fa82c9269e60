"""OpenWrt packages from a built binary, without the SDK: scripts/build-openwrt is the command."""


class Refused(Exception):
    """What was asked for cannot be done; the text says why and what to do."""
