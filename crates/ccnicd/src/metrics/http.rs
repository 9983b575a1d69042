//! As much of HTTP as a scrape needs: a request line and headers, which are skipped; an answer, after which the connection ends.

use std::sync::Arc;

use super::text::MEDIA_TYPE;

/// The longest request, with its headers.
pub(super) const REQUEST_MAX: usize = 8 << 10;

/// What the bytes of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// More is to come.
    Unfinished,
    /// `GET /metrics`.
    Metrics,
    /// Anything else, with the answer to it.
    Refused(Refusal),
}

/// Why there are no metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no request of HTTP.
    Bad,
    /// There is nothing at that place.
    NotFound,
    /// It is no GET.
    Method,
    /// It is longer than [`REQUEST_MAX`].
    TooLong,
    /// The NIC does not say how it is.
    Unavailable,
}

impl Request {
    /// Reads what has come so far.
    pub(super) fn read(bytes: &[u8]) -> Request {
        let whole = [b"\r\n\r\n".as_slice(), b"\n\n"].iter().any(|end| contains(bytes, end));
        let line = bytes.split(|byte| *byte == b'\n').next().filter(|line| line.len() < bytes.len());
        let refused = match line {
            Some(line) => target(line).and_then(found).err(),
            None => None,
        };
        match (refused, whole) {
            (Some(Refusal::Bad), _) => Request::Refused(Refusal::Bad), // what follows is no header either
            (Some(refusal), true) => Request::Refused(refusal),
            (None, true) => Request::Metrics,
            (_, false) if bytes.len() >= REQUEST_MAX => Request::Refused(Refusal::TooLong),
            (_, false) => Request::Unfinished,
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// What a request line asks for.
fn target(line: &[u8]) -> Result<&str, Refusal> {
    let line = str::from_utf8(line).map_err(|_| Refusal::Bad)?.trim_end_matches('\r');
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Bad);
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method || !version.starts_with("HTTP/1.") {
        return Err(Refusal::Bad);
    }
    if method == "GET" { Ok(target) } else { Err(Refusal::Method) }
}

fn found(target: &str) -> Result<(), Refusal> {
    let path = target.split('?').next().unwrap_or_default();
    if path == "/metrics" { Ok(()) } else { Err(Refusal::NotFound) }
}

/// An answer: its head, and its body, which others may have too.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) head: String,
    pub(super) body: Arc<str>,
}

impl Answer {
    /// The metrics.
    pub(super) fn metrics(body: Arc<str>) -> Answer {
        Answer::new("200 OK", MEDIA_TYPE, "", body)
    }

    fn new(status: &str, media_type: &str, more: &str, body: Arc<str>) -> Answer {
        let len = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len}\r\n{more}Connection: close\r\n\r\n"
        );
        Answer { head, body }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let (status, more, body) = match refusal {
            Refusal::Bad => ("400 Bad Request", "", "this is no request of HTTP/1\n"),
            Refusal::NotFound => ("404 Not Found", "", "the metrics are at /metrics\n"),
            Refusal::Method => ("405 Method Not Allowed", "Allow: GET\r\n", "only GET is answered\n"),
            Refusal::TooLong => ("431 Request Header Fields Too Large", "", "the request is too long\n"),
            Refusal::Unavailable => ("503 Service Unavailable", "", "the NIC is stopping\n"),
        };
        Answer::new(status, "text/plain; charset=utf-8", more, body.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[track_caller]
    fn is(text: &[u8], expected: Request) {
        assert_eq!(Request::read(text), expected, "{}", text.escape_ascii());
    }

    #[test]
    fn a_scrape_is_a_get_of_metrics() {
        for text in [
            "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n",
            "GET /metrics HTTP/1.0\r\n\r\n",
            "GET /metrics?x=y HTTP/1.1\n\n",
        ] {
            is(text.as_bytes(), Request::Metrics);
            for end in 0..text.len() - 1 {
                is(&text.as_bytes()[..end], Request::Unfinished);
            }
        }
    }

    #[test]
    fn all_else_is_refused() {
        for (text, refusal) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", Refusal::Method),
            ("GET / HTTP/1.1\r\n\r\n", Refusal::NotFound),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Refusal::NotFound),
            ("GET //metrics HTTP/1.1\r\n\r\n", Refusal::NotFound),
            ("GET /metrics\r\n", Refusal::Bad),
            ("GET /metrics HTTP/2\r\n", Refusal::Bad),
            ("GET  /metrics HTTP/1.1\r\n", Refusal::Bad),
            ("get /metrics HTTP/1.1\r\n", Refusal::Bad),
            ("\r\n\r\n", Refusal::Bad),
        ] {
            is(text.as_bytes(), Request::Refused(refusal));
        }
        is(b"\x16\x03\x01\x02\x00\n", Request::Refused(Refusal::Bad));
        is(b"\xff\xfe\n", Request::Refused(Refusal::Bad));
        is(&[b'x'; REQUEST_MAX - 1], Request::Unfinished);
        is(&[b'x'; REQUEST_MAX], Request::Refused(Refusal::TooLong));
        let headers = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(REQUEST_MAX));
        is(headers.as_bytes(), Request::Refused(Refusal::TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_comes_is_answered_in_the_end(bytes in vec(any::<u8>(), REQUEST_MAX), blank in any::<bool>()) {
            let line = if blank { b"GET /metrics HTTP/1.1\r\n".as_slice() } else { b"" };
            let bytes = [line, &bytes].concat();
            prop_assert_ne!(Request::read(&bytes), Request::Unfinished);
            // What is no request stays none, however it comes.
            let is_bad = |n: &usize| Request::read(&bytes[..*n]) == Request::Refused(Refusal::Bad);
            let bad: Vec<bool> = (0..bytes.len()).step_by(1009).map(|n| is_bad(&n)).collect();
            prop_assert!(bad.is_sorted(), "{:?}", bad);
        }
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let answer = Answer::metrics("abc\n".into());
        assert!(answer.head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"));
        assert!(answer.head.contains("\r\nContent-Length: 4\r\n") && answer.head.ends_with("\r\n\r\n"));
        let refusal = Answer::from(Refusal::Method);
        assert!(refusal.head.starts_with("HTTP/1.1 405 ") && refusal.head.contains("\r\nAllow: GET\r\n"));
    }
}
