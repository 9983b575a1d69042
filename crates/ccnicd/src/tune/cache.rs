//! The file that keeps what was measured, one for each CPU model.
//!
//! Text, a line for each of: the format, the build, the CPU model, the tuning. A file of another build is as good as none: the code
//! that was measured has changed. One that is damaged, or that another user may have written, is reported and measured again.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ccnic::Tuning;
use ccnic_control::files;
use rustix::fs::OFlags;

use super::cpu::CpuModel;

/// The first line of a file.
const FORMAT: &str = "ccnic-tuning 1";
/// No file is longer, in bytes.
const LONGEST: u64 = 1024;

/// The file of one CPU model.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    model: CpuModel,
    /// The second line.
    build: String,
}

impl Cache {
    /// The file of this model in the directory of this user; `None` where there is none.
    pub(super) fn of(model: CpuModel) -> Option<Cache> {
        let root = rustix::process::geteuid().is_root();
        Some(Cache::at(directory(root, |name| std::env::var_os(name).map(PathBuf::from))?, model))
    }

    fn at(directory: PathBuf, model: CpuModel) -> Cache {
        Cache { directory, model, build: build() }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("tuning-{}", self.model))
    }

    /// What was measured for this model by this build; `None` when nothing was.
    ///
    /// # Errors
    /// When the file is not to be used; the error names it, and says why.
    pub(super) fn load(&self) -> anyhow::Result<Option<Tuning>> {
        let path = self.path();
        let text = match read(&path) {
            Ok(text) => text,
            Err(e)
                if e.downcast_ref()
                    .is_some_and(|e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound) =>
            {
                return Ok(None);
            }
            Err(e) => return Err(e.context(format!("{} is not used", path.display()))),
        };
        self.parse(&text).with_context(|| format!("{} is not used; remove it", path.display()))
    }

    fn parse(&self, text: &str) -> anyhow::Result<Option<Tuning>> {
        let lines: Vec<&str> = text.lines().collect();
        let &[format, build, model, tuning] = lines.as_slice() else {
            bail!("it has {} lines instead of 4", lines.len())
        };
        ensure!(format == FORMAT, "it does not begin with \"{FORMAT}\"");
        if build != self.build {
            return Ok(None);
        }
        ensure!(model == self.model_line(), "it is of another CPU model");
        let tuning = tuning.strip_prefix("tuning ").context("its last line is no tuning")?;
        Ok(Some(tuning.parse()?))
    }

    fn model_line(&self) -> String {
        format!("cpu {}", self.model)
    }

    /// Puts a tuning in the place of what is kept, at once: whoever reads meanwhile finds the old file or the new one. Returns its
    /// path.
    ///
    /// # Errors
    /// When it cannot be written; the error names the file.
    pub(super) fn store(&self, tuning: Tuning) -> anyhow::Result<PathBuf> {
        let path = self.path();
        let text = format!("{FORMAT}\n{}\n{}\ntuning {tuning}\n", self.build, self.model_line());
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| files::replace(&path, 0o644, text.as_bytes()))
            .with_context(|| format!("the tuning could not be kept in {}", path.display()))?;
        Ok(path)
    }
}

/// The text of a file that this user, or root, has written and nobody else may write.
fn read(path: &Path) -> anyhow::Result<String> {
    // A pipe in its place would not be waited for, a link not followed.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let about = file.metadata()?;
    ensure!(about.is_file(), "it is no file");
    let owner = about.uid();
    ensure!(owner == 0 || owner == rustix::process::geteuid().as_raw(), "it belongs to uid {owner}");
    ensure!(about.mode() & 0o022 == 0, "others may write it");
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= LONGEST, "it has more than {LONGEST} bytes");
    Ok(text)
}

/// The code that is measured: the release, and the size and time of the executable, which tell builds of one release apart.
fn build() -> String {
    let about = std::env::current_exe().and_then(std::fs::metadata);
    let file =
        about.map(|about| format!("{} bytes of {}.{}", about.size(), about.mtime(), about.mtime_nsec()));
    format!("release {} {}", env!("CARGO_PKG_VERSION"), file.unwrap_or_default())
}

/// Where files are kept: `$CACHE_DIRECTORY` (of a systemd unit), `/var/cache/ccnic` for root, else `ccnic` in `$XDG_CACHE_HOME` or
/// `$HOME/.cache`.
fn directory(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let of_user =
        || Some(absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?.join("ccnic"));
    let default = || if root { Some("/var/cache/ccnic".into()) } else { of_user() };
    absolute("CACHE_DIRECTORY").or_else(default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::cpu::model;
    use std::os::unix::fs::PermissionsExt;

    fn tuning() -> Tuning {
        "fetch=read,ahead=2,idle=spin".parse().unwrap()
    }

    /// A cache in a directory that does not exist yet.
    fn cache(directory: &tempfile::TempDir) -> Cache {
        Cache::at(directory.path().join("a/ccnic"), model("AuthenticAMD"))
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(&directory);
        assert_eq!(cache.load().unwrap(), None, "nothing yet");
        let path = cache.store(Tuning::default()).unwrap();
        assert_eq!(cache.store(tuning()).unwrap(), path);
        assert_eq!(cache.load().unwrap(), Some(tuning()));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        let other = Cache::at(cache.directory.clone(), model("GenuineIntel"));
        assert_eq!(other.load().unwrap(), None, "each model has its own");
    }

    #[test]
    fn a_file_of_another_build_is_as_good_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(&directory);
        let path = cache.store(tuning()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for build in [cache.build.replace("release ", "release 9"), cache.build.replace(" bytes", "1 bytes")]
        {
            std::fs::write(&path, text.replace(&cache.build, &build)).unwrap();
            assert_eq!(cache.load().unwrap(), None, "{build}");
        }
    }

    #[test]
    fn damaged_and_foreign_files_are_reported_with_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(&directory);
        let path = cache.store(tuning()).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (text, why) in [
            (String::new(), "0 lines"),
            (good.replace("ccnic-tuning 1", "ccnic-tuning 2"), "does not begin"),
            (good.replace("AMD", "And"), "another CPU model"),
            (good.replace("tuning fetch", "fetch"), "no tuning"),
            (good.replace("=read", "=write"), "unknown fetch"),
            (good.replace("ahead=2", "ahead=99"), "unknown ahead"),
            (good.clone() + "more\n", "5 lines"),
            (good.clone() + &"x".repeat(2000), "more than 1024 bytes"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = format!("{:#}", cache.load().unwrap_err());
            assert!(
                error.contains(why) && error.contains("tuning-AuthenticAMD-1-2-3 is not used"),
                "{error}"
            );
        }
        std::fs::write(&path, [0xff; 9]).unwrap();
        assert!(cache.load().is_err(), "no text");
        std::fs::write(&path, &good).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(format!("{:#}", cache.load().unwrap_err()).contains("others may write it"));
        assert_eq!(
            cache.store(tuning()).and_then(|_| cache.load()).unwrap(),
            Some(tuning()),
            "and are replaced"
        );
    }

    #[test]
    fn what_is_no_file_is_neither_followed_nor_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(&directory);
        let path = cache.store(tuning()).unwrap();
        std::fs::rename(&path, path.with_extension("elsewhere")).unwrap();
        std::os::unix::fs::symlink(path.with_extension("elsewhere"), &path).unwrap();
        assert!(cache.load().is_err());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(format!("{:#}", cache.load().unwrap_err()).contains("it is no file"));
    }

    #[test]
    fn a_directory_that_cannot_be_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "a file").unwrap();
        let error = format!("{:#}", cache(&directory).store(tuning()).unwrap_err());
        assert!(error.contains("a/ccnic/tuning-AuthenticAMD"), "{error}");
    }

    #[test]
    fn where_files_are_kept() {
        let of = |root, variables: &[(&str, &str)]| {
            let found = directory(root, |name| variables.iter().find(|v| v.0 == name).map(|v| v.1.into()));
            found.map(|path| path.to_str().unwrap().to_owned())
        };
        assert_eq!(of(true, &[("HOME", "/root")]).unwrap(), "/var/cache/ccnic");
        assert_eq!(of(true, &[("CACHE_DIRECTORY", "/var/cache/nic")]).unwrap(), "/var/cache/nic");
        assert_eq!(of(false, &[("HOME", "/home/a")]).unwrap(), "/home/a/.cache/ccnic");
        assert_eq!(of(false, &[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/c")]).unwrap(), "/c/ccnic");
        assert_eq!(of(false, &[("XDG_CACHE_HOME", "relative")]), None);
    }
}
