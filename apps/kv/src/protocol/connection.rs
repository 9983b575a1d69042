//! From a stream of bytes to commands and their data. What a client is answered does not depend on how its bytes were divided.

use super::binary;
use super::{Activity, BAD_DATA, Context, NO_MEMORY_TO_READ, Next, Output, Server, text};
use crate::store::work::COMMAND;
use crate::store::{Session, TURN};

/// The longest line of a command other than `get` and `gets`.
const LONGEST_LINE: usize = 2048;
/// The longest line of `get` and `gets`, which may name many keys.
const LONGEST_GET: usize = 1 << 20;
/// Replies are made until this many bytes wait to be sent; then the client has to read first.
pub const ENOUGH_OUTPUT: usize = 256 << 10;

/// At the beginning of a line.
const LINE: State = State::Line { searched: 0, reserved: false };

/// Where in the stream the next byte is.
#[derive(Debug)]
enum State {
    /// At the first byte of the connection.
    First,
    /// In a command line of which so many bytes are known to hold no end. `reserved`: there is memory for a long one.
    Line { searched: usize, reserved: bool },
    /// In a command whose line is kept and that goes on from this place: [`Next::More`].
    More { line: Box<[u8]>, from: usize, reserved: bool },
    /// In the data of a command whose line is kept.
    Data { line: Box<[u8]>, data: Vec<u8>, needed: usize, reserved: bool },
    /// In data that nobody wants.
    Skip(usize),
    /// Behind the last byte that is looked at.
    Closed,
}

/// One client's stream.
#[derive(Debug)]
pub struct Connection {
    state: State,
    /// Commands that it may still begin, and the work that they may do: [`Connection::allow`].
    allowed: u32,
    work: usize,
    /// Replies are made until this many bytes wait.
    enough: usize,
    /// What it is given is all that comes: a datagram.
    whole: bool,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection::new()
    }
}

impl Connection {
    /// A new client.
    pub fn new() -> Connection {
        let (state, enough) = (State::First, ENOUGH_OUTPUT);
        Connection { state, allowed: u32::MAX, work: usize::MAX, enough, whole: false }
    }

    /// The commands of one datagram, which together may do the work of one turn.
    pub(super) fn of_datagram() -> Connection {
        Connection { work: TURN, whole: true, ..Connection::new() }
    }

    /// True if nothing more is read from this client: once the output is sent, the connection is to be closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// True if a command goes on when what waits has been sent, without more input.
    pub fn is_paused(&self) -> bool {
        match &self.state {
            State::More { .. } => true,
            State::Data { data, needed, .. } => data.len() == *needed,
            _ => false,
        }
    }

    /// It may begin so many commands from now on, and do so much work: `store/work.rs` says what counts.
    pub fn allow(&mut self, commands: u32, work: usize) {
        (self.allowed, self.work) = (commands, work);
    }

    /// True if its turn is over.
    pub fn is_used_up(&self) -> bool {
        self.allowed == 0 || self.work == 0
    }

    /// True if the client owes the rest of a command.
    pub fn is_within_command(&self) -> bool {
        matches!(self.state, State::Data { .. } | State::Skip(_))
    }

    /// What the client is doing, as far as its stream tells.
    pub fn activity(&self) -> Activity {
        match self.state {
            State::Data { .. } => Activity::Nread,
            State::Skip(_) => Activity::Swallow,
            _ => Activity::Read,
        }
    }

    /// Executes what is whole of `input` and puts the replies. Returns how many bytes were used up; the others are to be given again with
    /// what follows them. It stops early when much output waits: call it again when that has been sent, also without more input. It stops,
    /// too, when the client's turn is over.
    pub fn advance(
        &mut self,
        input: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        out: &mut Output,
    ) -> usize {
        self.advance_while(|this| !this.is_used_up(), input, session, server, out)
    }

    /// As [`advance`](Connection::advance), by one command, to its end unless it puts more than `most` bytes or the work is used up: then
    /// [`is_broken_off`](Connection::is_broken_off).
    pub(super) fn advance_by_one(
        &mut self,
        most: usize,
        input: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        out: &mut Output,
    ) -> usize {
        (self.allowed, self.enough) = (1, most + 1);
        let goes_on = |this: &Connection| this.work > 0 && (this.allowed > 0 || this.is_paused());
        self.advance_while(goes_on, input, session, server, out)
    }

    /// True if it may do nothing more.
    pub(super) fn is_out_of_work(&self) -> bool {
        self.work == 0
    }

    /// True if the last command would have gone on, or begun, with more work or more room for its reply.
    pub(super) fn is_broken_off(&self) -> bool {
        self.is_paused() || self.work == 0 && self.allowed > 0
    }

    fn advance_while(
        &mut self,
        goes_on: impl Fn(&Connection) -> bool,
        input: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        out: &mut Output,
    ) -> usize {
        let mut used = 0;
        while !self.is_closed() && goes_on(self) && out.len() < self.enough {
            let (work, before) = (self.work, (session.spent(), out.len()));
            let (enough, whole) = (self.enough, self.whole);
            let mut context = Context { session, out, server, enough, whole, work, before };
            let Some(count) = self.step(&input[used..], &mut context) else { break };
            self.work = self.work.saturating_sub(COMMAND + count + context.spent());
            used += count;
        }
        if self.is_closed() { input.len() } else { used }
    }

    /// Goes on by one command, or by what there is of one. None: more bytes are needed.
    fn step(&mut self, input: &[u8], context: &mut Context<'_, '_>) -> Option<usize> {
        match &mut self.state {
            State::First => {
                if *input.first()? == binary::REQUEST {
                    context.out.put(&binary::refusal(input)?);
                    self.state = State::Closed;
                } else {
                    self.state = LINE;
                }
                Some(0)
            }
            State::Line { searched, reserved } => {
                let Some(end) = memchr::memchr(b'\n', &input[*searched..]) else {
                    *searched = input.len();
                    if input.len() > longest(input) {
                        self.close("CLIENT_ERROR line too long", context);
                    } else if input.len() > SMALL && !*reserved {
                        *reserved = context.session.store().reserve(LONGEST_GET);
                        if !*reserved {
                            self.close(NO_MEMORY_TO_READ, context);
                        }
                    }
                    return None;
                };
                let end = *searched + end;
                *searched = 0;
                if end > longest(input) {
                    self.close("CLIENT_ERROR line too long", context);
                    return None;
                }
                Some(self.command(&input[..end], &input[end + 1..], context))
            }
            State::More { line, from, .. } => {
                if let Next::More(next) = text::go_on(line_without_end(line), *from, context) {
                    *from = next;
                } else {
                    self.end_line(context.session);
                }
                Some(0)
            }
            State::Skip(count) => {
                let now = (*count).min(input.len());
                *count -= now;
                if *count == 0 {
                    self.state = LINE;
                }
                (now > 0).then_some(now)
            }
            State::Data { data, needed, .. } => {
                let now = (*needed - data.len()).min(input.len());
                data.extend_from_slice(&input[..now]);
                if data.len() == *needed {
                    self.finish_data(context);
                    return Some(now);
                }
                (now > 0).then_some(now)
            }
            State::Closed => None,
        }
    }

    /// The client has gone too far.
    fn close(&mut self, why: &str, context: &mut Context<'_, '_>) {
        context.say(why);
        self.end(context.session);
    }

    /// The line is no longer needed.
    fn end_line(&mut self, session: &Session<'_>) {
        self.end(session);
        self.state = LINE;
    }

    /// Executes the command of a line, if its data are there; returns how many bytes that took.
    fn command(&mut self, line: &[u8], rest: &[u8], context: &mut Context<'_, '_>) -> usize {
        self.allowed -= 1;
        let next = text::command(line_without_end(line), rest, context);
        if next == Next::Again {
            self.allowed += 1;
            self.work = 0;
            return 0;
        }
        if let Next::More(from) = next {
            let reserved = matches!(self.state, State::Line { reserved: true, .. });
            self.state = State::More { line: line.into(), from, reserved };
            return line.len() + 1;
        }
        if matches!(self.state, State::Line { reserved: true, .. }) {
            self.end_line(context.session);
        }
        match next {
            Next::Command | Next::More(_) | Next::Again => {}
            Next::Took(count) => return line.len() + 1 + count,
            Next::Skip(count) => self.state = State::Skip(count),
            Next::Close => self.state = State::Closed,
            Next::Data(needed) => self.wait_for_data(line, needed, context),
        }
        line.len() + 1
    }

    fn wait_for_data(&mut self, line: &[u8], needed: usize, context: &mut Context<'_, '_>) {
        let reserved = needed > SMALL;
        if reserved && !context.session.store().reserve(needed) {
            text::no_memory(line_without_end(line), context);
            self.state = State::Skip(needed);
        } else {
            // What is reserved is all that it takes.
            let data = Vec::with_capacity(if reserved { needed } else { 0 });
            self.state = State::Data { line: line.into(), data, needed, reserved };
        }
    }

    fn finish_data(&mut self, context: &mut Context<'_, '_>) {
        let State::Data { line, data, needed, reserved } = std::mem::replace(&mut self.state, LINE) else {
            return;
        };
        let next = text::command(line_without_end(&line), &data, context);
        if next == Next::Again {
            self.state = State::Data { line, data, needed, reserved };
            self.work = 0;
            return;
        }
        if reserved {
            context.session.store().give_back(needed);
        }
        match next {
            Next::Took(_) | Next::Command => {}
            // The limits may have changed since the line was read.
            Next::Data(_) | Next::Skip(_) | Next::More(_) | Next::Again => context.say(BAD_DATA),
            Next::Close => self.state = State::Closed,
        }
    }

    /// Gives back what the connection holds of the store: call it when the client is gone.
    pub fn end(&mut self, session: &Session<'_>) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Data { needed, reserved: true, .. } => session.store().give_back(needed),
            State::Line { reserved: true, .. } | State::More { reserved: true, .. } => {
                session.store().give_back(LONGEST_GET);
            }
            _ => {}
        }
    }
}

/// Data up to this length may arrive without being reserved: it is no more than a connection's buffer.
const SMALL: usize = 64 << 10;

/// How long the line may be that begins like this.
fn longest(input: &[u8]) -> usize {
    let word = input.iter().position(|byte| *byte != b' ').filter(|spaces| *spaces <= 100);
    let line = &input[word.unwrap_or(input.len())..];
    if line.starts_with(b"get ") || line.starts_with(b"gets ") { LONGEST_GET } else { LONGEST_LINE }
}

/// Without CR, and up to a zero byte, as memcached reads it.
fn line_without_end(line: &[u8]) -> &[u8] {
    let line = match line {
        [start @ .., b'\r'] if !start.is_empty() => start,
        line => line,
    };
    &line[..memchr::memchr(0, line).unwrap_or(line.len())]
}
