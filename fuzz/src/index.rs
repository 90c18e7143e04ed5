//! The readers of a repository's index: all of them return the same result.

use std::io::{self, Read};

use helm_index::{ChartFilter, Index, IndexError, Layout, read};

/// The charts in the seeds.
const CHARTS: [&str; 3] = ["web", "db", "a b"];

/// Reads a document with the fast readers and with the general one.
pub fn check(document: &[u8]) {
    let filter: ChartFilter = CHARTS.iter().map(|name| (*name).to_owned()).collect();
    // One size for each input, since reading takes time; there are inputs of all lengths.
    let longest = match document.len() % 3 {
        0 => 1,
        1 => 7,
        _ => document.len(),
    };
    let chunks = Chunks {
        rest: document,
        longest,
    };
    let any = read(chunks, &filter, Layout::Any);
    // The fast readers may stop late in a document; the caller then uses the general one.
    if !matches!(any, Err(IndexError::UnsupportedLayout)) {
        let general = read(document, &filter, Layout::General);
        assert_eq!(comparable(any), comparable(general), "{longest} bytes at a time");
    }
}

fn comparable(result: Result<Index, IndexError>) -> Result<Index, String> {
    result.map_err(|error| error.to_string())
}

/// Returns a few bytes at a time, like a network.
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
