//! Arithmetic.

use std::num::{IntErrorKind, ParseIntError};

use super::{
    super::value::Value,
    args::{Call, Function, at_least, exactly, to_float, to_int64},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "atoi" => exactly(1, |c| {
            let text = c.text(0)?;
            Ok(Value::Int(decimal(&text)))
        }),
        "int64" => exactly(1, |c| Ok(Value::Int64(to_int64(&c.any(0))))),
        "int" => exactly(1, |c| Ok(Value::Int(to_int64(&c.any(0))))),
        "float64" => exactly(1, |c| Ok(Value::Float(to_float(&c.any(0))))),
        "toDecimal" => exactly(1, |c| {
            let text = c.display(0)?;
            Ok(Value::Int64(i64::from_str_radix(&text, 8).unwrap_or_default()))
        }),
        "add1" => exactly(1, |c| Ok(Value::Int64(to_int64(&c.any(0)).wrapping_add(1)))),
        "add" => at_least(0, |c| Ok(fold(c, 0, 0, i64::wrapping_add))),
        "sub" => exactly(2, |c| Ok(fold(c, to_int64(&c.any(0)), 1, i64::wrapping_sub))),
        "mul" => at_least(1, |c| Ok(fold(c, to_int64(&c.any(0)), 1, i64::wrapping_mul))),
        "div" => exactly(2, |c| divide(c, i64::wrapping_div)),
        "mod" => exactly(2, |c| divide(c, i64::wrapping_rem)),
        "max" | "biggest" => at_least(1, |c| Ok(fold(c, to_int64(&c.any(0)), 1, i64::max))),
        "min" => at_least(1, |c| Ok(fold(c, to_int64(&c.any(0)), 1, i64::min))),
        "add1f" => exactly(1, |c| decimals(c, &[Value::Int(1)], 0, Decimal::plus)),
        "addf" => at_least(0, |c| {
            let others = c.rest(0);
            c.args = vec![Value::Float(0.0)];
            decimals(c, &others, 0, Decimal::plus)
        }),
        "subf" => at_least(1, |c| decimals(c, &c.rest(1), 0, Decimal::minus)),
        "mulf" => at_least(1, |c| decimals(c, &c.rest(1), 0, Decimal::times)),
        "divf" => at_least(1, |c| decimals(c, &c.rest(1), 0, Decimal::by)),
        "maxf" => at_least(1, |c| Ok(fold_floats(c, f64::max))),
        "minf" => at_least(1, |c| Ok(fold_floats(c, f64::min))),
        "floor" => exactly(1, |c| Ok(Value::Float(to_float(&c.any(0)).floor()))),
        "ceil" => exactly(1, |c| Ok(Value::Float(to_float(&c.any(0)).ceil()))),
        "round" => at_least(2, round),
        _ => return None,
    })
}

/// `strconv.Atoi`: 0 if it is not a number, and the nearest `int` if it is out of range.
fn decimal(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => i64::MAX,
            IntErrorKind::NegOverflow => i64::MIN,
            _ => 0,
        })
}

fn fold(c: &Call<'_>, first: i64, skip: usize, step: fn(i64, i64) -> i64) -> Value {
    Value::Int64(c.args.iter().skip(skip).map(to_int64).fold(first, step))
}

fn fold_floats(c: &Call<'_>, step: fn(f64, f64) -> f64) -> Value {
    let first = to_float(&c.any(0));
    Value::Float(c.args.iter().skip(1).map(to_float).fold(first, step))
}

fn divide(c: &Call<'_>, step: fn(i64, i64) -> i64) -> Result<Value, String> {
    match to_int64(&c.any(1)) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(Value::Int64(step(to_int64(&c.any(0)), divisor))),
    }
}

fn round(c: &mut Call<'_>) -> Result<Value, String> {
    let (value, places) = (to_float(&c.any(0)), c.int(1)?);
    let up_from = match c.args.get(2) {
        None => 0.5,
        Some(Value::Float(from)) => *from,
        Some(Value::Int(from)) => to_float(&Value::Int(*from)),
        Some(other) => {
            let got = c.heap.type_of(other);
            return Err(format!("wrong type for value; expected float64; got {got}"));
        }
    };
    let power = 10_f64.powf(to_float(&Value::Int(places)));
    let digit = power * value;
    let rounded = if digit.fract() >= up_from {
        digit.ceil()
    } else {
        digit.floor()
    };
    Ok(Value::Float(rounded / power))
}

fn decimals(
    c: &Call<'_>,
    others: &[Value],
    first: usize,
    step: fn(Decimal, Decimal) -> Option<Decimal>,
) -> Result<Value, String> {
    let mut result = exact(&c.any(first))?;
    for other in others {
        let other = exact(other)?;
        result = step(result, other).ok_or("a number is too large, or divided by zero")?;
    }
    Ok(Value::Float(result.to_float()))
}

fn exact(value: &Value) -> Result<Decimal, String> {
    let number = to_float(value);
    if let Some(decimal) = Decimal::from_float(number) {
        return Ok(decimal);
    }
    Err("a number is too large or too small to calculate with".to_owned())
}

/// A decimal number: `digits * 10^exponent`. In decimals, 0.1 + 0.2 is 0.3.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    exponent: i32,
}

impl Decimal {
    /// The decimal places of the result of a division.
    const PRECISION: i32 = 16;

    fn from_float(number: f64) -> Option<Self> {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some(Self {
            digits: mantissa.replace('.', "").parse().ok()?,
            exponent: exponent.parse::<i32>().ok()? - i32::try_from(decimals).ok()?,
        })
    }

    fn to_float(self) -> f64 {
        format!("{}e{}", self.digits, self.exponent)
            .parse()
            .unwrap_or_default()
    }

    /// The digits of both with the smaller exponent.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let digits = |decimal: Self| {
            let zeros = u32::try_from(decimal.exponent - exponent).ok()?;
            decimal.digits.checked_mul(10_i128.checked_pow(zeros)?)
        };
        Some((digits(self)?, digits(other)?, exponent))
    }

    fn plus(self, other: Self) -> Option<Self> {
        let (one, other, exponent) = self.aligned(other)?;
        let digits = one.checked_add(other)?;
        Some(Self { digits, exponent })
    }

    fn minus(self, other: Self) -> Option<Self> {
        let digits = other.digits.checked_neg()?;
        self.plus(Self { digits, ..other })
    }

    fn times(self, other: Self) -> Option<Self> {
        Some(Self {
            digits: self.digits.checked_mul(other.digits)?,
            exponent: self.exponent.checked_add(other.exponent)?,
        })
    }

    /// Rounded half away from zero.
    fn by(self, other: Self) -> Option<Self> {
        if other.digits == 0 {
            return None;
        }
        let (mut one, mut divisor) = (self.digits, other.digits);
        let scale = self.exponent - other.exponent + Self::PRECISION;
        let factor = 10_i128.checked_pow(scale.unsigned_abs())?;
        if scale < 0 {
            divisor = divisor.checked_mul(factor)?;
        } else {
            one = one.checked_mul(factor)?;
        }
        let (quotient, rest) = (one / divisor, one % divisor);
        let is_half = rest.unsigned_abs().checked_mul(2)? >= divisor.unsigned_abs();
        let away = if (one < 0) == (divisor < 0) { 1 } else { -1 };
        Some(Self {
            digits: if is_half {
                quotient.checked_add(away)?
            } else {
                quotient
            },
            exponent: -Self::PRECISION,
        })
    }
}
