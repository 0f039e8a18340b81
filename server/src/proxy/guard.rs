//! The framing of HTTP/1.1 requests, read a second time and more strictly, before hyper reads them.
//!
//! A message that two programs in a chain frame differently hides a second request in the first one. hyper
//! resolves what RFC 9112 lets it resolve (both `Content-Length` and `Transfer-Encoding`, lines that end in a bare
//! LF, blanks after a chunk's size); whoever stands in front may have resolved it otherwise, and only the bytes tell
//! that there was a choice. So everything with a choice is refused, and hyper sees a NUL in its place, which it
//! answers with `400` in a head and as a broken body in a body; then it closes the connection.

use std::mem;

/// The most of one line that is kept here; hyper refuses heads that are shorter than that.
const MAX_LINE_BYTES: usize = 256 << 10;
/// A size of 15 hexadecimal digits is an exabyte.
const MAX_SIZE_DIGITS: usize = 15;
/// Extensions mean nothing to anybody we know of; nobody needs long ones.
const MAX_EXTENSION_BYTES: usize = 256;

/// Follows the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Guard {
    at: At,
    /// The line so far, if it came in pieces.
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    RequestLine,
    Field {
        first: bool,
    },
    Data(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

/// Something with two meanings, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguous;

impl Guard {
    /// Between two requests.
    pub(super) fn idle(&self) -> bool {
        self.at == At::RequestLine && self.line.is_empty()
    }

    /// Follows the next bytes; `Err` is how many of them were fine.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let done = bytes.len() - rest.len();
            if let At::Data(left) | At::Chunk(left) = &mut self.at {
                let now = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= now as u64;
                rest = &rest[now..];
                match self.at {
                    At::Data(0) => self.at = At::RequestLine,
                    At::Chunk(0) => self.at = At::ChunkEnd,
                    _ => {}
                }
                continue;
            }
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(rest);
                return if self.line.len() > MAX_LINE_BYTES { Err(done) } else { Ok(()) };
            };
            let followed = if self.line.is_empty() {
                self.line(&rest[..end])
            } else {
                let mut line = mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                self.line(&line)
            };
            followed.map_err(|Ambiguous| done + end)?;
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// A line without its LF.
    fn line(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        // A line that ends in a bare LF ends elsewhere for those who do not accept that, and so with a bare CR.
        let line = line.strip_suffix(b"\r").ok_or(Ambiguous)?;
        if line.iter().any(|byte| matches!(byte, b'\r' | 0)) {
            return Err(Ambiguous);
        }
        self.at = match self.at {
            // One empty line before a request is customary; more cost nothing.
            At::RequestLine if line.is_empty() => At::RequestLine,
            At::RequestLine => {
                (self.length, self.chunked) = (None, false);
                At::Field { first: true }
            }
            At::Field { .. } if line.is_empty() => match (self.chunked, self.length) {
                (true, _) => At::ChunkSize,
                (false, Some(length @ 1..)) => At::Data(length),
                (false, _) => At::RequestLine,
            },
            At::Field { .. } => {
                self.field(line)?;
                At::Field { first: false }
            }
            At::ChunkSize => match chunk_size(line)? {
                0 => At::Trailer,
                size => At::Chunk(size),
            },
            At::ChunkEnd if line.is_empty() => At::ChunkSize,
            At::ChunkEnd => return Err(Ambiguous),
            At::Trailer if line.is_empty() => At::RequestLine,
            At::Trailer => {
                let (name, _) = name_and_value(line)?;
                if is(name, "content-length") || is(name, "transfer-encoding") || is(name, "host") {
                    return Err(Ambiguous);
                }
                At::Trailer
            }
            At::Data(_) | At::Chunk(_) => return Err(Ambiguous),
        };
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        let (name, value) = name_and_value(line)?;
        if is(name, "content-length") {
            let digits = value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            let length = length.ok_or(Ambiguous)?;
            if self.length.replace(length).is_some() || self.chunked {
                return Err(Ambiguous);
            }
        } else if is(name, "transfer-encoding") {
            // Another coding is no ambiguity of its own; hyper and the forwarding refuse it.
            if !is(value, "chunked") || mem::replace(&mut self.chunked, true) || self.length.is_some() {
                return Err(Ambiguous);
            }
        }
        Ok(())
    }
}

/// Splits a field line. A blank before the colon or at the start of the line (the obsolete folding) hides a field from
/// those who read it otherwise.
fn name_and_value(line: &[u8]) -> Result<(&[u8], &[u8]), Ambiguous> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Ambiguous)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(token) {
        return Err(Ambiguous);
    }
    Ok((name, value.trim_ascii()))
}

fn is(bytes: &[u8], name: &str) -> bool {
    bytes.eq_ignore_ascii_case(name.as_bytes())
}

fn chunk_size(line: &[u8]) -> Result<u64, Ambiguous> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extension) = line.split_at(digits);
    let plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let fine = (1..=MAX_SIZE_DIGITS).contains(&digits)
        && (extension.is_empty() || extension.starts_with(b";"))
        && extension.len() <= MAX_EXTENSION_BYTES
        && extension.iter().all(plain);
    let size = std::str::from_utf8(size).ok().filter(|_| fine);
    size.and_then(|size| u64::from_str_radix(size, 16).ok()).ok_or(Ambiguous)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one piece, and byte by byte: how much was fine must not depend on how it arrived.
    #[track_caller]
    fn check(text: &str, refused_at: Option<usize>) {
        let whole = Guard::default().follow(text.as_bytes()).err();
        let mut guard = Guard::default();
        let bytewise = text.bytes().position(|byte| guard.follow(&[byte]).is_err());
        assert_eq!((whole, bytewise), (refused_at, refused_at), "{text:?}");
        if refused_at.is_none() {
            assert!(guard.idle(), "{text:?} ends between two requests");
        }
    }

    #[test]
    fn whole_requests_follow_one_another() {
        for text in [
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nb",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding:  Chunked \r\n\r\n3;name=\"v\"\r\na\nb\r\n0\r\nX-Sum: 1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0003\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn what_has_two_meanings_is_refused_at_the_end_of_its_line() {
        for (before, line) in [
            ("", "GET / HTTP/1.1"),
            ("GET / HTTP/1.1\r\n", "Host: h"),
            ("GET / HTTP/1.1\r\n", "Host: h\rX: y\r"),
            ("GET / HTTP/1.1\r\n", "Host: h\0\r"),
            ("GET / HTTP/1.1\r\n", "Host : h\r"),
            ("GET / HTTP/1.1\r\n", " Host: h\r"),
            ("GET / HTTP/1.1\r\nHost: h\r\n", "\tfolded\r"),
            ("GET / HTTP/1.1\r\n", "Host\r"),
            ("POST / HTTP/1.1\r\n", "Content-Length: +3\r"),
            ("POST / HTTP/1.1\r\n", "Content-Length: 3, 3\r"),
            ("POST / HTTP/1.1\r\n", "Content-Length: \r"),
            ("POST / HTTP/1.1\r\n", "Content-Length: 9999999999999999999\r"),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n", "content-length: 3\r"),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n", "Transfer-Encoding: chunked\r"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 3\r"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r"),
            ("POST / HTTP/1.1\r\n", "Transfer-Encoding: chunked, identity\r"),
            ("POST / HTTP/1.1\r\n", "Transfer-Encoding: \x0bchunked\r"),
        ] {
            check(&format!("{before}{line}\n\r\n"), Some(before.len() + line.len()));
        }
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for line in
            ["3", "3 \r", "\r", "x\r", "0x3\r", "-1\r", "0000000000000003\r", "3;a\x01\r", "0\r\nContent-Length: 3\r"]
        {
            check(&format!("{head}{line}\nabc\r\n0\r\n\r\n"), Some(head.len() + line.len()));
        }
        check(&format!("{head}3\r\nabcd\r\n0\r\n\r\n"), Some(head.len() + 8));
        let long = format!("3;{}\r", "e".repeat(300));
        check(&format!("{head}{long}\n"), Some(head.len() + long.len()));
    }
}
