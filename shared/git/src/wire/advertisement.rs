//! The greeting of a server: what it can do, and from an older one also its references.

use std::io::Read;

use helm_index::Meter;

use super::{
    WireError,
    packet::{Packet, Packets, line},
    references::{Listing, ReferenceQuery, References},
};
use crate::{Limits, ObjectFormat};

/// The first packet over HTTP, which servers of version 2 leave out.
const SERVICE: &[u8] = b"# service=git-upload-pack";
/// The longest greeting without references, in packets.
const MAX_LINES: usize = 256;

/// Which requests a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 0 and 1: the greeting has all references, and a request names those that it wants.
    Old,
    /// 2: a request for each thing.
    Two,
}

/// What a server can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Which requests it understands.
    pub version: Version,
    /// Whether it can leave out the files of a commit, and send single ones later.
    pub has_filter: bool,
    /// How the repository names its objects.
    pub format: ObjectFormat,
    /// Whether requests may say so: servers that are too old for that refuse them.
    pub names_format: bool,
}

/// The greeting of a server.
#[derive(Clone, Debug)]
pub struct Advertisement {
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its references that a query keeps; `None` if they need another request.
    pub references: Option<References>,
}

/// Reads the greeting of a server.
///
/// # Errors
/// If it is malformed, too long, or of a server that cannot do what is needed.
pub fn advertisement(
    input: impl Read,
    query: &ReferenceQuery,
    limits: Limits,
    memory: &mut impl Meter,
) -> Result<Advertisement, WireError> {
    let mut packets = Packets::new(input);
    let mut first = data(packets.expect()?)?;
    if line(first) == SERVICE {
        match packets.expect()? {
            Packet::Flush => {}
            _ => return Err(WireError::malformed("no end follows the name of the service")),
        }
        first = data(packets.expect()?)?;
    }
    match line(first) {
        b"version 2" => commands(packets),
        b"version 1" => {
            let first = data(packets.expect()?)?.to_vec();
            old(&first, packets, query, limits, memory)
        }
        _ => {
            let first = first.to_vec();
            old(&first, packets, query, limits, memory)
        }
    }
}

fn data(packet: Packet<'_>) -> Result<&[u8], WireError> {
    match packet {
        Packet::Data(data) => Ok(data),
        Packet::Flush | Packet::Delimiter => Err(WireError::malformed("its greeting is empty")),
    }
}

/// The greeting of version 2: a command or a feature in each line.
fn commands<R: Read>(mut packets: Packets<R>) -> Result<Advertisement, WireError> {
    let mut capabilities = Capabilities {
        version: Version::Two,
        has_filter: false,
        format: ObjectFormat::Sha1,
        names_format: false,
    };
    let (mut has_references, mut has_fetch) = (false, false);
    for _ in 0..MAX_LINES {
        let Packet::Data(data) = packets.expect()? else {
            return if !has_references || !has_fetch {
                Err(WireError::Unsupported(
                    "lists of references and shallow packs".to_owned(),
                ))
            } else {
                Ok(Advertisement {
                    capabilities,
                    references: None,
                })
            };
        };
        let text = String::from_utf8_lossy(line(data));
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        let has = |feature: &str| value.split(' ').any(|other| other == feature);
        match name {
            "ls-refs" => has_references = true,
            "fetch" => {
                has_fetch = has("shallow");
                capabilities.has_filter = has("filter");
            }
            "object-format" => {
                capabilities.format = format(value)?;
                capabilities.names_format = true;
            }
            _ => {}
        }
    }
    Err(WireError::malformed("its greeting is too long"))
}

/// The greeting of older versions: a reference in each line, and the capabilities in the first one.
fn old<R: Read>(
    first: &[u8],
    mut packets: Packets<R>,
    query: &ReferenceQuery,
    limits: Limits,
    memory: &mut impl Meter,
) -> Result<Advertisement, WireError> {
    let at = first.iter().position(|byte| *byte == 0);
    let at = at.ok_or_else(|| WireError::malformed("its greeting has no capabilities"))?;
    let (reference, features) = first.split_at(at);
    let features = String::from_utf8_lossy(features);
    let features: Vec<_> = features.trim_matches(['\0', '\n']).split(' ').collect();
    for needed in ["shallow", "side-band-64k"] {
        if !features.contains(&needed) {
            return Err(WireError::Unsupported(needed.to_owned()));
        }
    }
    let format_name = features
        .iter()
        .find_map(|feature| feature.strip_prefix("object-format="));
    let capabilities = Capabilities {
        version: Version::Old,
        // Single files can be requested in version 2 only.
        has_filter: false,
        names_format: format_name.is_some(),
        format: format_name.map_or(Ok(ObjectFormat::Sha1), format)?,
    };
    let mut listing = Listing::new(query, limits, memory);
    listing.add_old(reference)?;
    while let Some(Packet::Data(data)) = packets.read()? {
        listing.add_old(line(data))?;
    }
    Ok(Advertisement {
        capabilities,
        references: Some(listing.finish()),
    })
}

fn format(name: &str) -> Result<ObjectFormat, WireError> {
    ObjectFormat::parse(name).ok_or_else(|| {
        WireError::Unsupported(format!("the hashes that charts are read with, but {name:.32?}"))
    })
}

#[cfg(test)]
mod tests {
    use helm_index::Unmetered;

    use super::*;
    use crate::wire::packet::{push, push_flush};

    const A: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    const B: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    fn greeting(lines: &[String]) -> Vec<u8> {
        let mut greeting = Vec::new();
        for text in lines {
            match &**text {
                "" => push_flush(&mut greeting),
                text => push(&mut greeting, text),
            }
        }
        greeting
    }

    fn read(lines: &[String], query: &ReferenceQuery) -> Result<Advertisement, WireError> {
        advertisement(&*greeting(lines), query, Limits::default(), &mut Unmetered)
    }

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn version_2_says_what_the_server_can_do() {
        for prefix in [&[][..], &["# service=git-upload-pack\n", ""]] {
            let texts = [
                prefix,
                &[
                    "version 2\n",
                    "agent=git/2\n",
                    "ls-refs=unborn\n",
                    "fetch=shallow filter\n",
                    "object-format=sha256\n",
                    "",
                ],
            ]
            .concat();
            let read = read(&lines(&texts), &ReferenceQuery::Head).unwrap();
            let expected = Capabilities {
                version: Version::Two,
                has_filter: true,
                format: ObjectFormat::Sha256,
                names_format: true,
            };
            assert_eq!(read.capabilities, expected);
            assert!(read.references.is_none());
        }
    }

    #[test]
    fn an_older_server_sends_its_references() {
        for first in [vec!["version 1\n".to_owned()], Vec::new()] {
            let mut texts = lines(&["# service=git-upload-pack\n", ""]);
            texts.extend(first);
            texts.push(format!("{A} HEAD\0multi_ack side-band-64k shallow filter\n"));
            texts.push(format!("{B} refs/heads/main\n"));
            texts.push(String::new());
            let read = read(&texts, &ReferenceQuery::Branch("main".to_owned())).unwrap();
            assert_eq!(
                (read.capabilities.version, read.capabilities.has_filter),
                (Version::Old, false)
            );
            let references = read.references.unwrap();
            let names: Vec<_> = references
                .iter()
                .map(|entry| (&*entry.name, entry.commit.to_string()))
                .collect();
            assert_eq!(names, [("refs/heads/main", B.to_owned())]);
        }
    }

    #[test]
    fn an_empty_repository_has_no_references() {
        let zero = "0".repeat(40);
        let texts = [
            format!("{zero} capabilities^{{}}\0side-band-64k shallow\n"),
            String::new(),
        ];
        let read = read(&texts, &ReferenceQuery::Head).unwrap();
        assert_eq!(read.references.unwrap().iter().count(), 0);
    }

    #[test]
    fn servers_that_cannot_do_what_is_needed_are_named() {
        for (texts, expected) in [
            (vec![format!("{A} HEAD\0shallow\n")], "side-band-64k"),
            (vec![format!("{A} HEAD\n")], "no capabilities"),
            (
                lines(&["version 2\n", "ls-refs\n", "fetch\n", ""]),
                "shallow packs",
            ),
            (
                lines(&[
                    "version 2\n",
                    "ls-refs\n",
                    "fetch=shallow\n",
                    "object-format=md5\n",
                    "",
                ]),
                "md5",
            ),
            (lines(&[""]), "greeting is empty"),
            (Vec::new(), "ends too early"),
            (lines(&["# service=git-upload-pack\n", "version 2\n"]), "no end"),
        ] {
            let error = read(&texts, &ReferenceQuery::Head).unwrap_err().to_string();
            assert!(error.contains(expected), "{texts:?}: {error}");
        }
    }
}
