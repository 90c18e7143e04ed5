//! Encodings and digests.

use std::fmt::Write as _;

use base64::{
    Engine as _, alphabet,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD},
};
use bounded_text::hex;
use go_formats::url;
use ring::digest::{self, Algorithm};

use super::{
    super::{format::is_printable, value::Value},
    args::{Call, Function, at_least, exactly},
    strings::sprint,
};

/// Go ignores the bits of the last digit that are not part of a byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

const BASE_32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "b64enc" => exactly(1, |c| Ok(STANDARD.encode(c.text(0)?.as_bytes()).into())),
        "b64dec" => exactly(1, |c| {
            let text = c.text(0)?.replace(['\r', '\n'], "");
            let bytes = LENIENT.decode(&text).map_err(|_| "illegal base64 data")?;
            decoded(bytes)
        }),
        "b32enc" => exactly(1, |c| Ok(base32(c.text(0)?.as_bytes()).into())),
        "b32dec" => exactly(1, |c| {
            let text = c.text(0)?.replace(['\r', '\n'], "");
            decoded(from_base32(&text).ok_or("illegal base32 data")?)
        }),
        "sha1sum" => exactly(1, |c| sum(c, &digest::SHA1_FOR_LEGACY_USE_ONLY)),
        "sha256sum" => exactly(1, |c| sum(c, &digest::SHA256)),
        "sha512sum" => exactly(1, |c| sum(c, &digest::SHA512)),
        "adler32sum" => exactly(1, |c| Ok(adler32(c.text(0)?.as_bytes()).to_string().into())),
        "html" => at_least(0, |c| Ok(html(&printed(c)?).into())),
        "js" => at_least(0, |c| Ok(script(&printed(c)?).into())),
        "urlquery" => at_least(0, |c| Ok(url::query(&printed(c)?).into())),
        _ => return None,
    })
}

/// The arguments as actions print them.
fn printed(c: &mut Call<'_>) -> Result<String, String> {
    let args: Vec<_> = c
        .rest(0)
        .into_iter()
        .map(|arg| match arg {
            Value::Nil => Value::str("<no value>"),
            other => other,
        })
        .collect();
    sprint(c, &args, false)
}

fn decoded(bytes: Vec<u8>) -> Result<Value, String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err("the decoded bytes are not UTF-8".to_owned()),
    }
}

fn sum(c: &Call<'_>, algorithm: &'static Algorithm) -> Result<Value, String> {
    Ok(hex(digest::digest(algorithm, c.text(0)?.as_bytes()).as_ref()).into())
}

fn adler32(bytes: &[u8]) -> u32 {
    /// The largest prime below 2^16.
    const MODULUS: u32 = 65_521;
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % MODULUS;
        (a, (a + b) % MODULUS)
    });
    b << 16 | a
}

fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut buffer = [0_u8; 8];
        for (slot, byte) in buffer.iter_mut().skip(3).zip(chunk) {
            *slot = *byte;
        }
        let number = u64::from_be_bytes(buffer);
        let digits = (chunk.len() * 8).div_ceil(5);
        for digit in 0..8 {
            let index = usize::try_from((number >> (35 - 5 * digit)) & 31).unwrap_or_default();
            let letter = BASE_32.get(index).copied().unwrap_or(b'=');
            out.push(if digit < digits { char::from(letter) } else { '=' });
        }
    }
    out
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(8) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    let (mut number, mut bits, mut bytes) = (0_u32, 0, Vec::new());
    for letter in digits.bytes() {
        let digit = BASE_32.iter().position(|known| *known == letter)?;
        number = (number << 5 | u32::try_from(digit).ok()?) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((number >> bits) & 0xff).ok()?);
        }
    }
    let padding = text.len() - digits.len();
    matches!(padding, 0 | 1 | 3 | 4 | 6).then_some(bytes)
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text for a string literal in JavaScript.
fn script(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing into a string cannot fail.
        match c {
            '\\' | '\'' | '"' => out.extend(['\\', c]),
            '<' | '>' | '&' | '=' | '\0'..='\x1f' => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c => _ = write!(out, "\\u{:04X}", u32::from(c)),
        }
    }
    out
}
