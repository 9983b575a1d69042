//! Connections to a server that may be there and take none.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Connects over TCP within `limit`; without one, within the kernel's.
pub(crate) fn tcp(address: SocketAddr, limit: Option<Duration>) -> Result<TcpStream> {
    match limit {
        Some(limit) => TcpStream::connect_timeout(&address, limit),
        None => TcpStream::connect(address),
    }
}

/// Connects to a Unix socket within `limit`: a server whose backlog is full would be waited for without end.
pub(crate) fn unix(path: &Path, limit: Option<Duration>) -> Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&fd, Timeout::Send, limit)?;
    match connect(&fd, &address) {
        Ok(()) => Ok(fd.into()),
        Err(Errno::AGAIN) => Err(Error::new(ErrorKind::TimedOut, "it does not take connections")),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_unix_socket_that_takes_no_connections_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        let mut taken = Vec::new();
        let error = loop {
            match unix(&path, Some(Duration::from_millis(50))) {
                Ok(stream) => taken.push(stream),
                Err(error) => break error,
            }
            assert!(taken.len() < 100, "the backlog has an end");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("does not take connections") && !taken.is_empty());
    }
}
