//! The binary protocol, which memcached has deprecated: recognised by its first byte, and refused in its own words, so that a client
//! reports that the server does not know its command instead of waiting.

/// The first byte of a binary request.
pub(crate) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER: usize = 24;
const UNKNOWN_COMMAND: u16 = 0x81;
const TEXT: &[u8] = b"Unknown command";

/// The answer to a request, once its header is there.
pub(crate) fn refusal(input: &[u8]) -> Option<Vec<u8>> {
    let header = input.first_chunk::<HEADER>()?;
    let mut answer = vec![0; HEADER];
    answer[0] = RESPONSE;
    answer[1] = header[1];
    answer[6..8].copy_from_slice(&UNKNOWN_COMMAND.to_be_bytes());
    answer[8..12].copy_from_slice(&(TEXT.len() as u32).to_be_bytes());
    answer[12..16].copy_from_slice(&header[12..16]);
    answer.extend_from_slice(TEXT);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_for_this_request() {
        let mut request = [0; HEADER];
        request[..2].copy_from_slice(&[REQUEST, 7]);
        request[12..16].copy_from_slice(b"opaq");
        assert_eq!(refusal(&request[..23]), None);
        let answer = refusal(&request).unwrap();
        assert_eq!((answer[0], answer[1], &answer[12..16]), (RESPONSE, 7, &b"opaq"[..]));
        assert_eq!(&answer[HEADER..], TEXT);
    }
}
