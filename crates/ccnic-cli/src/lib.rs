//! ccnic-cli
