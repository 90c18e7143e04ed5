//! Cron expressions of Quartz, as `reugn/go-quartz` of Fleet reads them.
//!
//! Both agree by a table (`tests/truth`), but for errors of that library, which the test of the table names. Values of a list that a field
//! does not have are an error here; there they are ignored.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{
    ToSpan,
    civil::{Date, DateTime, Time, Weekday},
};
use thiserror::Error;

/// The years that an expression can name.
const YEARS: (u32, u32) = (1_970, 3_940);
/// Steps of one search by days: more than all days of these years whose month fits.
const MAX_STEPS: usize = 1_000_000;

const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Why a text is not a cron expression. The texts are those of Fleet, with a fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CronError {
    /// Not 6 or 7 fields.
    #[error(
        "invalid expression length: {0} fields; expected 6 or 7: second, minute, hour, day of month, month, day of week and, optionally, year, \
         such as 0 0 2 * * ?"
    )]
    Length(usize),
    /// Both a day of the month and a day of the week.
    #[error("day field set twice: write ? as day of month ({0:?}) or as day of week ({1:?})")]
    DayTwice(String, String),
    /// A part of a field that is none.
    #[error("invalid {form} field {text}: {field} is {lower} to {upper}")]
    Invalid {
        /// What the part looks like: `numeric`, `range`, `step`, `last`, `hash` or `weekday`.
        form: &'static str,
        /// The part.
        text: String,
        /// The name of the field.
        field: &'static str,
        /// Its lowest value.
        lower: u32,
        /// Its highest value.
        upper: u32,
    },
    /// A word that is no name of the field.
    #[error("unknown literal {text} in the field {field}{names}")]
    Literal {
        /// The word.
        text: String,
        /// The name of the field.
        field: &'static str,
        /// The names that it has.
        names: &'static str,
    },
}

/// A field: its name, its values and their names.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    lower: u32,
    upper: u32,
    /// Of the values from `lower` on.
    names: &'static [&'static str],
}

const fn field(name: &'static str, lower: u32, upper: u32, names: &'static [&'static str]) -> Field {
    Field {
        name,
        lower,
        upper,
        names,
    }
}

const SECOND: Field = field("second", 0, 59, &[]);
const MINUTE: Field = field("minute", 0, 59, &[]);
const HOUR: Field = field("hour", 0, 23, &[]);
const DAY: Field = field("day of month", 1, 31, &[]);
const MONTH: Field = field("month", 1, 12, MONTHS);
const WEEKDAY: Field = field("day of week", 1, 7, WEEKDAYS);
const YEAR: Field = field("year", YEARS.0, YEARS.1, &[]);

/// The values of a field; `None` for all.
type Values = Option<BTreeSet<u32>>;

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: Values,
    minutes: Values,
    hours: Values,
    days: Days,
    months: Values,
    years: Values,
}

/// Which days of a month.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Days {
    Any,
    /// By their number.
    OfMonth(BTreeSet<u32>),
    /// So many days before the last one.
    BeforeLast(u32),
    /// The working day that is nearest to a day of the month: of shorter months, to the last one.
    Nearest(u32),
    /// By their number, from 1 for Sunday.
    OfWeek(BTreeSet<u32>),
    /// The n-th of a day of the week.
    Nth(u32, u32),
    /// The last of a day of the week.
    LastOfWeek(u32),
}

impl Cron {
    /// Reads an expression of 6 or 7 fields, or one of the names `@yearly`, `@monthly`, `@weekly`, `@daily` and `@hourly`.
    ///
    /// # Errors
    /// If it is none. Never panics, for texts of any length.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<_> = match text.trim() {
            "@yearly" => vec!["0", "0", "0", "1", "1", "*"],
            "@monthly" => vec!["0", "0", "0", "1", "*", "*"],
            "@weekly" => vec!["0", "0", "0", "*", "*", "1"],
            "@daily" => vec!["0", "0", "0", "*", "*", "*"],
            "@hourly" => vec!["0", "0", "*", "*", "*", "*"],
            fields => fields.split_ascii_whitespace().collect(),
        };
        let (second, minute, hour, day, month, weekday, year) = match *fields {
            [second, minute, hour, day, month, weekday] => (second, minute, hour, day, month, weekday, "*"),
            [second, minute, hour, day, month, weekday, year] => {
                (second, minute, hour, day, month, weekday, year)
            }
            _ => return Err(CronError::Length(fields.len())),
        };
        let days = match (is_any(day), is_any(weekday)) {
            (true, true) => Days::Any,
            (false, true) => days_of_month(day)?,
            (true, false) => days_of_week(weekday)?,
            (false, false) => return Err(CronError::DayTwice(day.to_owned(), weekday.to_owned())),
        };
        Ok(Self {
            seconds: SECOND.values(second)?,
            minutes: MINUTE.values(minute)?,
            hours: HOUR.values(hour)?,
            days,
            months: MONTH.values(month)?,
            years: YEAR.values(year)?,
        })
    }

    /// The first time after another one.
    pub fn after(&self, time: DateTime) -> Option<DateTime> {
        let time = time.checked_add(1.second()).ok()?;
        if self.has_date(time.date())
            && let Some(found) = self.times(Direction::Forward, Some(time.time()))
        {
            return Some(time.date().to_datetime(found));
        }
        let date = self.date(time.date(), Direction::Forward)?;
        Some(date.to_datetime(self.times(Direction::Forward, None)?))
    }

    /// The last time that is not after another one.
    pub fn until(&self, time: DateTime) -> Option<DateTime> {
        if self.has_date(time.date())
            && let Some(found) = self.times(Direction::Back, Some(time.time()))
        {
            return Some(time.date().to_datetime(found));
        }
        let date = self.date(time.date(), Direction::Back)?;
        Some(date.to_datetime(self.times(Direction::Back, None)?))
    }

    /// The next fitting date, without the given one.
    fn date(&self, mut date: Date, direction: Direction) -> Option<Date> {
        for _ in 0..MAX_STEPS {
            let year = u32::try_from(date.year()).ok()?;
            let month = u32::try_from(date.month()).ok()?;
            let is_within = match direction {
                Direction::Forward => year <= YEARS.1,
                Direction::Back => year >= YEARS.0,
            };
            if !is_within {
                return None;
            }
            date = if !contains(self.years.as_ref(), year) {
                direction.next_year(date)?
            } else if !contains(self.months.as_ref(), month) {
                direction.next_month(date)?
            } else {
                direction.next_day(date)?
            };
            if self.has_date(date) {
                return Some(date);
            }
        }
        None
    }

    fn has_date(&self, date: Date) -> bool {
        let [year, month] = [i32::from(date.year()), i32::from(date.month())].map(i32::unsigned_abs);
        contains(self.years.as_ref(), year)
            && contains(self.months.as_ref(), month)
            && YEARS.1 >= year
            && self.days.contains(date)
    }

    /// The first time of a day from another one on, or the last one up to it.
    fn times(&self, direction: Direction, limit: Option<Time>) -> Option<Time> {
        let fields = [
            (&self.hours, HOUR),
            (&self.minutes, MINUTE),
            (&self.seconds, SECOND),
        ];
        let limit = limit.map(|limit| {
            [limit.hour(), limit.minute(), limit.second()].map(|part| u32::from(part.unsigned_abs()))
        });
        // From the last field on: the part before it is that of the limit, this one is beyond it, and those behind are the outermost.
        for beyond in (0..=fields.len()).rev() {
            let mut parts = [0; 3];
            let found = fields
                .iter()
                .enumerate()
                .try_for_each(|(index, (values, field))| {
                    let of_limit = limit.and_then(|limit| limit.get(index).copied());
                    let value = match of_limit {
                        Some(limit) if index < beyond => contains(values.as_ref(), limit).then_some(limit),
                        Some(limit) if index == beyond => direction.beyond(values.as_ref(), *field, limit),
                        _ => direction.outermost(values.as_ref(), *field),
                    }?;
                    *parts.get_mut(index)? = value;
                    Some(())
                });
            if found.is_some() {
                let [hour, minute, second] = parts.map(|part| i8::try_from(part).unwrap_or_default());
                return Time::new(hour, minute, second, 0).ok();
            }
            // Without a limit, nothing is beyond it.
            limit?;
        }
        None
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Back,
}

impl Direction {
    fn next_day(self, date: Date) -> Option<Date> {
        match self {
            Self::Forward => date.tomorrow().ok(),
            Self::Back => date.yesterday().ok(),
        }
    }

    fn next_month(self, date: Date) -> Option<Date> {
        match self {
            Self::Forward => date.last_of_month().tomorrow().ok(),
            Self::Back => date.first_of_month().yesterday().ok(),
        }
    }

    fn next_year(self, date: Date) -> Option<Date> {
        match self {
            Self::Forward => date.last_of_year().tomorrow().ok(),
            Self::Back => date.first_of_year().yesterday().ok(),
        }
    }

    /// The nearest value beyond another one.
    fn beyond(self, values: Option<&BTreeSet<u32>>, field: Field, limit: u32) -> Option<u32> {
        match (self, values) {
            (Self::Forward, Some(values)) => values.range(limit + 1..).next().copied(),
            (Self::Back, Some(values)) => values.range(..limit).next_back().copied(),
            (Self::Forward, None) => (limit < field.upper).then_some(limit + 1),
            (Self::Back, None) => limit.checked_sub(1).filter(|value| *value >= field.lower),
        }
    }

    /// The first value, or the last one.
    fn outermost(self, values: Option<&BTreeSet<u32>>, field: Field) -> Option<u32> {
        match (self, values) {
            (Self::Forward, Some(values)) => values.first().copied(),
            (Self::Back, Some(values)) => values.last().copied(),
            (Self::Forward, None) => Some(field.lower),
            (Self::Back, None) => Some(field.upper),
        }
    }
}

impl Days {
    fn contains(&self, date: Date) -> bool {
        let day = u32::from(date.day().unsigned_abs());
        let weekday = weekday(date);
        let last = u32::from(date.days_in_month().unsigned_abs());
        match self {
            Self::Any => true,
            Self::OfMonth(days) => days.contains(&day),
            Self::BeforeLast(before) => day + before == last,
            Self::Nearest(wanted) => nearest_weekday(date, (*wanted).min(last)) == Some(date),
            Self::OfWeek(weekdays) => weekdays.contains(&weekday),
            Self::Nth(wanted, nth) => weekday == *wanted && day.div_ceil(7) == *nth,
            Self::LastOfWeek(wanted) => weekday == *wanted && day + 7 > last,
        }
    }
}

/// The number of a day of the week, from 1 for Sunday.
fn weekday(date: Date) -> u32 {
    u32::from(date.weekday().to_sunday_one_offset().unsigned_abs())
}

/// The working day in the month of `date` that is nearest to a day of the month.
fn nearest_weekday(date: Date, day: u32) -> Option<Date> {
    let wanted = Date::new(date.year(), date.month(), i8::try_from(day).ok()?).ok()?;
    let days = match wanted.weekday() {
        Weekday::Saturday if wanted.day() > 1 => -1,
        Weekday::Saturday => 2,
        Weekday::Sunday if wanted != wanted.last_of_month() => 1,
        Weekday::Sunday => -2,
        _ => 0,
    };
    wanted.checked_add(days.days()).ok()
}

fn is_any(field: &str) -> bool {
    matches!(field, "*" | "?")
}

fn contains(values: Option<&BTreeSet<u32>>, value: u32) -> bool {
    values.is_none_or(|values| values.contains(&value))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn days_of_month(text: &str) -> Result<Days, CronError> {
    if text == "L" {
        return Ok(Days::BeforeLast(0));
    }
    if text == "LW" {
        return Ok(Days::Nearest(DAY.upper));
    }
    if let Some(before) = text.strip_prefix("L-").filter(|before| is_number(before)) {
        return Ok(Days::BeforeLast(DAY.number("last", text, before)?));
    }
    if let Some(day) = text.strip_suffix('W').filter(|day| is_number(day)) {
        return Ok(Days::Nearest(DAY.number("weekday", text, day)?));
    }
    Ok(DAY.values(text)?.map_or(Days::Any, Days::OfMonth))
}

fn days_of_week(text: &str) -> Result<Days, CronError> {
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(day) = text.strip_suffix('L').filter(|day| is_word(day)) {
        let day = if day.is_empty() { "SAT" } else { day };
        return Ok(Days::LastOfWeek(WEEKDAY.in_scope("last", text, day)?));
    }
    if let Some((day, nth)) = text.split_once('#')
        && !day.is_empty()
        && is_word(day)
        && is_number(nth)
    {
        let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
        let day = WEEKDAY.in_scope("hash", text, day)?;
        return Ok(Days::Nth(day, nth.ok_or_else(|| WEEKDAY.invalid("hash", text))?));
    }
    Ok(WEEKDAY.values(text)?.map_or(Days::Any, Days::OfWeek))
}

impl Field {
    fn values(self, text: &str) -> Result<Values, CronError> {
        if is_any(text) {
            return Ok(None);
        }
        let mut values = BTreeSet::new();
        for part in text.split(',') {
            if part.contains('/') {
                values.extend(self.step(part)?);
            } else if part.contains('-') {
                let (from, to) = self.range("range", part, part)?;
                values.extend(from..=to);
            } else {
                values.insert(self.in_scope("numeric", part, part)?);
            }
        }
        Ok(Some(values))
    }

    /// `from/step`, `from-to/step` or `*/step`.
    fn step(self, part: &str) -> Result<impl Iterator<Item = u32> + use<>, CronError> {
        let invalid = || self.invalid("step", part);
        let (range, step) = part.split_once('/').ok_or_else(invalid)?;
        let (from, to) = match range {
            "*" => (self.lower, self.upper),
            range if range.contains('-') => self.range("step", part, range)?,
            from => (self.in_scope("step", part, from)?, self.upper),
        };
        let step = step.parse().ok().filter(|step| (1..=self.upper).contains(step));
        let step = usize::try_from(step.ok_or_else(invalid)?).map_err(|_| invalid())?;
        Ok((from..=to).step_by(step))
    }

    fn range(self, form: &'static str, part: &str, range: &str) -> Result<(u32, u32), CronError> {
        let invalid = || self.invalid(form, part);
        let (from, to) = range.split_once('-').ok_or_else(invalid)?;
        if to.contains('-') {
            return Err(invalid());
        }
        let (from, to) = (self.in_scope(form, part, from)?, self.in_scope(form, part, to)?);
        if from <= to {
            Ok((from, to))
        } else {
            Err(invalid())
        }
    }

    /// A number or a name that the field has.
    fn in_scope(self, form: &'static str, part: &str, text: &str) -> Result<u32, CronError> {
        if text.parse::<u32>().is_ok() {
            return self.number(form, part, text);
        }
        let name = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = name
            .and_then(|index| u32::try_from(index).ok())
            .map(|index| index + self.lower);
        if matches!(form, "last" | "hash") {
            return value.ok_or_else(|| self.invalid(form, part));
        }
        value.ok_or_else(|| CronError::Literal {
            text: text.to_owned(),
            field: self.name,
            names: match self.lower {
                _ if self.names.is_empty() => ", which has numbers",
                _ if self.upper == WEEKDAY.upper => {
                    ", which has numbers from 1 (Sunday) to 7, and SUN to SAT"
                }
                _ => ", which has numbers, and JAN to DEC",
            },
        })
    }

    fn number(self, form: &'static str, part: &str, text: &str) -> Result<u32, CronError> {
        let number = text.parse().ok();
        let number = number.filter(|number| (self.lower..=self.upper).contains(number));
        number.ok_or_else(|| self.invalid(form, part))
    }

    fn invalid(self, form: &'static str, text: &str) -> CronError {
        CronError::Invalid {
            form,
            text: text.to_owned(),
            field: self.name,
            lower: self.lower,
            upper: self.upper,
        }
    }
}
