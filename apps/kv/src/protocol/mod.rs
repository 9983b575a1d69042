//! Memcached's protocol without sockets: bytes in, replies out.
//!
//! | file | contents |
//! |---|---|
//! | `connection.rs` | [`Connection`]: from a stream of bytes to commands |
//! | `output.rs` | [`Output`]: replies, whose long values are references |
//! | `line.rs` | a command line as words |
//! | `text.rs`, `update.rs`, `admin.rs` | the classic commands |
//! | `meta.rs`, `meta_set.rs`, `meta_count.rs`, `flags.rs`, `base64.rs` | the meta commands |
//! | `stats.rs`, `settings.rs`, `conns.rs`, `interface_time.rs` | what `stats` tells |
//! | `udp.rs` | requests in datagrams |
//! | `binary.rs` | the refusal of the binary protocol |
//!
//! What each answers is what memcached 1.6.18 answers: the test `differential` compares them.

mod admin;
mod base64;
mod binary;
mod connection;
mod conns;
mod flags;
mod interface_time;
mod line;
mod meta;
mod meta_count;
mod meta_set;
mod output;
mod settings;
mod stats;
mod text;
pub mod udp;
mod update;

pub use connection::{Connection, ENOUGH_OUTPUT};
pub use conns::{Activity, Connections, Endpoint, Listed};
pub use interface_time::InterfaceTime;
pub use output::{Mark, Output};
pub use settings::Settings;
pub use stats::ServerCounters;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::store::{Session, Update};

/// What a client is told when it asks for the version: memcached's, whose behaviour it gets, and ours. Client libraries read the number.
pub const VERSION: &str = concat!("1.6.18-ccnic-", env!("CARGO_PKG_VERSION"));

/// What a command works with.
pub(crate) struct Context<'a, 's> {
    pub(crate) session: &'a mut Session<'s>,
    pub(crate) out: &'a mut Output,
    pub(crate) server: &'a Server,
    /// Replies are made until this many bytes wait.
    pub(crate) enough: usize,
    /// Nothing follows what is there: it is a datagram.
    pub(crate) whole: bool,
    /// Work that is left of the turn, and what of the session's and of the output's was there before.
    pub(crate) work: usize,
    pub(crate) before: (usize, usize),
}

/// What commands know of the server around them.
#[derive(Debug, Default)]
pub struct Server {
    /// How it was started.
    pub settings: Settings,
    /// What it counts.
    pub counters: ServerCounters,
    /// A client has ended it: `shutdown`.
    pub ended: AtomicBool,
    /// Who is connected.
    pub connections: Arc<Connections>,
}

/// What follows a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next command.
    Command,
    /// This many bytes of data belong to the command; it has taken them.
    Took(usize),
    /// This many bytes of data belong to it; it is to be called again when they are there.
    Data(usize),
    /// The same command goes on from this place: of its line, or of what it tells. It is called again, in another turn or when what waits
    /// has been sent.
    More(usize),
    /// The same command once more, with its data, in another turn: it has used this one up.
    Again,
    /// This many bytes are to be thrown away.
    Skip(usize),
    /// Nothing: the connection ends when the replies are sent.
    Close,
}

impl Context<'_, '_> {
    /// The work of this step so far: the store's, and what it has put.
    fn spent(&self) -> usize {
        self.session.spent() - self.before.0 + self.out.len().saturating_sub(self.before.1)
    }

    /// The value of an update, `len` bytes and the end of its line, in what follows its command line; or what follows while there is less, and
    /// where it is no value, which is answered.
    fn value<'a>(
        &mut self,
        update: &Update<'_>,
        rest: &'a [u8],
        len: usize,
        quiet: bool,
    ) -> Result<&'a [u8], Next> {
        let bad = match rest.get(..len + 2).map(|data| data.strip_suffix(b"\r\n")) {
            Some(Some(value)) => return Ok(value),
            Some(None) => len + 2,
            None if self.whole => rest.len(),
            None => return Err(Next::Data(len + 2)),
        };
        self.session.count_set(update.key, update.flags, len);
        self.answer(quiet, BAD_DATA);
        Err(Next::Took(bad))
    }

    /// Work that is left.
    fn left(&self) -> usize {
        self.work.saturating_sub(self.spent())
    }

    /// A command that can go on later stops here.
    fn is_enough(&self) -> bool {
        self.out.len() >= self.enough || self.left() == 0
    }

    /// A reply of one line.
    fn say(&mut self, line: &str) {
        self.out.put(line.as_bytes());
        self.out.put(b"\r\n");
    }

    /// A reply of one line that `noreply` suppresses.
    fn answer(&mut self, quiet: bool, line: &str) -> Next {
        if !quiet {
            self.say(line);
        }
        Next::Command
    }

    fn error(&mut self) -> Next {
        self.answer(false, "ERROR")
    }
}

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_TIME: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
const NO_MEMORY_TO_READ: &str = "SERVER_ERROR out of memory reading request";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[cfg(test)]
mod tests;
