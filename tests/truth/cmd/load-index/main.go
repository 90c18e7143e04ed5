// Load-index measures Helm's own loader of a repository index: read the file, decode it, sort its versions.
//
//	load-index [-runs N] FILE CHART
//
// It prints one line of JSON: what a run costs, the most memory that the process ever held (so request one run if that
// matters), and, for a comparison with other readers, how many versions of CHART there are and which is the latest.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	repo "helm.sh/helm/v4/pkg/repo/v1"
)

type measured struct {
	Runs       int     `json:"runs"`
	CPUSeconds float64 `json:"cpu_seconds_per_run"`
	Seconds    float64 `json:"wall_seconds_per_run"`
	PeakBytes  int64   `json:"peak_rss_bytes"`
	Versions   int     `json:"versions"`
	Latest     string  `json:"latest"`
}

func main() {
	runs := flag.Int("runs", 1, "how often the index is loaded")
	flag.Parse()
	if flag.NArg() != 2 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "usage: load-index [-runs N] FILE CHART")
		os.Exit(2)
	}
	result, err := measure(flag.Arg(0), flag.Arg(1), *runs)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load-index:", err)
		os.Exit(1)
	}
}

func measure(file, chart string, runs int) (measured, error) {
	result := measured{Runs: runs}
	cpu, err := cpuTime()
	if err != nil {
		return result, err
	}
	began := time.Now()
	var index *repo.IndexFile
	for range runs {
		if index, err = repo.LoadIndexFile(file); err != nil {
			return result, err
		}
	}
	result.Seconds = time.Since(began).Seconds() / float64(runs)
	after, err := cpuTime()
	if err != nil {
		return result, err
	}
	result.CPUSeconds = (after - cpu).Seconds() / float64(runs)
	if result.PeakBytes, err = peak(); err != nil {
		return result, err
	}
	latest, err := index.Get(chart, "")
	if err != nil {
		return result, err
	}
	result.Versions = len(index.Entries[chart])
	result.Latest = latest.Version
	return result, nil
}

// cpuTime is that of all threads, the garbage collector's included.
func cpuTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}

// peak is the most memory that was ever resident, in bytes.
func peak() (int64, error) {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			var kib int64
			_, err := fmt.Sscanf(value, "%d kB", &kib)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
