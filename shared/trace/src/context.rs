//! The identity of a trace and of a span in it, and its text form: `traceparent` of W3C Trace Context.

use std::fmt;

use bounded_text::hex;
use ring::digest;

/// Bytes of the ID of a trace.
const TRACE: usize = 16;
/// Bytes of the ID of a span.
const SPAN: usize = 8;

/// A span that other spans can be children of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; TRACE],
    span: [u8; SPAN],
}

impl TraceContext {
    /// The root of the trace of one generation of an object. `rollout` numbers the traces of the same generation: a poll that finds
    /// a newer version starts another one.
    pub fn root(uid: &str, generation: i64, rollout: i64) -> Self {
        let text = format!("{uid}\n{generation}\n{rollout}");
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        let (mut trace, mut span) = ([0; TRACE], [0; SPAN]);
        for (to, from) in trace.iter_mut().chain(&mut span).zip(digest.as_ref()) {
            *to = *from;
        }
        Self { trace, span }
    }

    /// A child of this span, with a number that no other child of it has.
    pub(crate) fn child(self, number: u64) -> Self {
        Self {
            span: number.max(1).to_be_bytes(),
            ..self
        }
    }

    /// Whether the trace belongs to the part `ratio` of all traces, from 0 to 1. All processes decide the same.
    pub(crate) fn is_sampled(&self, ratio: f64) -> bool {
        let [.., a, b, c, d] = self.trace;
        f64::from(u32::from_be_bytes([a, b, c, d])) < ratio * (f64::from(u32::MAX) + 1.0)
    }

    /// The ID of the trace, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        hex(&self.trace)
    }

    /// The ID of the span, as 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        hex(&self.span)
    }

    /// Reads a `traceparent`. `None` if it is none, or not sampled.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [flags] = bytes::<1>(flags)?;
        let context = Self {
            trace: bytes(trace)?,
            span: bytes(span)?,
        };
        let is_valid =
            bytes::<1>(version)? != [0xff] && context.trace != [0; TRACE] && context.span != [0; SPAN];
        (is_valid && flags & 1 == 1).then_some(context)
    }
}

/// The `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", self.trace_id(), self.span_id())
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

/// The bytes of exactly `N` times two hexadecimal digits, in lower case.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_follow_from_the_object_and_its_generation() {
        let root = TraceContext::root("4f3c", 1, 0);
        assert_eq!(root, TraceContext::root("4f3c", 1, 0), "in every process");
        for other in [
            TraceContext::root("4f3d", 1, 0),
            TraceContext::root("4f3c", 2, 0),
            TraceContext::root("4f3c", 1, 1),
            TraceContext::root("4f3c", 11, 0),
        ] {
            assert_ne!(root.trace, other.trace, "{other:?}");
        }
    }

    #[test]
    fn a_traceparent_is_read_as_it_is_written() {
        let root = TraceContext::root("4f3c", 1, 0);
        assert_eq!(TraceContext::parse(&root.to_string()), Some(root));
        let child = root.child(7);
        assert_eq!(TraceContext::parse(&child.to_string()), Some(child));
        assert!(child.trace == root.trace && child != root);
    }

    #[test]
    fn what_is_no_traceparent_is_ignored() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let valid = format!("00-{trace}-b7ad6b7169203331-01");
        assert!(TraceContext::parse(&valid).is_some());
        assert!(TraceContext::parse(&format!("01-{trace}-b7ad6b7169203331-01-newer")).is_some());
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{trace}-b7ad6b7169203331-00"),
            format!("ff-{trace}-b7ad6b7169203331-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
            format!("00-{trace}-b7ad6b71692033-01"),
            format!("00-{}-b7ad6b7169203331-01", "é".repeat(16)),
        ] {
            assert_eq!(TraceContext::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_ratio_selects_its_part_of_the_traces() {
        let selected = |ratio: f64| {
            (0..1_000)
                .filter(|generation| TraceContext::root("uid", *generation, 0).is_sampled(ratio))
                .count()
        };
        assert_eq!((selected(0.0), selected(1.0)), (0, 1_000));
        assert!((200..300).contains(&selected(0.25)), "{}", selected(0.25));
    }
}
