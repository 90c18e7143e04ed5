//! The response to a request for a pack: the pack in packets, among messages of the server.

use std::io::{self, Read};

use super::{
    WireError,
    advertisement::{Capabilities, Version},
    packet::{Packet, Packets, line},
};

/// Packets before the pack: at most one for each commit of a request, and some lines.
const MAX_HEAD: usize = 4096;

/// The pack in a response. Errors of the server are inner errors of its I/O errors.
pub struct PackBody<R> {
    packets: Packets<R>,
    rest: Vec<u8>,
    read: usize,
    is_over: bool,
}

/// The pack in a response, behind its head.
///
/// # Errors
/// If the head is malformed, or the server reports an error.
pub fn pack_body<R: Read>(input: R, capabilities: Capabilities) -> Result<PackBody<R>, WireError> {
    let mut packets = Packets::new(input);
    for _ in 0..MAX_HEAD {
        let packet = packets.expect()?;
        let is_pack_next = match (capabilities.version, packet) {
            (Version::Two, Packet::Data(data)) => line(data) == b"packfile",
            // Nothing is in common, so there is one such line, behind the commits without parents.
            (Version::Old, Packet::Data(data)) => line(data) == b"NAK",
            (_, Packet::Flush | Packet::Delimiter) => false,
        };
        if is_pack_next {
            return Ok(PackBody {
                packets,
                rest: Vec::new(),
                read: 0,
                is_over: false,
            });
        }
    }
    Err(WireError::malformed("no pack follows"))
}

impl<R: Read> PackBody<R> {
    /// The next bytes of the pack.
    fn refill(&mut self) -> Result<(), WireError> {
        loop {
            let Some(Packet::Data(data)) = self.packets.read()? else {
                self.is_over = true;
                return Ok(());
            };
            match data.split_first() {
                Some((1, data)) => {
                    self.rest.clear();
                    self.rest.extend_from_slice(data);
                    self.read = 0;
                    if !self.rest.is_empty() {
                        return Ok(());
                    }
                }
                // Progress.
                Some((2, _)) => {}
                Some((3, text)) => return Err(WireError::server(text)),
                _ => return Err(WireError::malformed("a packet of the pack is of no band")),
            }
        }
    }
}

impl<R: Read> Read for PackBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.rest.len() && !self.is_over {
            self.refill().map_err(|error| match error {
                WireError::Input(error) => error,
                other => io::Error::other(other),
            })?;
        }
        if self.is_over {
            return Ok(0);
        }
        let mut rest = self.rest.get(self.read..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ObjectFormat,
        wire::packet::{push, push_delimiter, push_flush},
    };

    fn read(version: Version, response: &[u8]) -> Result<Vec<u8>, String> {
        let capabilities = Capabilities {
            version,
            has_filter: true,
            format: ObjectFormat::Sha1,
            names_format: true,
        };
        let mut body = pack_body(response, capabilities).map_err(|error| error.to_string())?;
        let mut pack = Vec::new();
        body.read_to_end(&mut pack).map_err(|error| error.to_string())?;
        Ok(pack)
    }

    fn bands(response: &mut Vec<u8>, bands: &[&str]) {
        for band in bands {
            push(response, band);
        }
        push_flush(response);
    }

    #[test]
    fn a_pack_is_joined_from_its_packets() {
        let mut new = Vec::new();
        push(&mut new, "shallow-info\n");
        push(&mut new, "shallow e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n");
        push_delimiter(&mut new);
        push(&mut new, "packfile\n");
        bands(&mut new, &["\u{1}PA", "\u{2}Counting\r", "\u{1}", "\u{1}CK"]);
        assert_eq!(read(Version::Two, &new).unwrap(), b"PACK");

        let mut old = Vec::new();
        push(&mut old, "shallow e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n");
        push_flush(&mut old);
        push(&mut old, "NAK\n");
        bands(&mut old, &["\u{1}PACK"]);
        assert_eq!(read(Version::Old, &old).unwrap(), b"PACK");
    }

    #[test]
    fn errors_of_the_server_are_reported() {
        let mut early = Vec::new();
        push(&mut early, "ERR upload-pack: not our ref 1234\n");
        assert!(read(Version::Two, &early).unwrap_err().contains("not our ref"));
        let mut late = Vec::new();
        push(&mut late, "packfile\n");
        bands(&mut late, &["\u{1}PA", "\u{3}out of memory\n"]);
        assert!(read(Version::Two, &late).unwrap_err().ends_with("out of memory"));
        let mut none = Vec::new();
        push(&mut none, "packfile\n");
        bands(&mut none, &["PACK"]);
        assert!(read(Version::Two, &none).unwrap_err().contains("no band"));
        assert!(read(Version::Two, b"0000").unwrap_err().contains("too early"));
    }
}
