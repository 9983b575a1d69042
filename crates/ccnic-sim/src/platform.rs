//! Platforms.
