//! Packets: lines with their length before them (`pkt-line`).

use std::io::{self, Read};

use super::WireError;

/// The longest packet, in bytes.
const MAX_PACKET: usize = 65_520;
/// Length of the head of a packet, in bytes.
const HEAD: usize = 4;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Bytes.
    Data(&'a [u8]),
    /// The end of a request or a response.
    Flush,
    /// The end of a section.
    Delimiter,
}

/// The packets of a response.
pub struct Packets<R> {
    input: R,
    buffer: Vec<u8>,
}

impl<R: Read> Packets<R> {
    /// Reads packets from there.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
        }
    }

    /// The next packet; `None` at the end of the response.
    ///
    /// # Errors
    /// If it is malformed, or reports an error of the server.
    pub fn read(&mut self) -> Result<Option<Packet<'_>>, WireError> {
        let Some(len) = self.read_len()? else {
            return Ok(None);
        };
        Ok(Some(match len {
            0 => Packet::Flush,
            1 => Packet::Delimiter,
            // The end of a response that shares its connection with others.
            2 => return Ok(None),
            len => {
                let len = len
                    .checked_sub(HEAD)
                    .filter(|len| *len <= MAX_PACKET - HEAD)
                    .ok_or_else(|| WireError::malformed("a packet has an impossible length"))?;
                self.buffer.resize(len, 0);
                self.input.read_exact(&mut self.buffer).map_err(cut_off)?;
                if let Some(text) = self.buffer.strip_prefix(b"ERR ") {
                    return Err(WireError::server(text));
                }
                Packet::Data(&self.buffer)
            }
        }))
    }

    /// The next packet, which has to be there.
    ///
    /// # Errors
    /// If there is none, or it is malformed.
    pub fn expect(&mut self) -> Result<Packet<'_>, WireError> {
        self.read()?
            .ok_or_else(|| WireError::malformed("it ends too early"))
    }

    fn read_len(&mut self) -> Result<Option<usize>, WireError> {
        let mut head = [0; HEAD];
        let (first, rest) = head.split_at_mut(1);
        // Unlike `read_exact` this shows an end that is where it may be.
        loop {
            match self.input.read(first) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.input.read_exact(rest).map_err(cut_off)?;
        let text = std::str::from_utf8(&head).ok();
        let is_hexadecimal = head.iter().all(u8::is_ascii_hexdigit);
        let len = text
            .filter(|_| is_hexadecimal)
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        len.map(Some).ok_or_else(|| {
            WireError::malformed(
                "it does not begin as a packet of Git does; is there a web page at this URL?",
            )
        })
    }
}

/// The end of the input within a packet.
fn cut_off(error: io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => WireError::malformed("it ends within a packet"),
        _ => error.into(),
    }
}

/// Without the line feed that most packets with a text end with.
pub fn line(data: &[u8]) -> &[u8] {
    data.strip_suffix(b"\n").unwrap_or(data)
}

/// Appends a packet with a text.
pub fn push(request: &mut Vec<u8>, text: &str) {
    request.extend_from_slice(format!("{:04x}{text}", text.len() + HEAD).as_bytes());
}

/// Ends a section.
pub fn push_delimiter(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0001");
}

/// Ends a request.
pub fn push_flush(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0000");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_one_by_one() {
        let mut request = Vec::new();
        push(&mut request, "want\n");
        push_delimiter(&mut request);
        push_flush(&mut request);
        assert_eq!(request, b"0009want\n00010000");
        let mut packets = Packets::new(&*request);
        assert_eq!(packets.read().unwrap(), Some(Packet::Data(b"want\n")));
        assert_eq!(packets.read().unwrap(), Some(Packet::Delimiter));
        assert_eq!(packets.read().unwrap(), Some(Packet::Flush));
        assert_eq!(packets.read().unwrap(), None);
    }

    #[test]
    fn what_is_no_packet_is_an_error() {
        for (input, expected) in [
            (&b"<html>"[..], "web page"),
            (b"+009want\n", "web page"),
            (b"0003", "impossible length"),
            (b"fff1", "impossible length"),
            (b"00", "within a packet"),
            (b"0009wan", "within a packet"),
            (b"0019ERR access denied\x1b[2J", "responds: access denied"),
        ] {
            let error = Packets::new(input).read().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\x1b'), "{error}");
        }
    }
}
