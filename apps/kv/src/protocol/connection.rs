//! From a stream of bytes to commands and their data. What a client is answered does not depend on how its bytes were divided.

use super::binary;
use super::{Activity, BAD_DATA, Context, Next, Output, Server, text};
use crate::store::Session;

/// The longest line of a command other than `get` and `gets`.
const LONGEST_LINE: usize = 2048;
/// The longest line of `get` and `gets`, which may name many keys.
const LONGEST_GET: usize = 1 << 20;
/// Replies are made until this many bytes wait to be sent; then the client has to read first.
pub const ENOUGH_OUTPUT: usize = 256 << 10;

/// Where in the stream the next byte is.
#[derive(Debug)]
enum State {
    /// At the first byte of the connection.
    First,
    /// In a command line of which so many bytes are known to hold no end.
    Line(usize),
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
    /// How many commands it may still begin: [`Connection::allow`].
    allowed: u32,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection::new()
    }
}

impl Connection {
    /// A new client.
    pub fn new() -> Connection {
        Connection { state: State::First, allowed: u32::MAX }
    }

    /// True if nothing more is read from this client: once the output is sent, the connection is to be closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// It may begin so many commands from now on.
    pub fn allow(&mut self, commands: u32) {
        self.allowed = commands;
    }

    /// True if it has begun as many commands as it was allowed to.
    pub fn is_used_up(&self) -> bool {
        self.allowed == 0
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
    /// what follows them. It stops early when much output waits: call it again when that has been sent. It stops, too, when the client is
    /// used up.
    pub fn advance(
        &mut self,
        input: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        out: &mut Output,
    ) -> usize {
        let mut used = 0;
        while !self.is_closed() && !self.is_used_up() && out.len() < ENOUGH_OUTPUT {
            let mut context = Context { session, out, server };
            match self.step(&input[used..], &mut context) {
                Some(count) => used += count,
                None => break,
            }
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
                    self.state = State::Line(0);
                }
                Some(0)
            }
            State::Line(searched) => {
                let Some(end) = memchr::memchr(b'\n', &input[*searched..]) else {
                    *searched = input.len();
                    if input.len() > longest(input) {
                        self.refuse_line(context);
                    }
                    return None;
                };
                let end = *searched + end;
                *searched = 0;
                if end > longest(input) {
                    self.refuse_line(context);
                    return None;
                }
                Some(self.command(&input[..end], &input[end + 1..], context))
            }
            State::Skip(count) => {
                let now = (*count).min(input.len());
                *count -= now;
                if *count == 0 {
                    self.state = State::Line(0);
                }
                (now > 0).then_some(now)
            }
            State::Data { data, needed, .. } => {
                let now = (*needed - data.len()).min(input.len());
                data.extend_from_slice(&input[..now]);
                if data.len() == *needed {
                    self.finish_data(context);
                }
                (now > 0).then_some(now)
            }
            State::Closed => None,
        }
    }

    fn refuse_line(&mut self, context: &mut Context<'_, '_>) {
        context.say("CLIENT_ERROR line too long");
        self.state = State::Closed;
    }

    /// Executes the command of a line, if its data are there; returns how many bytes that took.
    fn command(&mut self, line: &[u8], rest: &[u8], context: &mut Context<'_, '_>) -> usize {
        self.allowed -= 1;
        match text::command(line_without_end(line), rest, context) {
            Next::Command => {}
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
            self.state = State::Data { line: line.into(), data: Vec::new(), needed, reserved };
        }
    }

    fn finish_data(&mut self, context: &mut Context<'_, '_>) {
        let State::Data { line, data, needed, reserved } = std::mem::replace(&mut self.state, State::Line(0))
        else {
            return;
        };
        if reserved {
            context.session.store().give_back(needed);
        }
        match text::command(line_without_end(&line), &data, context) {
            Next::Took(_) | Next::Command => {}
            // The limits may have changed since the line was read.
            Next::Data(_) | Next::Skip(_) => context.say(BAD_DATA),
            Next::Close => self.state = State::Closed,
        }
    }

    /// Gives back what the connection holds of the store: call it when the client is gone.
    pub fn end(&mut self, session: &Session<'_>) {
        if let State::Data { needed, reserved: true, .. } = std::mem::replace(&mut self.state, State::Closed)
        {
            session.store().give_back(needed);
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
