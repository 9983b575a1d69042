//! What a server says of itself, by memcached's command `stats` over a connection of its own, or what the kernel says of its process.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::dial;

/// How long a connection may take, and then an answer as a whole.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer.
const LONGEST: usize = 1 << 20;

/// Numbers that a server tells, by their names.
pub type Figures = BTreeMap<String, f64>;

/// Where a server answers `stats`: `tcp:HOST:PORT` or `unix:PATH`. Or which process it is, `pid:PID`: then the only figure is `cpu_ns`, the
/// nanoseconds that its threads have run.
#[derive(Debug, Clone)]
pub enum Source {
    /// A TCP port.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
    /// A process of this machine.
    Process(u32),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        match text.split_once(':') {
            Some(("tcp", at)) => Ok(Source::Tcp(at.to_owned())),
            Some(("unix", path)) => Ok(Source::Unix(path.into())),
            Some(("pid", pid)) => {
                pid.parse().map(Source::Process).map_err(|_| format!("{pid:?} is no process"))
            }
            _ => Err(format!("{text:?} is none of tcp:HOST:PORT, unix:PATH, pid:PID")),
        }
    }
}

impl Source {
    /// Asks the server.
    ///
    /// # Errors
    /// When it cannot be reached, or answers something else.
    pub fn read(&self) -> anyhow::Result<Figures> {
        match self {
            Source::Tcp(at) => {
                let context = || format!("--stats tcp:{at}");
                let all: Vec<_> = at.to_socket_addrs().with_context(context)?.collect();
                let address = all.first().with_context(context)?;
                let stream = dial::tcp(*address, Some(PATIENCE)).with_context(context)?;
                figures(stream, PATIENCE).with_context(context)
            }
            Source::Unix(path) => {
                let context = || format!("--stats unix:{}", path.display());
                let stream = dial::unix(path, Some(PATIENCE)).with_context(context)?;
                figures(stream, PATIENCE).with_context(context)
            }
            Source::Process(pid) => Ok([("cpu_ns".to_owned(), cpu_ns(*pid)?)].into()),
        }
    }
}

/// How long the threads of a process have run: what the scheduler counts of each.
fn cpu_ns(pid: u32) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for thread in
        std::fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("--stats pid:{pid}"))?
    {
        // A thread may end meanwhile.
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let ran = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        sum += ran.context("--stats pid: this kernel keeps no schedstat")?;
    }
    Ok(sum)
}

/// Asks for `stats`, and waits `patience` for all of the answer.
fn figures(mut stream: impl Read + Write + AsFd, patience: Duration) -> anyhow::Result<Figures> {
    let end = Instant::now() + patience;
    set_socket_timeout(&stream, Timeout::Send, Some(patience))?;
    stream.write_all(b"stats\r\n")?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while answer != b"END\r\n" && !answer.ends_with(b"\nEND\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        let late = || format!("the server has not answered to `stats` for {} s", patience.as_secs_f64());
        anyhow::ensure!(!left.is_zero(), late());
        anyhow::ensure!(answer.len() < LONGEST, "the server's answer to `stats` does not end");
        set_socket_timeout(&stream, Timeout::Recv, Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => anyhow::bail!("the server closed the connection within its answer"),
            Ok(count) => answer.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                anyhow::bail!(late());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(String::from_utf8_lossy(&answer).lines().filter_map(figure).collect())
}

/// A line `STAT name number`.
fn figure(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("STAT ")?.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// What has been added between two looks, of what the later one has.
pub fn between(before: &Figures, after: &Figures) -> Figures {
    after.iter().map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(&0.0))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn what_is_no_number_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let source: Source = format!("unix:{}", path.display()).parse().unwrap();
        let read = |answer: &'static [u8]| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut stream = listener.accept().unwrap().0;
                    stream.read_exact(&mut [0; 7]).unwrap();
                    stream.write_all(answer).unwrap();
                });
                source.read()
            })
        };
        let before = read(b"STAT version 1.6.18\r\nSTAT x 7\r\nSTAT y 0.25\r\nEND\r\n").unwrap();
        assert_eq!(before.into_iter().collect::<Vec<_>>(), [("x".to_owned(), 7.0), ("y".to_owned(), 0.25)]);
        assert!(format!("{:#}", read(b"STAT x 7\r\n").unwrap_err()).contains("closed"));
        assert!("udp:x".parse::<Source>().is_err() && "pid:x".parse::<Source>().is_err());
    }

    #[test]
    fn an_answer_that_does_not_end_is_given_up() {
        let answer = |send: fn(&mut UnixStream) -> std::io::Result<()>| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || while send(&mut theirs).is_ok() {});
                let answer = figures(ours, Duration::from_millis(200)).unwrap_err();
                format!("{answer:#}")
            })
        };
        // Byte by byte, each soon after the one before.
        let dribbles = answer(|stream| {
            std::thread::sleep(Duration::from_millis(5));
            stream.write_all(b"S")
        });
        assert!(dribbles.contains("has not answered"), "{dribbles}");
        let (ours, _silent) = UnixStream::pair().unwrap();
        let silent = figures(ours, Duration::from_millis(20)).unwrap_err().to_string();
        assert!(silent.contains("has not answered to `stats` for 0.02 s"), "{silent}");
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let long = std::thread::scope(|scope| {
            scope.spawn(move || while theirs.write_all(&[b'x'; 65536]).is_ok() {});
            figures(ours, Duration::from_secs(600)).unwrap_err().to_string()
        });
        assert!(long.contains("does not end"), "{long}");
    }

    #[test]
    fn the_time_of_a_process_grows_while_it_runs() {
        let source: Source = format!("pid:{}", std::process::id()).parse().unwrap();
        let before = source.read().unwrap();
        while between(&before, &source.read().unwrap())["cpu_ns"] < 1e6 {}
        assert!(Source::Process(u32::MAX).read().is_err());
    }

    #[test]
    fn what_was_added_is_told() {
        let figures = |pairs: &[(&str, f64)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let (before, after) = (figures(&[("a", 1.0), ("b", 2.0)]), figures(&[("a", 5.0), ("c", 3.0)]));
        assert_eq!(between(&before, &after), figures(&[("a", 4.0), ("c", 3.0)]));
    }
}
