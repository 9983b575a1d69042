//! Files by path where others may write: what is opened is looked at by its descriptor, a link at its name is not followed, and nobody is
//! waited for who holds the other end of a pipe or a lease.

use std::fs::{File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Opens a regular file to read it. Links are followed, as those of Kubernetes' configuration are; pipes and devices are refused.
///
/// # Errors
/// Why not.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(bits(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path);
    let file = file.map_err(explain)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other("it is no regular file")) }
}

/// Reads a regular file of text of so many bytes at most.
///
/// # Errors
/// Why not.
pub fn read_text(path: &Path, longest: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(longest.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > longest {
        return Err(other(&format!("it has more than {longest} bytes")));
    }
    Ok(text)
}

/// Begins a file that anybody may read whom the umask lets, in the place of one that there is. Also opens a pipe, which somebody must be
/// reading, and a device.
///
/// # Errors
/// Why not: a link is not followed.
pub fn create(path: &Path) -> io::Result<File> {
    begin(path, 0o666, |_| Ok(()))
}

/// The same, with these contents.
///
/// # Errors
/// As [`create`]; or that it cannot be written to.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(contents.as_ref())
}

/// Begins a file of packets, or of whatever else is nobody else's business: it has mode 0600.
///
/// # Errors
/// Why not: a link is not followed, a pipe not written to, and what another user has put there is not used.
pub fn create_private(path: &Path) -> io::Result<File> {
    private(path, false)
}

/// The same, or a pipe of this user that somebody is reading.
///
/// # Errors
/// As [`create_private`].
pub fn create_private_or_pipe(path: &Path) -> io::Result<File> {
    private(path, true)
}

fn private(path: &Path, pipes: bool) -> io::Result<File> {
    begin(path, 0o600, |file| {
        let about = file.metadata()?;
        let kind = about.file_type();
        if kind.is_char_device() {
            return Ok(()); // /dev/null
        }
        if !(kind.is_file() || pipes && kind.is_fifo()) {
            return Err(other("it is no regular file"));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(other(&format!(
                "it is there and belongs to user {}: remove it or choose another name",
                about.uid()
            )));
        }
        if kind.is_file() && about.nlink() != 1 {
            return Err(other("it has another name, too (a hard link): remove it or choose another name"));
        }
        if about.mode() & 0o077 == 0 {
            return Ok(());
        }
        // A sandbox may forbid that.
        let private = file.set_permissions(Permissions::from_mode(0o600));
        private.map_err(|e| {
            other(&format!("it is there and others may read it: remove it or choose another name ({e})"))
        })
    })
}

/// Opens and checks; only then what there was is cut away.
fn begin(path: &Path, mode: u32, check: impl FnOnce(&File) -> io::Result<()>) -> io::Result<File> {
    let flags = bits(OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode).custom_flags(flags);
    let file = options.open(path).map_err(explain)?;
    check(&file)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    // Only opening was not to wait: who reads a pipe slowly is waited for.
    let status = fcntl_getfl(&file)?;
    fcntl_setfl(&file, status - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Puts a file in the place of another, at once: whoever reads meanwhile finds the old one or the new one. Its mode is `mode`, as the umask
/// lets.
///
/// # Errors
/// Why not. The old file stays then.
pub fn replace(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or_else(|| other("it names no file"))?.to_owned();
    name.push(format!(".{:016x}", random()));
    let temporary = path.with_file_name(name);
    let mut file = File::options().write(true).create_new(true).mode(mode).open(&temporary)?;
    let written = file
        .write_all(contents)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// True when both names are there and are those of one file.
pub fn are_one(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino())).ok();
    identity(one).is_some() && identity(one) == identity(other)
}

/// A number that nobody can guess: the standard library takes the keys of its hash from the kernel.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn other(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// Says what the kernel means.
fn explain(e: io::Error) -> io::Error {
    match Errno::from_io_error(&e) {
        Some(Errno::LOOP) => other("it is a symbolic link, which is not followed: name the file itself"),
        Some(Errno::NXIO) => other("it is a pipe that nobody reads, or a socket"),
        Some(Errno::AGAIN) => other("its owner holds a lease on it"),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};

    fn pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    #[test]
    fn what_holds_packets_is_its_users_alone_also_where_there_was_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packets");
        for before in [None, Some("a longer recording of the time before")] {
            if let Some(before) = before {
                std::fs::write(&path, before).unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            }
            create_private(&path).unwrap().write_all(b"packets").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"packets");
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        }
        create_private(Path::new("/dev/null")).unwrap().write_all(b"packets").unwrap();
        assert_ne!(std::fs::metadata("/dev/null").unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn neither_a_link_nor_anothers_file_is_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let (link, precious) = (directory.path().join("link"), directory.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        for why in [create(&link).unwrap_err(), create_private(&link).unwrap_err()] {
            assert!(why.to_string().contains("symbolic link"), "{why}");
        }
        let twin = directory.path().join("twin");
        std::fs::hard_link(&precious, &twin).unwrap();
        assert!(create_private(&twin).unwrap_err().to_string().contains("hard link"));
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&twin).unwrap();
            std::os::unix::fs::chown(&precious, Some(4242), None).unwrap();
            let why = create_private(&precious).unwrap_err().to_string();
            assert!(why.contains("belongs to user 4242"), "{why}");
        }
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_link_is_replaced_and_what_it_names_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (link, precious) = (directory.path().join("link"), directory.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        replace(&link, 0o640, b"new").unwrap();
        assert_eq!(
            (std::fs::read(&link).unwrap(), std::fs::read(&precious).unwrap()),
            (b"new".into(), b"precious".into())
        );
        assert!(!std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(replace(&directory.path().join("no/file"), 0o644, b"").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing else is left");
        let twin = directory.path().join("twin");
        std::os::unix::fs::symlink(&link, &twin).unwrap();
        assert!(
            are_one(&link, &twin)
                && !are_one(&link, &precious)
                && !are_one(&twin, &directory.path().join("no"))
        );
    }

    #[test]
    fn pipes_are_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        pipe(&path);
        assert!(open(&path).unwrap_err().to_string().contains("no regular file"));
        assert!(create_private_or_pipe(&path).unwrap_err().to_string().contains("nobody reads"));
        // One with a reader is written to, as slowly as it is read.
        let mut reader =
            OpenOptions::new().read(true).custom_flags(bits(OFlags::NONBLOCK)).open(&path).unwrap();
        assert!(create_private(&path).unwrap_err().to_string().contains("no regular file"));
        let mut file = create_private_or_pipe(&path).unwrap();
        file.write_all(b"packets").unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "packets");
    }

    #[test]
    fn text_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert!(read_text(&path, 4).unwrap_err().to_string().contains("more than 4 bytes"));
        assert!(read_text(Path::new("/dev/zero"), 4).is_err());
    }
}
