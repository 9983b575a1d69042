//! The client: a closed loop of requests on each connection, every answer checked.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use hdrhistogram::Histogram;

use crate::net::Net;

/// What is sent.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Connections
    #[arg(long, default_value_t = 96, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) flows: usize,
    /// Requests under way on each connection
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    depth: usize,
    /// Bytes of a request and of its answer, at least 16
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(16..))]
    size: u16,
    /// How long to measure, after a tenth of it to warm up
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds without an answer after which the server is given up; 0: never
    #[arg(long, default_value_t = 30.0, value_parser = seconds, value_name = "SECONDS")]
    connection_timeout: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Load {
    /// How long the server may be silent.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(self.connection_timeout)).filter(|limit| !limit.is_zero())
    }
}

/// A time of a day at most.
fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=86_400.0).contains(value));
    value.ok_or_else(|| "choose 0 to 86400 seconds".to_owned())
}

/// A connection's requests.
#[derive(Debug, Clone, Default)]
struct Flow {
    /// Requests sent and answers received, whole ones.
    sent: u64,
    answered: u64,
    /// Bytes of requests that there was no room for.
    unsent: Vec<u8>,
    /// The start of an answer.
    partial: Vec<u8>,
}

/// The client and what it has measured.
pub(crate) struct Client {
    flows: Vec<Flow>,
    /// Flows that have had an answer.
    working: usize,
    start: Instant,
    bytes: Vec<u8>,
    latencies: Histogram<u64>,
    calls: u64,
    measured: Duration,
}

/// What is said of a server that is silent on all connections, or on some of them from the beginning.
fn silence(silent: usize, all: usize, limit: Duration) -> String {
    let on = if silent == 0 { String::new() } else { format!(" on {silent} of {all} connections") };
    format!("the server does not answer{on}: nothing has come for {} s", limit.as_secs_f64())
}

/// The filler of a request.
fn filler(number: u64, at: usize) -> u8 {
    (number as u8).wrapping_mul(31).wrapping_add(at as u8)
}

impl Client {
    pub(crate) fn new(load: &Load) -> Client {
        // One minute at most, three digits.
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap_or_else(|_| unreachable!());
        let flows = vec![Flow::default(); load.flows];
        let bytes = vec![0; 16 << 10];
        Client {
            flows,
            working: 0,
            start: Instant::now(),
            bytes,
            latencies,
            calls: 0,
            measured: Duration::ZERO,
        }
    }

    /// Measures. Sleeps for at most this long when nothing comes; `between` is done after each poll.
    pub(crate) fn run(
        &mut self,
        net: &mut dyn Net,
        load: &Load,
        sleep: Duration,
        mut between: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let length = Duration::from_secs_f64(load.seconds);
        let mut begin = None; // when all flows work, and it is warm
        let mut warm = false;
        let limit = load.limit();
        let (mut heard, mut before) = (Instant::now(), 0);
        loop {
            net.poll(sleep)?;
            while let Some(conn) = net.ready() {
                self.serve(net, conn, load)?;
            }
            between()?;
            let now = Instant::now();
            // Until all flows work, answers on those that do are no progress.
            let progress = if begin.is_some() { self.calls } else { self.working as u64 };
            if progress > before {
                (heard, before) = (now, progress);
            } else if let Some(limit) = limit
                && now - heard >= limit
            {
                let silent = if begin.is_some() { 0 } else { self.flows.len() - self.working };
                bail!(silence(silent, self.flows.len(), limit));
            }
            match begin {
                None if self.working == self.flows.len() => {
                    (begin, before) = (Some(now + length / 10), self.calls);
                }
                Some(at) if !warm && now >= at => {
                    (warm, begin) = (true, Some(now));
                    self.latencies.reset();
                    (self.calls, before) = (0, 0);
                }
                Some(at) if warm && now > at + length => {
                    self.measured = now - at;
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Reads the answers of a connection, and sends as many requests.
    fn serve(&mut self, net: &mut dyn Net, conn: usize, load: &Load) -> anyhow::Result<()> {
        loop {
            let n = match net.read(conn, &mut self.bytes) {
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e).context("the connection has failed"),
            };
            ensure!(n > 0, "the server has closed the connection");
            let bytes = std::mem::take(&mut self.bytes);
            self.answers(conn, &bytes[..n], load.size.into())?;
            let all = n < bytes.len();
            self.bytes = bytes;
            if all {
                break;
            }
        }
        let now = self.start.elapsed().as_nanos() as u64;
        let flow = &mut self.flows[conn];
        while flow.sent < flow.answered + load.depth as u64 {
            let at = flow.unsent.len();
            flow.unsent.extend(flow.sent.to_le_bytes());
            flow.unsent.extend(now.to_le_bytes());
            flow.unsent.extend((16..usize::from(load.size)).map(|at| filler(flow.sent, at)));
            debug_assert_eq!(flow.unsent.len(), at + usize::from(load.size));
            flow.sent += 1;
        }
        if !flow.unsent.is_empty() {
            match net.write(conn, &flow.unsent) {
                Ok(n) => drop(flow.unsent.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e).context("the connection has failed"),
            }
        }
        Ok(())
    }

    fn answers(&mut self, conn: usize, mut bytes: &[u8], size: usize) -> anyhow::Result<()> {
        let now = self.start.elapsed().as_nanos() as u64;
        let mut partial = std::mem::take(&mut self.flows[conn].partial);
        if !partial.is_empty() {
            let n = (size - partial.len()).min(bytes.len());
            partial.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if partial.len() == size {
                self.answer(conn, &partial, now)?;
                partial.clear();
            }
        }
        let mut answers = bytes.chunks_exact(size);
        for answer in &mut answers {
            self.answer(conn, answer, now)?;
        }
        partial.extend_from_slice(answers.remainder());
        self.flows[conn].partial = partial;
        Ok(())
    }

    fn answer(&mut self, conn: usize, answer: &[u8], now: u64) -> anyhow::Result<()> {
        let word = |at: usize| answer[at..at + 8].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
        let flow = &mut self.flows[conn];
        let number = flow.answered;
        ensure!(word(0) == number, "answer {} in place of {number}", word(0));
        // All bytes are looked at, so that many are compared at once.
        let differ = |differ, (at, byte): (usize, &u8)| differ | (byte ^ filler(number, at));
        ensure!(answer.iter().enumerate().skip(16).fold(0, differ) == 0, "answer {number} has other bytes");
        flow.answered += 1;
        self.working += usize::from(flow.answered == 1);
        self.calls += 1;
        self.latencies.saturating_record(now.saturating_sub(word(8)));
        Ok(())
    }

    /// Prints what was measured.
    pub(crate) fn report(&self, load: &Load) {
        let rate = self.calls as f64 / self.measured.as_secs_f64();
        let micros = |quantile: f64| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let (p50, p99, p999) = (micros(0.5), micros(0.99), micros(0.999));
        if load.json {
            let figures = serde_json::json!({
                "flows": load.flows, "depth": load.depth, "size": load.size, "seconds": self.measured.as_secs_f64(),
                "calls": self.calls, "calls_per_second": rate, "p50_us": p50, "p99_us": p99, "p999_us": p999,
            });
            println!("{figures}");
            return;
        }
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        println!(
            "{} connection{}, {} request{} of {} bytes on each: {rate:.0} calls/s, p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us",
            load.flows,
            plural(load.flows),
            load.depth,
            plural(load.depth),
            load.size
        );
    }
}
