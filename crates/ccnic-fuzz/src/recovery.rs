//! placeholder
/// The fuzz target.
pub fn recovery(_: &[u8]) {}
