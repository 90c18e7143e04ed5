//! The reader of a repository's index: whatever way it takes through a document, it finds the same.

use std::io::{self, Read};

use helmops_shared::chart::index::{Index, IndexError, Layout, ChartFilter, read};

/// The charts that the seeds have.
const WANTED: [&str; 3] = ["web", "db", "a b"];

/// Reads a document by the fast ways and by the general one.
pub fn check(document: &[u8]) {
    let wanted: ChartFilter = WANTED.iter().map(|name| (*name).to_owned()).collect();
    // One of them for each input, since reading takes time; inputs of all lengths come by.
    let longest = match document.len() % 3 {
        0 => 1,
        1 => 7,
        _ => document.len(),
    };
    let chunks = Chunks {
        rest: document,
        longest,
    };
    let any = read(chunks, &wanted, Layout::Any);
    // It gives up late in a document; the caller asks the general way then.
    if !matches!(any, Err(IndexError::OddLayout)) {
        let general = read(document, &wanted, Layout::General);
        assert_eq!(told(any), told(general), "{longest} bytes at a time");
    }
}

fn told(outcome: Result<Index, IndexError>) -> Result<Index, String> {
    outcome.map_err(|error| error.to_string())
}

/// Gives a few bytes at a time, as a network does.
struct Chunks<'d> {
    rest: &'d [u8],
    longest: usize,
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.longest);
        self.rest.read(&mut buffer[..length])
    }
}
