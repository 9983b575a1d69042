//! ccnic-check
