//! HTTP/1.1, as much as a greeting needs: bytes in, bytes out.

/// The most bytes of a request's head.
const HEAD: usize = 8 << 10;
/// The most headers.
const HEADERS: usize = 64;
const GREETING: &[u8] = b"Hello from ccnic!\n";

/// One connection: requests of which the end has not come, and answers to be sent.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    input: Vec<u8>,
    /// Bytes of a request's body that are still to come and are passed over.
    body: u64,
    pub(crate) output: Vec<u8>,
    /// The connection ends after the output.
    pub(crate) ends: bool,
}

/// What a request asks for.
struct Request {
    head: usize,
    /// Answer without a body.
    bare: bool,
    found: bool,
    keep: bool,
    body: u64,
}

impl Exchange {
    /// Bytes have come: answers all requests that are complete.
    pub(crate) fn input(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut done = 0;
        while !self.ends {
            let rest = self.input.get(done..).unwrap_or_default();
            let passed = self.body.min(rest.len() as u64);
            (self.body, done) = (self.body - passed, done + passed as usize);
            let rest = self.input.get(done..).unwrap_or_default();
            if rest.is_empty() || self.body > 0 {
                break;
            }
            match parse(rest) {
                Ok(Some(request)) => {
                    done += request.head;
                    self.body = request.body;
                    self.ends = !request.keep;
                    let (status, text) =
                        if request.found { ("200 OK", GREETING) } else { ("404 Not Found", &b"404\n"[..]) };
                    self.answer(status, text, request.bare);
                }
                Ok(None) if rest.len() < HEAD => break,
                Ok(None) => self.refuse("431 Request Header Fields Too Large"),
                Err(status) => self.refuse(status),
            }
        }
        self.input.drain(..done);
    }

    fn refuse(&mut self, status: &str) {
        self.ends = true;
        self.answer(status, b"", false);
    }

    fn answer(&mut self, status: &str, body: &[u8], bare: bool) {
        let connection = if self.ends { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: ccnic-hello\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{connection}\r\n",
            body.len()
        );
        self.output.extend_from_slice(head.as_bytes());
        self.output.extend_from_slice(if bare { b"" } else { body });
    }
}

/// The first request, if its head is complete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err("431 Request Header Fields Too Large"),
        Err(httparse::Error::Version) => return Err("505 HTTP Version Not Supported"),
        Err(_) => return Err("400 Bad Request"),
    };
    let bare = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err("405 Method Not Allowed"),
    };
    let mut keep = request.version == Some(1);
    let mut body = None;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default();
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let length: u64 = text.parse().ok().filter(|_| digits).ok_or("400 Bad Request")?;
            if body.is_some_and(|before| before != length) {
                return Err("400 Bad Request");
            }
            body = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("501 Not Implemented");
        } else if header.name.eq_ignore_ascii_case("connection") {
            keep = match header.value {
                value if value.eq_ignore_ascii_case(b"close") => false,
                value if value.eq_ignore_ascii_case(b"keep-alive") => true,
                _ => keep,
            };
        }
    }
    let body = body.unwrap_or(0);
    Ok(Some(Request { head, bare, found: request.path == Some("/"), keep, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of each answer, and whether the connection ends.
    fn statuses(pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let mut exchange = Exchange::default();
        pieces.iter().for_each(|piece| exchange.input(piece));
        let text = String::from_utf8_lossy(&exchange.output).into_owned();
        let lines = text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
        (lines.map(|line| line[..3].to_owned()).collect(), exchange.ends)
    }

    #[test]
    fn requests_are_answered_however_they_are_cut() {
        let requests = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcHEAD / HTTP/1.1\r\n\r\n";
        for at in 0..requests.len() {
            let (first, second) = requests.split_at(at);
            assert_eq!(
                statuses(&[first, second]),
                (vec!["200".into(), "404".into(), "200".into()], false),
                "{at}"
            );
        }
        let single: Vec<&[u8]> = requests.chunks(1).collect();
        assert_eq!(statuses(&single).0.len(), 3);
    }

    #[test]
    fn a_connection_ends_where_it_should() {
        let end = |text: &str| statuses(&[text.as_bytes()]);
        assert_eq!(end("GET / HTTP/1.0\r\n\r\n"), (vec!["200".into()], true));
        assert_eq!(end("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), (vec!["200".into()], false));
        assert_eq!(
            end("GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
            (vec!["200".into()], true)
        );
    }

    #[test]
    fn bad_requests_get_their_answer() {
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD));
        for (text, status) in [
            ("nonsense\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/2.5\r\n\r\n", "505"),
            ("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "501"),
            (&long, "431"),
        ] {
            assert_eq!(statuses(&[text.as_bytes()]), (vec![status.into()], true), "{text}");
        }
    }
}
