//! The responses of a Git server over HTTP.

use std::collections::BTreeSet;

use helmops_chart::EntryKind;

use super::{Packed, Repository, pack};
use crate::{
    ObjectId, ObjectKind,
    object::{Pointer, entries, pointer},
    wire::packet::{Packet, Packets, line, push, push_delimiter, push_flush},
};

/// The largest part of a pack in a packet, in bytes.
const BAND: usize = 65_000;

/// A Git server for one repository.
#[derive(Clone, Debug)]
pub struct Server {
    /// The repository.
    pub repository: Repository,
    /// Whether it has version 2 of the protocol.
    pub is_new: bool,
    /// Whether it leaves out files if a request wants that.
    pub has_filter: bool,
    /// Whether it sends files that are wanted by name.
    pub sends_files: bool,
}

impl Server {
    /// A server as most are.
    pub fn new(repository: Repository) -> Self {
        Self {
            repository,
            is_new: true,
            has_filter: true,
            sends_files: true,
        }
    }

    /// The body of the response to a request: what follows the path of the repository, the header `Git-Protocol`, and the body.
    /// `None` for a request that no Git server has a response to.
    pub fn respond(&self, target: &str, protocol: &str, body: &[u8]) -> Option<Vec<u8>> {
        let is_new = self.is_new && protocol == crate::wire::PROTOCOL;
        match target {
            "info/refs?service=git-upload-pack" => Some(if is_new {
                self.greeting()
            } else {
                self.old_greeting()
            }),
            "git-upload-pack" => {
                let (lines, _) = lines(body)?;
                match lines.first()?.as_str() {
                    "command=ls-refs" if is_new => Some(self.references(&lines)),
                    "command=fetch" if is_new => Some(self.fetch(&lines)),
                    first if first.starts_with("want ") && !is_new => Some(self.old_fetch(&lines)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn greeting(&self) -> Vec<u8> {
        let mut greeting = Vec::new();
        push(&mut greeting, "version 2\n");
        push(&mut greeting, "agent=git/test\n");
        push(&mut greeting, "ls-refs=unborn\n");
        let filter = if self.has_filter { " filter" } else { "" };
        push(&mut greeting, &format!("fetch=shallow wait-for-done{filter}\n"));
        push(&mut greeting, "server-option\n");
        push(
            &mut greeting,
            &format!("object-format={}\n", self.repository.format.as_str()),
        );
        push_flush(&mut greeting);
        greeting
    }

    fn old_greeting(&self) -> Vec<u8> {
        let mut greeting = Vec::new();
        push(&mut greeting, "# service=git-upload-pack\n");
        push_flush(&mut greeting);
        let format = self.repository.format.as_str();
        let mut features =
            format!("\0multi_ack side-band-64k ofs-delta shallow no-progress object-format={format}");
        for (name, id) in &self.repository.references {
            push(&mut greeting, &format!("{id} {name}{features}\n"));
            features.clear();
            if let Some(commit) = self.repository.peeled(*id) {
                push(&mut greeting, &format!("{commit} {name}^{{}}\n"));
            }
        }
        push_flush(&mut greeting);
        greeting
    }

    fn references(&self, lines: &[String]) -> Vec<u8> {
        let mut list = Vec::new();
        let prefixes: Vec<_> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("ref-prefix "))
            .collect();
        for (name, id) in &self.repository.references {
            if !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let peeled = self.repository.peeled(*id);
            let peeled = peeled.map_or_else(String::new, |commit| format!(" peeled:{commit}"));
            push(&mut list, &format!("{id} {name}{peeled}\n"));
        }
        push_flush(&mut list);
        list
    }

    fn fetch(&self, lines: &[String]) -> Vec<u8> {
        let has_files = !lines.iter().any(|line| line == "filter blob:none");
        let mut response = Vec::new();
        if !self.has_filter && !has_files {
            push(&mut response, "ERR upload-pack: filter blob:none unexpected\n");
            return response;
        }
        let pack = match self.wanted(lines, has_files) {
            Ok(pack) => pack,
            Err(missing) => {
                push(
                    &mut response,
                    &format!("ERR upload-pack: not our ref {missing}\n"),
                );
                return response;
            }
        };
        if lines.iter().any(|line| line == "deepen 1") {
            push(&mut response, "shallow-info\n");
            push_delimiter(&mut response);
        }
        push(&mut response, "packfile\n");
        bands(&mut response, &pack);
        response
    }

    fn old_fetch(&self, lines: &[String]) -> Vec<u8> {
        let mut response = Vec::new();
        match self.wanted(lines, true) {
            Ok(pack) => {
                push_flush(&mut response);
                push(&mut response, "NAK\n");
                bands(&mut response, &pack);
            }
            Err(missing) => push(
                &mut response,
                &format!("ERR upload-pack: not our ref {missing}\n"),
            ),
        }
        response
    }

    /// A pack of the objects that a request wants, or the name of one that is missing.
    fn wanted(&self, lines: &[String], has_files: bool) -> Result<Vec<u8>, String> {
        let mut all = BTreeSet::new();
        for name in lines.iter().filter_map(|line| line.strip_prefix("want ")) {
            let name = name.split(' ').next().unwrap_or_default();
            let id = ObjectId::from_hex(name).ok_or(name)?;
            let object = self.repository.objects.get(&id);
            if !self.sends_files && object.is_some_and(|(kind, _)| *kind == ObjectKind::Blob) {
                return Err(name.to_owned());
            }
            self.reachable(id, has_files, &mut all).ok_or(name)?;
        }
        let objects = all.iter().filter_map(|id| self.repository.objects.get(id));
        let objects: Vec<_> = objects
            .map(|(kind, content)| Packed::Object(*kind, content.clone()))
            .collect();
        Ok(pack(self.repository.format, &objects))
    }

    /// Adds an object, and those that it names. Files are left out unless they are wanted by name.
    fn reachable(&self, id: ObjectId, has_files: bool, all: &mut BTreeSet<ObjectId>) -> Option<()> {
        let (kind, content) = self.repository.objects.get(&id)?;
        if !all.insert(id) {
            return Some(());
        }
        match (kind, pointer(*kind, content)) {
            (_, Some(Pointer::Tree(next) | Pointer::Object(next))) => self.reachable(next, has_files, all),
            (ObjectKind::Tree, None) => {
                for entry in entries(self.repository.format, content)? {
                    let is_sent = match entry.kind {
                        EntryKind::Folder => true,
                        EntryKind::File | EntryKind::Link => has_files,
                        EntryKind::Submodule => false,
                    };
                    if is_sent {
                        self.reachable(entry.id, has_files, all)?;
                    }
                }
                Some(())
            }
            (_, None) => Some(()),
        }
    }
}

fn bands(response: &mut Vec<u8>, pack: &[u8]) {
    push(response, "\u{2}Enumerating objects\r");
    for part in pack.chunks(BAND) {
        response.extend_from_slice(format!("{:04x}", part.len() + 5).as_bytes());
        response.push(1);
        response.extend_from_slice(part);
    }
    push_flush(response);
}

/// The lines of a request, and whether it ends as it should.
fn lines(body: &[u8]) -> Option<(Vec<String>, bool)> {
    let mut packets = Packets::new(body);
    let mut lines = Vec::new();
    let mut is_over = false;
    while let Some(packet) = packets.read().ok()? {
        match packet {
            Packet::Data(data) => lines.push(String::from_utf8_lossy(line(data)).into_owned()),
            Packet::Flush => is_over = true,
            Packet::Delimiter => {}
        }
    }
    Some((lines, is_over))
}
