//! Which events are logged: `warn`, or `warn,ccnicd::metrics=debug`; and where they are written, without waiting for who reads them.
//!
//! Filtered by target and level only. tracing-subscriber's `EnvFilter` also filters by the fields of spans, which there are none of here, and brings
//! an engine for regular expressions.

use std::io::{self, Stderr, Write};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Whose events there are.
const CRATES: [&str; 5] = ["ccnicd", "ccnic", "ccnic_control", "ccnic_nic", "ccnic_shm"];

/// The filter that `text` describes. A target that it does not name logs as without a filter, unless it says otherwise.
///
/// # Errors
/// When a part is neither a level nor a target of this project with its level.
pub fn filter(text: &str) -> anyhow::Result<Targets> {
    let wrong =
        || format!("{text} is no log filter; write a level, or TARGET=LEVEL, with commas between them");
    // Targets takes an empty part, or an empty level, for `error`.
    let parts: Vec<_> = text.split(',').filter(|part| !part.is_empty()).collect();
    let incomplete = parts.iter().any(|part| part.starts_with('=') || part.ends_with('='));
    anyhow::ensure!(!incomplete, wrong());
    // A word that is no level would be a target, of which all is logged, and of all others errors only.
    let word = parts.iter().find(|part| !part.contains('=') && part.parse::<LevelFilter>().is_err());
    if let Some(word) = word {
        anyhow::bail!(
            "{text} is no log filter: {word} is no level; write off, error, warn, info, debug or trace, and of a part of ccnicd \
             {word}=LEVEL"
        );
    }
    let strange = |target: &&str| !CRATES.contains(&target.split("::").next().unwrap_or_default());
    let targets = parts.iter().filter_map(|part| part.split_once('=')).map(|(target, _)| target);
    if let Some(target) = targets.clone().find(strange) {
        anyhow::bail!(
            "{text} is no log filter: {target} is no part of ccnicd; write ccnicd::PART=LEVEL, with a part that its log names"
        );
    }
    let filter = match parts.is_empty() {
        true => Targets::new(),
        false => parts.join(",").parse::<Targets>().with_context(wrong)?,
    };
    let default = filter.default_level().unwrap_or(LevelFilter::INFO);
    Ok(filter.with_default(default))
}

/// Standard error, as a log of lines. Any thread may log, the polling ones too: when whoever reads standard error has stopped, what it has no
/// room for is left out and counted. (A file is always written to.)
#[derive(Debug)]
pub struct LogWriter<W = Stderr> {
    to: W,
    /// Lines that nobody has been told of.
    left_out: u64,
}

impl Default for LogWriter {
    fn default() -> LogWriter {
        LogWriter::new(io::stderr())
    }
}

impl<W: rustix::fd::AsFd> LogWriter<W> {
    fn new(to: W) -> LogWriter<W> {
        LogWriter { to, left_out: 0 }
    }

    /// Writes all of it, or as much as there is room for now.
    fn write_now(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = match send(&self.to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::NOTSOCK) => self.write_to_file(bytes),
                sent => sent,
            };
            match written {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// A pipe that can be written to takes so many bytes at once (PIPE_BUF).
    fn write_to_file(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut fds = [PollFd::new(&self.to, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let ready = fds.first().is_some_and(|fd| fd.revents().contains(PollFlags::OUT));
        if !ready {
            return Err(Errno::AGAIN);
        }
        rustix::io::write(&self.to, bytes.get(..4096).unwrap_or(bytes))
    }
}

/// Takes a line at a time, and never fails.
impl<W: rustix::fd::AsFd> Write for LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let note = match self.left_out {
            0 => Vec::new(),
            lines => format!("{lines} lines were left out: nobody has read the log\n").into_bytes(),
        };
        match self.write_now(&[&note, line].concat()) {
            Ok(()) => self.left_out = 0,
            Err(_) => self.left_out += 1,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use tracing::Level;

    /// A reader that has stopped, then reads again.
    #[track_caller]
    fn is_not_waited_for(to: impl AsFd, mut from: impl Read) {
        let mut log = LogWriter::new(to);
        let line = [&b"x".repeat(9000)[..], b"\n"].concat();
        while log.left_out < 100 {
            log.write_all(&line).unwrap();
        }
        let mut room = vec![0; 4 << 20];
        let _ = from.read(&mut room).unwrap();
        log.write_all(b"the end\n").unwrap();
        assert_eq!(log.left_out, 0);
        drop(log);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        assert!(
            rest.ends_with("100 lines were left out: nobody has read the log\nthe end\n"),
            "{}",
            rest.len()
        );
    }

    #[test]
    fn a_log_that_nobody_reads_is_not_waited_for() {
        let (reader, writer) = io::pipe().unwrap();
        is_not_waited_for(writer, reader);
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        is_not_waited_for(writer, reader);
        let file = tempfile::tempfile().unwrap();
        let mut log = LogWriter::new(&file);
        (0..100).for_each(|_| log.write_all(&[b'x'; 9000]).unwrap());
        assert_eq!((log.left_out, file.metadata().unwrap().len()), (0, 900_000));
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        LogWriter::new(writer).write_all(b"to nobody").unwrap();
    }

    #[test]
    fn a_level_for_all_and_one_for_a_target() {
        let filter = filter("warn,ccnicd::metrics=debug").unwrap();
        assert!(filter.would_enable("ccnicd::control", &Level::WARN));
        assert!(!filter.would_enable("ccnicd::control", &Level::INFO));
        assert!(filter.would_enable("ccnicd::metrics", &Level::DEBUG));
        assert!(!filter.would_enable("ccnicd::metrics", &Level::TRACE));
    }

    #[test]
    fn what_is_not_named_is_logged_as_without_a_filter() {
        for text in ["", ",", "ccnicd::metrics=debug", "ccnicd::metrics=error"] {
            let filter = filter(text).unwrap();
            assert!(filter.would_enable("ccnicd::control", &Level::INFO), "{text}");
            assert!(!filter.would_enable("ccnicd::control", &Level::DEBUG), "{text}");
        }
        assert!(!filter("off").unwrap().would_enable("ccnicd::control", &Level::ERROR));
        let one = filter("info,ccnicd::placement=off").unwrap();
        assert!(
            !one.would_enable("ccnicd::placement", &Level::ERROR) && one.would_enable("ccnicd", &Level::INFO)
        );
    }

    #[test]
    fn an_empty_part_says_nothing() {
        for text in ["info,", ",info", "info,,ccnicd::metrics=off"] {
            assert!(filter(text).unwrap().would_enable("ccnicd::control", &Level::INFO), "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_by_its_name() {
        for text in [
            "loud",
            "warn,loud",
            "ccnicd::control",
            " info",
            "ccnicd=loud",
            "metrics=debug",
            "ccnicfoo=debug",
            "ccnicd:metrics=debug",
            "info,tokio=debug",
            "=,=",
            "ccnicd=",
            "=info",
            "a=b=c",
        ] {
            assert!(filter(text).unwrap_err().to_string().starts_with(text), "{text}");
        }
    }
}
