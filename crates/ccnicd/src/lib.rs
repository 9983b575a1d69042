//! ccnicd
