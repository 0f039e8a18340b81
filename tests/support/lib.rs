//! What the black-box suites share: the binary, a scripted upstream, raw sockets.
