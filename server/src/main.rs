//! The `samekey` binary: no logic here.
fn main() {}
