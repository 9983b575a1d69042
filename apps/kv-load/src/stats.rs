//! What a server says of itself, by memcached's command `stats` over a connection of its own, or what the kernel says of its process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;

/// The longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

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
                let stream = TcpStream::connect(at.as_str()).with_context(|| format!("--stats {at}"))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                figures(stream)
            }
            Source::Unix(path) => {
                let stream =
                    UnixStream::connect(path).with_context(|| format!("--stats {}", path.display()))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                figures(stream)
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

fn figures(mut stream: impl Read + Write) -> anyhow::Result<Figures> {
    stream.write_all(b"stats\r\n")?;
    let mut figures = Figures::new();
    for line in BufReader::new(stream).lines() {
        let line = line.context("--stats")?;
        if line == "END" {
            return Ok(figures);
        }
        let mut words = line.split_whitespace();
        if let (Some("STAT"), Some(name), Some(value)) = (words.next(), words.next(), words.next())
            && let Ok(value) = value.parse()
        {
            figures.insert(name.to_owned(), value);
        }
    }
    anyhow::bail!("--stats: the server closed the connection within its answer")
}

/// What has been added between two looks, of what the later one has.
pub fn between(before: &Figures, after: &Figures) -> Figures {
    after.iter().map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(&0.0))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use std::os::unix::net::UnixListener;

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
        assert!(read(b"STAT x 7\r\n").unwrap_err().to_string().contains("closed"));
        assert!("udp:x".parse::<Source>().is_err() && "pid:x".parse::<Source>().is_err());
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
