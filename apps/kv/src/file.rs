//! Files by path, in folders where others may write, too: nothing is followed, and nothing that blocks is waited for.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A new file beside a path, under a name that nobody can tell before. It takes the path's place when it is whole, and is removed if it is
/// dropped before.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

/// Prefix and suffix of the names of unfinished files. In between: the process id, a dot, 16 hexadecimal digits.
fn affixes(path: &Path) -> (String, &'static str) {
    (format!("{}.", path.file_name().unwrap_or_default().display()), ".tmp")
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl NewFile {
    /// Makes it, for the user alone, or with the mode of the user's own file that it is to replace.
    pub(crate) fn create(path: &Path) -> io::Result<NewFile> {
        let (before, behind) = affixes(path);
        let chance = RandomState::new().build_hasher().finish();
        let temporary = path.with_file_name(format!("{before}{}.{chance:016x}{behind}", std::process::id()));
        // O_EXCL: a link of that name is not followed.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let new = NewFile { file, temporary, path: path.into() };
        if let Ok(old) = fs::symlink_metadata(path)
            && old.is_file()
            && old.uid() == new.file.metadata()?.uid()
        {
            new.file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))?;
        }
        Ok(new)
    }

    /// Others may read it, too.
    pub(crate) fn readable(self) -> io::Result<NewFile> {
        self.file.set_permissions(fs::Permissions::from_mode(0o644))?;
        Ok(self)
    }

    /// Makes it durable, and puts it in the place of what the path names. A link there is replaced, not followed.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        File::open(folder(&self.path))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Once it is renamed there is none of this name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Removes what processes have left beside `path` that were killed before their file was whole. What cannot be removed stays.
pub(crate) fn remove_leftovers(path: &Path) {
    let (before, behind) = affixes(path);
    let Ok(entries) = fs::read_dir(folder(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let middle = name.to_str().and_then(|name| name.strip_prefix(&before)?.strip_suffix(behind));
        // Earlier versions had no second part.
        let pid = middle.map(|middle| middle.split_once('.').map_or(middle, |(pid, _)| pid));
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Opens a regular file to be read. Anything else is refused, also what would block: a pipe, a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no regular file"));
    }
    Ok(file)
}

/// The text of a short regular file.
pub(crate) fn read_short(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(64).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn write(path: &Path) {
        let mut file = NewFile::create(path).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
    }

    #[test]
    fn a_file_is_its_users_alone_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path);
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path);
        assert_eq!(mode(&path), 0o640);
        NewFile::create(&path).unwrap().readable().unwrap().finish().unwrap();
        assert_eq!(mode(&path), 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("file"), folder.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        symlink(&precious, &path).unwrap();
        write(&path);
        assert_eq!(
            (fs::read(&precious).unwrap(), fs::read(&path).unwrap()),
            (b"precious".into(), b"new".into())
        );
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn names_of_unfinished_files_differ_and_they_go_with_their_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (one, two) = (NewFile::create(&path).unwrap(), NewFile::create(&path).unwrap());
        assert_ne!(one.temporary, two.temporary);
        let name = one.temporary.to_str().unwrap().to_owned();
        remove_leftovers(&path);
        assert!(one.temporary.exists(), "this process runs");
        drop((one, two));
        let dead = name.replace(&format!(".{}.", std::process::id()), &format!(".{}.", u32::MAX));
        fs::write(&dead, b"begun").unwrap();
        remove_leftovers(&path);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert!(open(path).unwrap_err().to_string().contains("no regular file"), "{}", path.display());
        }
        assert_eq!(open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let path = folder.path().join("file");
        fs::write(&path, b"17\n").unwrap();
        assert_eq!(read_short(&path).unwrap(), "17\n");
    }
}
