//! The two protocols: memcached's text, and the paper's RPC. They turn requests into bytes and bytes into replies; they know no sockets.

pub mod rpc;
pub mod text;

use crate::value::Key;

/// A request.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Read a value.
    Get(&'a Key),
    /// Write one.
    Set(&'a Key, &'a [u8]),
}

impl<'a> Request<'a> {
    /// The object's key.
    pub fn key(&self) -> &'a Key {
        match self {
            Request::Get(key) | Request::Set(key, _) => key,
        }
    }
}

/// A store's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The value, and its key where the protocol repeats it.
    Value {
        /// As the store named it.
        key: Option<&'a [u8]>,
        /// The value's bytes.
        data: &'a [u8],
    },
    /// The store has no such object.
    Miss,
    /// The value was written.
    Stored,
    /// The store refuses: why.
    Refused(&'a [u8]),
}

/// Bytes that are no answer of this protocol: nothing after them can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken(pub &'static str);
