//! CPU time and memory of a process and of its children, from Linux's `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Currently resident.
    pub resident: u32,
    /// Peak resident.
    pub peak: u32,
}

/// `utime`, the first of two fields of `/proc/PID/stat`, in clock ticks.
const OWN_TIME: usize = 14;
/// `cutime`, as above, of children that have ended and whose exit status was read.
const CHILDREN_TIME: usize = 16;
/// `starttime`, in clock ticks since the boot.
const START_TIME: usize = 22;

/// CPU time of all threads of a process, to a hundredth of a second.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    duration(stat(pid, |stat| sum_of_two(stat, OWN_TIME))?)
}

/// CPU time of the children of a process that have ended, with that of their own children, to a hundredth of a second.
pub fn cpu_time_of_children(pid: u32) -> Result<Duration> {
    duration(stat(pid, |stat| sum_of_two(stat, CHILDREN_TIME))?)
}

/// How long a process has existed, to a hundredth of a second.
pub fn age(pid: u32) -> Result<Duration> {
    let start = duration(stat(pid, |stat| field(stat, START_TIME))?)?;
    let uptime = std::fs::read_to_string("/proc/uptime").context("cannot read /proc/uptime")?;
    let uptime = uptime.split_whitespace().next().map(str::parse::<f64>);
    let uptime = uptime.context("/proc/uptime is empty")??;
    Ok(Duration::from_secs_f64(uptime).saturating_sub(start))
}

/// The running children of a process.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let folder = format!("/proc/{pid}/task");
    let mut all = Vec::new();
    for thread in std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // A thread may have ended meanwhile.
        let listed = std::fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        all.extend(
            listed
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    Ok(all)
}

/// The name of the program that a process runs, cut to 15 characters.
pub fn program(pid: u32) -> Result<String> {
    Ok(read(pid, "comm")?.trim_end().to_owned())
}

fn stat(pid: u32, value: impl Fn(&str) -> Option<u64>) -> Result<u64> {
    let stat = read(pid, "stat")?;
    value(&stat).with_context(|| format!("/proc/{pid}/stat is invalid: {stat:?}"))
}

fn duration(ticks: u64) -> Result<Duration> {
    let frequency = rustix::param::clock_ticks_per_second();
    let millis = (ticks * 1000).checked_div(frequency);
    Ok(Duration::from_millis(
        millis.context("the kernel reports no clock tick rate")?,
    ))
}

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

/// The sum of two adjacent fields: the time in the program and the time in the kernel.
fn sum_of_two(stat: &str, number: usize) -> Option<u64> {
    Some(field(stat, number)? + field(stat, number + 1)?)
}

/// A field by its number. Field 2 is the name in parentheses, which may contain any character.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields
        .split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
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
        assert_eq!(sum_of_two(stat, OWN_TIME), Some(250 + 31));
        assert_eq!(sum_of_two(stat, CHILDREN_TIME), Some(7 + 8));
        assert_eq!(field(stat, START_TIME), Some(1000));
        assert_eq!(sum_of_two("42 (short) S 1 42", OWN_TIME), None);
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

    #[test]
    fn a_child_is_listed_while_it_runs_and_its_cpu_time_counts_afterwards() {
        let this = std::process::id();
        let mut command = std::process::Command::new("sh");
        // About a tenth of a second.
        command.args([
            "-c",
            "read line; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done",
        ]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(children(this).unwrap().contains(&child.id()));
        // The kernel resumes the parent a moment before the child has the name of its program.
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while program(child.id()).unwrap() != "sh" {
            assert!(
                std::time::Instant::now() < end,
                "{}",
                program(child.id()).unwrap()
            );
            std::thread::yield_now();
        }
        assert!(age(child.id()).unwrap() < Duration::from_secs(10));
        let before = cpu_time_of_children(this).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(!children(this).unwrap().contains(&child.id()));
        assert!(cpu_time_of_children(this).unwrap() > before);
    }
}
