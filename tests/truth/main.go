// Truth writes tables of what the Go libraries that Helm and Fleet use answer, for the Rust tests to compare with.
//
//	go run . semver DIR     # how versions and constraints are read and compared
//	go run . index DIR      # which version of an index is chosen
//	go run . tags DIR       # which tag of a registry is chosen
//	go run . go DIR         # what regular expressions match, how YAML is read and written, and what --set does
//	go run . gotmpl DIR     # what templates render to
//	go run . quartz DIR     # when cron expressions of Schedules start
//
// The tables depend on nothing but this program and the module versions in go.mod: same input, same bytes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// table is one file: its name and its lines, without line ends.
type table struct {
	name  string
	lines []string
}

// families maps the first argument to what makes the tables.
var families = map[string]func() []table{
	"semver": semverTables,
	"go":     goTables,
	"gotmpl": gotmplTables,
	"quartz": quartzTables,
	"index":  indexTables,
	"tags":   tagsTables,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: go run . FAMILY DIR")
	}
	family, ok := families[args[0]]
	if !ok {
		return fmt.Errorf("no table family %q", args[0])
	}
	for _, t := range family() {
		text := strings.Join(t.lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(args[1], t.name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// quote encodes any text as a JSON string, so that a row stays one line whatever it holds.
func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // A string always encodes.
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// row joins the columns of one line.
func row(columns ...string) string { return strings.Join(columns, "\t") }
