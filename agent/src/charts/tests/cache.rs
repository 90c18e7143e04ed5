//! The files of the cache.

use std::{
    fs,
    io::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use bounded_text::hex;
use ring::digest::{SHA256, digest};
use tempfile::TempDir;

use crate::charts::{
    cache::{ChartCache, ChartFile},
    key::ChartKey,
};

fn key(number: u8) -> ChartKey {
    ChartKey::parse(&format!("{number:02x}").repeat(32)).unwrap()
}

const TENANT: &str = "team-a";

fn put(cache: &ChartCache, number: u8, len: usize) -> ChartFile {
    put_by(TENANT, cache, number, len)
}

fn put_by(tenant: &str, cache: &ChartCache, number: u8, len: usize) -> ChartFile {
    let content = vec![number; len];
    let mut file = cache.create().unwrap();
    file.write_all(&content).unwrap();
    let sha256 = hex(digest(&SHA256, &content).as_ref());
    cache.put(&key(number), file, &sha256, len as u64, tenant)
}

fn has(cache: &ChartCache, number: u8) -> bool {
    cache.get(&key(number), TENANT).is_some()
}

fn names(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn the_archive_that_was_not_used_for_the_longest_time_is_evicted() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 300).unwrap();
    for number in [1, 2, 3] {
        put(&cache, number, 100);
    }
    assert!(has(&cache, 1));
    put(&cache, 4, 100);
    assert!(has(&cache, 1) && !has(&cache, 2) && has(&cache, 3) && has(&cache, 4));
    put(&cache, 5, 250);
    assert!(has(&cache, 5) && !has(&cache, 1) && !has(&cache, 4));
    assert_eq!((cache.bytes(), names(folder.path())), (250, 1));
}

#[test]
fn a_tenant_with_many_archives_evicts_its_own() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 400).unwrap();
    put_by("honest", &cache, 1, 100);
    for number in 2..20 {
        put_by("hostile", &cache, number, 100);
    }
    assert!(cache.get(&key(1), "honest").is_some());
    // The honest one gets as much as it needs up to the same share.
    put_by("honest", &cache, 20, 100);
    let left = |number| cache.get(&key(number), "hostile").is_some();
    assert_eq!((2..20).filter(|number| left(*number)).count(), 2);
    assert!(cache.get(&key(1), "honest").is_some());
}

#[test]
fn an_archive_that_is_read_is_not_evicted() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 100).unwrap();
    let read = put(&cache, 1, 100);
    let other = put(&cache, 2, 100);
    assert!(read.path().exists() && other.path().exists(), "it is temporary");
    assert!(has(&cache, 1) && !has(&cache, 2));
    drop(other);
    assert_eq!(names(folder.path()), 1);
    drop(read);
    put(&cache, 2, 100);
    assert!(has(&cache, 2) && !has(&cache, 1));
}

#[test]
fn the_same_chart_with_another_content_replaces_the_file() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 1000).unwrap();
    put(&cache, 1, 100);
    put(&cache, 1, 200);
    assert_eq!((cache.bytes(), names(folder.path())), (200, 1));
    assert!(has(&cache, 1));
}

#[test]
fn a_restart_finds_complete_archives_and_deletes_parts() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 1000).unwrap();
    for (number, age) in [(1, 30), (2, 10), (3, 20)] {
        let file = put(&cache, number, 100);
        let modified = SystemTime::now() - Duration::from_secs(age);
        fs::File::options()
            .write(true)
            .open(file.path())
            .unwrap()
            .set_modified(modified)
            .unwrap();
    }
    // The process was killed during a download.
    let (_, part) = cache.create().unwrap().keep().unwrap();
    let foreign = folder.path().join("notes.txt");
    fs::write(&foreign, "x").unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 200).unwrap();
    assert!(!part.exists() && foreign.exists(), "files of others stay");
    assert!(!has(&cache, 1), "the oldest one was above the limit");
    assert!(has(&cache, 2) && has(&cache, 3));
    assert_eq!(cache.bytes(), 200);
}

#[test]
fn a_download_that_is_dropped_leaves_no_file() {
    let folder = TempDir::new().unwrap();
    let cache = ChartCache::open(folder.path().to_owned(), 1000).unwrap();
    let mut file = cache.create().unwrap();
    file.write_all(b"half").unwrap();
    drop(file);
    assert_eq!((cache.bytes(), names(folder.path())), (0, 0));
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(ChartCache::open(file, 100).is_err());
}
