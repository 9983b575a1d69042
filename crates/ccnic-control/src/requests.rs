//! What is asked of a NIC on a [`Connection`] in more than one message: its state, its configuration, and what an operator changes.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;

use crate::capture::{CaptureReader, CaptureRequest};
use crate::connection::Connection;
use crate::error::Error;
use crate::messages::{Applied, ConfigPart, LearnedAddress, Reply, Request, Status, TEXT_MAX};

/// How long an operator waits for a change: ports are opened, and what came from others is served before they are closed.
const CHANGING: Duration = Duration::from_secs(60);

impl Connection {
    /// Asks a NIC for its state, page by page.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask).
    pub fn status(&self) -> Result<Status, Error> {
        let mut status = self.status_page(&Request::Status)?;
        while let Some(from) = status.next {
            let page = self.status_page(&Request::StatusFrom(from))?;
            status.append(page)?;
        }
        Ok(status)
    }

    fn status_page(&self, request: &Request) -> Result<Status, Error> {
        match self.ask(request, None)? {
            Reply::Status(status) => Ok(*status),
            other => Err(unexpected(&other, "a status request")),
        }
    }

    /// Asks a switch for the addresses that it has learned, page by page; in ascending order.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask); [`Error::Refused`] by a NIC that is no switch.
    pub fn mac_table(&self) -> Result<Vec<LearnedAddress>, Error> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = match self.ask(&Request::MacTable(from), None)? {
                Reply::MacTable(page) => page,
                other => return Err(unexpected(&other, "a MAC table request")),
            };
            all.extend(page.addresses);
            match page.next {
                None => break,
                Some(next) if next > from => from = next,
                Some(_) => {
                    return Err(Error::Protocol { what: "a page of the MAC table leads back".to_owned() });
                }
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Asks a NIC for the configuration that it runs with (TOML), page by page.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask); [`Error::Refused`] by a NIC that has none, or to a user who is no operator.
    pub fn config(&self) -> Result<String, Error> {
        let (mut text, mut from) = (String::new(), 0);
        loop {
            let page = match self.ask(&Request::Config(from), None)? {
                Reply::Config(page) => page,
                other => return Err(unexpected(&other, "a request for the configuration")),
            };
            text.push_str(&page.text);
            match page.next {
                None => return Ok(text),
                Some(next) if next > from => from = next,
                Some(_) => {
                    return Err(Error::Protocol {
                        what: "a page of the configuration leads back".to_owned(),
                    });
                }
            }
        }
    }

    /// Has a NIC be as a configuration says, whose text is of a file of this name; with `check`, only asks what would change.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask); [`Error::Refused`] with what is wrong with it, and then nothing has changed.
    pub fn apply(&self, name: &str, text: &str, check: bool) -> Result<Applied, Error> {
        let mut rest = text;
        while rest.len() > TEXT_MAX {
            let (part, behind) = rest.split_at(rest.floor_char_boundary(TEXT_MAX));
            let part = ConfigPart { text: part.to_owned(), more: true, ..ConfigPart::default() };
            match self.ask(&Request::Apply(part), None)? {
                Reply::Done => rest = behind,
                other => return Err(unexpected(&other, "a part of a configuration")),
            }
        }
        let last = ConfigPart { text: rest.to_owned(), more: false, name: Some(name.to_owned()), check };
        self.change(&Request::Apply(last))
    }

    /// Has a NIC change its configuration by one of the requests for that.
    ///
    /// # Errors
    /// As [`apply`](Connection::apply).
    pub fn change(&self, request: &Request) -> Result<Applied, Error> {
        match self.ask_within(request, None, CHANGING)? {
            Reply::Applied(applied) => Ok(*applied),
            other => Err(unexpected(&other, "a change of the configuration")),
        }
    }

    /// Has a switch give copies of packets; returns where they come. They come until that is dropped, whatever becomes of this connection.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask); [`Error::Refused`] by a NIC that is no switch, and to a user who is no operator.
    pub fn capture(&self, request: CaptureRequest) -> Result<CaptureReader<UnixStream>, Error> {
        let os = |e: std::io::Error| {
            Error::os("make a pair of sockets")(Errno::from_io_error(&e).unwrap_or(Errno::IO))
        };
        let (ours, theirs) = UnixStream::pair().map_err(os)?;
        match self.ask(&Request::Capture(request), Some(theirs.as_fd()))? {
            Reply::Done => Ok(CaptureReader::new(ours)),
            other => Err(unexpected(&other, "a request to capture")),
        }
    }
}

fn unexpected(reply: &Reply, to: &str) -> Error {
    Error::Protocol { what: format!("{reply:?} in answer to {to}") }
}
