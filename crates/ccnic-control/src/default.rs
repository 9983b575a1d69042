//! Where a NIC and its programs meet when nobody says another place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The socket of a NIC and its programs: `CCNIC_SOCKET` of the environment, otherwise `ccnic.sock` in `/run` for root, in
/// `$XDG_RUNTIME_DIR` for others, and in `/run` for those who have none.
pub fn default_socket() -> PathBuf {
    of(rustix::process::geteuid().is_root(), |name| std::env::var_os(name))
}

fn of(root: bool, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let said = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(socket) = said("CCNIC_SOCKET") {
        return socket.into();
    }
    let own = said("XDG_RUNTIME_DIR").filter(|_| !root);
    own.as_deref().map_or(Path::new("/run"), Path::new).join("ccnic.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_looks_at_the_same_place() {
        let with = |root, said: &[(&str, &str)]| {
            let value = |name: &str| said.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
            of(root, value).display().to_string()
        };
        let own = ("XDG_RUNTIME_DIR", "/run/user/7");
        assert_eq!(with(true, &[own]), "/run/ccnic.sock");
        assert_eq!(with(false, &[own]), "/run/user/7/ccnic.sock");
        assert_eq!(with(false, &[]), "/run/ccnic.sock");
        assert_eq!(with(false, &[own, ("CCNIC_SOCKET", "")]), "/run/user/7/ccnic.sock");
        assert_eq!(with(true, &[own, ("CCNIC_SOCKET", "/x")]), "/x");
    }
}
