//! Packs that this crate writes, packs of `git`, and damaged ones.

use std::io;

use helm_index::{Meter, OverBudget, Unmetered};
use proptest::prelude::*;

use super::*;
use crate::{
    ObjectKind,
    testing::{Packed, pack},
};

const FORMAT: ObjectFormat = ObjectFormat::Sha1;

fn blob(content: &str) -> (ObjectId, Packed) {
    let content = content.as_bytes().to_vec();
    (
        ObjectId::of(FORMAT, ObjectKind::Blob, &content),
        Packed::Object(ObjectKind::Blob, content),
    )
}

fn read(bytes: &[u8]) -> Result<Pack, PackError> {
    Pack::read(bytes, FORMAT, Limits::default(), &mut Unmetered, || false)
}

fn text(pack: Pack, id: ObjectId) -> Option<String> {
    let mut objects = Objects::default();
    objects.add(pack.into());
    let object = objects.get(id).unwrap()?;
    Some(String::from_utf8(object.content.to_vec()).unwrap())
}

/// Replaces all of a base by another text.
fn delta(base: &str, result: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len()).unwrap();
    [&[len(base), len(result), len(result)], result.as_bytes()].concat()
}

#[test]
fn objects_are_found_by_their_names() {
    let (one, first) = blob("one");
    let (two, second) = blob(&"two ".repeat(100_000));
    let bytes = pack(FORMAT, &[first, second]);
    assert_eq!(read(&bytes).unwrap().objects(), 2);
    assert_eq!(text(read(&bytes).unwrap(), one).unwrap(), "one");
    assert_eq!(text(read(&bytes).unwrap(), two).unwrap().len(), 400_000);
    assert_eq!(text(read(&bytes).unwrap(), blob("three").0), None);
}

#[test]
fn deltas_are_applied_to_their_bases_wherever_these_are() {
    let (one, first) = blob("one");
    let (two, _) = blob("two");
    let (three, _) = blob("three");
    let to_three = delta("two", "three");
    for entries in [
        vec![
            first.clone(),
            Packed::OffsetDelta(0, delta("one", "two")),
            Packed::OffsetDelta(1, to_three.clone()),
        ],
        vec![
            Packed::NamedDelta(two, to_three.clone()),
            Packed::NamedDelta(one, delta("one", "two")),
            first.clone(),
        ],
        vec![
            Packed::NamedDelta(one, delta("one", "two")),
            Packed::OffsetDelta(0, to_three),
            first,
        ],
    ] {
        let bytes = pack(FORMAT, &entries);
        for (id, expected) in [(one, "one"), (two, "two"), (three, "three")] {
            assert_eq!(
                text(read(&bytes).unwrap(), id).as_deref(),
                Some(expected),
                "{entries:?}"
            );
        }
    }
}

#[test]
fn a_repository_with_sha256_is_read() {
    let (format, content) = (ObjectFormat::Sha256, b"one".to_vec());
    let id = ObjectId::of(format, ObjectKind::Blob, &content);
    let bytes = pack(format, &[Packed::Object(ObjectKind::Blob, content)]);
    let pack = Pack::read(&*bytes, format, Limits::default(), &mut Unmetered, || false).unwrap();
    assert_eq!(text(pack, id).as_deref(), Some("one"));
}

#[test]
fn damaged_packs_are_errors() {
    let (one, first) = blob("one");
    let whole = pack(FORMAT, std::slice::from_ref(&first));
    let mut changed = whole.clone();
    changed[15] ^= 1;
    let sealed = |bytes: &[u8]| [bytes, FORMAT.digest(bytes).as_bytes()].concat();
    let content = &whole[..whole.len() - 20];
    let mut more = content.to_vec();
    more.push(0);
    let mut fewer = content.to_vec();
    fewer[11] = 2;
    let mut version = content.to_vec();
    version[7] = 9;
    for (bytes, expected) in [
        (whole[..10].to_vec(), "too short"),
        (changed, "hash is another"),
        (sealed(b"KCAP"), "does not begin"),
        (sealed(&version), "version"),
        (sealed(&more), "more follows"),
        (sealed(&fewer), "ends within an entry"),
        (sealed(&content[..content.len() - 3]), "ends within an object"),
        (
            pack(FORMAT, &[Packed::NamedDelta(one, delta("one", "two"))]),
            "base of a delta is missing",
        ),
        (
            pack(FORMAT, &[Packed::OffsetDelta(7, delta("one", "two"))]),
            "base of a delta is no entry",
        ),
        (
            pack(FORMAT, &[first, Packed::OffsetDelta(0, delta("other", "two"))]),
            "another object",
        ),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

struct Budget(usize);

impl Meter for Budget {
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes > self.0 { Err(OverBudget) } else { Ok(()) }
    }
}

#[test]
fn a_pack_is_bounded() {
    let (one, first) = blob(&"one ".repeat(1000));
    let entries = [first, Packed::Object(ObjectKind::Blob, b"small".to_vec())];
    let bytes = pack(FORMAT, &entries);
    let limited = |limits| Pack::read(&*bytes, FORMAT, limits, &mut Unmetered, || false);
    let usual = Limits::default();
    let error = |limits| limited(limits).unwrap_err().to_string();
    assert!(error(Limits { pack: 40, ..usual }).contains("partial clones"));
    assert!(error(Limits { objects: 1, ..usual }).contains("2 objects, and 1 is the limit"));
    assert!(
        error(Limits {
            decoded: 4000,
            ..usual
        })
        .contains("after decompression")
    );
    let error = Pack::read(&*bytes, FORMAT, usual, &mut Budget(1 << 20), || false).unwrap_err();
    assert!(matches!(error, PackError::Memory(_)));
    // One that is too large matters only if it is needed.
    let pack = limited(Limits { object: 100, ..usual }).unwrap();
    let mut objects = Objects::default();
    objects.add(pack.into());
    assert!(
        objects
            .get(one)
            .unwrap_err()
            .to_string()
            .contains("4000 bytes, and 100")
    );
    assert!(objects.get(blob("small").0).unwrap().is_some());
}

#[test]
fn a_small_pack_cannot_cost_much() {
    let base = "x".repeat(127);
    let (_, first) = blob(&base);
    // Each delta is of 127 bytes that it copies 8000 times.
    let copies = [0x90, 127].repeat(8000);
    // 127 times 8000, in groups of seven bits.
    let size = [0xc0, 0x81, 0x3e];
    let bomb = [&[127][..], &size, &copies].concat();
    let mut entries = vec![first];
    entries.extend((0..200).map(|_| Packed::OffsetDelta(0, bomb.clone())));
    let bytes = pack(FORMAT, &entries);
    let limits = Limits {
        decoded: 100 << 20,
        ..Limits::default()
    };
    let error = Pack::read(&*bytes, FORMAT, limits, &mut Unmetered, || false).unwrap_err();
    assert!(matches!(error, PackError::TooMuch { .. }), "{error}");
}

/// Numbered objects, each of which is based on the one before.
fn chain(len: usize) -> Vec<(ObjectId, Vec<u8>)> {
    let text = |n: usize| format!("{n:06}");
    let item = |n: usize| (blob(&text(n)).0, delta(&text(n.saturating_sub(1)), &text(n)));
    (0..len).map(item).collect()
}

/// By distance, in order.
fn forward(len: usize) -> Vec<u8> {
    let mut entries = vec![blob("000000").1];
    let deltas = chain(len).into_iter().enumerate().skip(1);
    entries.extend(deltas.map(|(at, (_, delta))| Packed::OffsetDelta(at - 1, delta)));
    pack(FORMAT, &entries)
}

/// By names, the last one first.
fn backward(len: usize) -> Vec<u8> {
    let all = chain(len);
    let named = |at: usize| Packed::NamedDelta(all[at - 1].0, all[at].1.clone());
    let mut entries: Vec<_> = (1..len).rev().map(named).collect();
    entries.push(blob("000000").1);
    pack(FORMAT, &entries)
}

fn steps(bytes: &[u8]) -> (Result<Pack, PackError>, usize) {
    let steps = std::cell::Cell::new(0);
    let count = || {
        steps.set(steps.get() + 1);
        false
    };
    let read = Pack::read(bytes, FORMAT, Limits::default(), &mut Unmetered, count);
    (read, steps.get())
}

#[test]
fn each_delta_is_decoded_once_whatever_their_order() {
    for bytes in [forward(4000), backward(4000)] {
        let (read, steps) = steps(&bytes);
        assert_eq!(steps, 4000 + 3999);
        let pack = read.unwrap();
        assert_eq!(text(pack, blob("003999").0).as_deref(), Some("003999"));
    }
}

#[test]
fn a_long_chain_is_refused_before_it_costs_much() {
    for bytes in [forward(20_000), backward(20_000)] {
        let (read, steps) = steps(&bytes);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("too many deltas follow each other"), "{error}");
        assert!(steps < 20_000 + 4100, "{steps}");
    }
}

/// Copies of a base have its deltas once.
#[test]
fn copies_of_an_object_do_not_multiply_its_deltas() {
    let (one, first) = blob("one");
    let mut entries = vec![first.clone(); 100];
    entries.extend((0..100).map(|_| Packed::NamedDelta(one, delta("one", "two"))));
    entries.extend((0..100).map(|_| Packed::NamedDelta(blob("two").0, delta("two", "three"))));
    let (read, steps) = steps(&pack(FORMAT, &entries));
    read.unwrap();
    assert_eq!(steps, 300 + 200);
}

#[test]
fn reading_stops_when_it_is_stopped() {
    let bytes = forward(100);
    for last in [50, 150] {
        let steps = std::cell::Cell::new(0);
        let stop = || {
            steps.set(steps.get() + 1);
            steps.get() > last
        };
        let read = Pack::read(&*bytes, FORMAT, Limits::default(), &mut Unmetered, stop);
        assert!(matches!(read, Err(PackError::Stopped)));
        assert_eq!(steps.get(), last + 1);
    }
}

/// A file that is in no chart must not keep a chart from being read.
#[test]
fn what_is_based_on_an_object_that_is_too_large_is_left_out() {
    let (large, middle) = ("x".repeat(120), "y".repeat(110));
    let (one, first) = blob("one");
    let limits = Limits {
        object: 100,
        ..Limits::default()
    };
    for (base, small) in [
        (
            Packed::OffsetDelta(0, delta("one", &middle)),
            delta(&middle, "small"),
        ),
        (blob(&large).1, delta(&large, "small")),
    ] {
        let id = match base {
            Packed::OffsetDelta(..) => blob(&middle).0,
            _ => blob(&large).0,
        };
        for last in [
            Packed::NamedDelta(id, small.clone()),
            Packed::OffsetDelta(1, small),
        ] {
            let bytes = pack(FORMAT, &[first.clone(), base.clone(), last]);
            let read = Pack::read(&*bytes, FORMAT, limits, &mut Unmetered, || false).unwrap();
            assert_eq!(text(read, one).as_deref(), Some("one"));
        }
    }
}

/// Otherwise one object could be the content of any number of files.
#[test]
fn an_object_in_the_cache_counts_each_time() {
    let (one, first) = blob(&"x".repeat(1000));
    let limits = Limits {
        decoded: 10_000,
        ..Limits::default()
    };
    let bytes = pack(FORMAT, &[first]);
    let mut objects = Objects::default();
    objects.add(
        Pack::read(&*bytes, FORMAT, limits, &mut Unmetered, || false)
            .unwrap()
            .into(),
    );
    let read = (0..100).take_while(|_| objects.get(one).is_ok()).count();
    assert!((5..10).contains(&read), "{read}");
}

#[test]
fn an_error_of_the_connection_is_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let error = Pack::read(Broken, FORMAT, Limits::default(), &mut Unmetered, || false).unwrap_err();
    assert!(matches!(error, PackError::Input(_)));
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..40_usize, byte: u8) {
        let _ = read(&bytes);
        // With a valid start and hash.
        let (_, first) = blob("one");
        let mut changed = pack(FORMAT, &[first, Packed::OffsetDelta(0, delta("one", "two"))]);
        changed.truncate(changed.len() - 20);
        if let Some(own) = changed.get_mut(at) {
            *own = byte;
        }
        bytes.truncate(20);
        for content in [changed.clone(), [&*changed, &*bytes].concat()] {
            let sealed = [&*content, FORMAT.digest(&content).as_bytes()].concat();
            let _ = read(&sealed);
        }
    }
}
