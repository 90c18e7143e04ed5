//! CPU time and memory of a process, from Linux's `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Currently resident.
    pub resident: u32,
    /// Peak resident.
    pub peak: u32,
}

/// CPU time of all threads of a process, to a hundredth of a second.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    let ticks = ticks(&stat).with_context(|| format!("/proc/{pid}/stat is invalid: {stat:?}"))?;
    let frequency = rustix::param::clock_ticks_per_second();
    let millis = (ticks * 1000).checked_div(frequency);
    Ok(Duration::from_millis(
        millis.context("the kernel reports no clock tick rate")?,
    ))
}

/// Memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = read(pid, "status")?;
    let kib = |name| kib(&status, name).with_context(|| format!("/proc/{pid}/status has no {name}"));
    Ok(Memory {
        resident: kib("VmRSS")?,
        peak: kib("VmHWM")?,
    })
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// The sum of `utime` and `stime`, fields 14 and 15. Field 2 is the name in parentheses, which may contain any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kib(status: &str, name: &str) -> Option<u32> {
    let of_name = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(':')?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    status.lines().find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_program_name_is_parsed() {
        let stat = "42 (a b) c) 9) S 1 42 42 0 -1 4194560 100 0 3 0 250 31 7 8 20 0 4 0 1000 1 2";
        assert_eq!(ticks(stat), Some(250 + 31));
        assert_eq!(ticks("42 (short) S 1 42"), None);
    }

    #[test]
    fn memory_is_parsed_by_field_name() {
        let status = "Name:\tVmRSS\nVmPeak:\t  9999 kB\nVmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\n";
        assert_eq!(kib(status, "VmRSS"), Some(4096));
        assert_eq!(kib(status, "VmHWM"), Some(5120));
        assert_eq!(kib(status, "VmSwap"), None);
    }

    #[test]
    fn memory_and_cpu_time_of_this_process_are_read() {
        let memory = memory(std::process::id()).unwrap();
        assert!(
            memory.resident > 100 && memory.peak >= memory.resident,
            "{memory:?}"
        );
        let started = std::time::Instant::now();
        while cpu_time(std::process::id()).unwrap().is_zero() {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "no CPU time is reported"
            );
        }
    }
}
