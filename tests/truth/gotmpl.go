package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
)

// The inputs: templates and expressions one per line, where "⏎" is a line end, and JSON.
//
//go:embed gotmpl go quartz.txt
var inputFiles embed.FS

// How often each template is executed, so that one whose output changes is found.
const executions = 8

// nondeterministic are the functions of Sprig whose results change, depend on the machine, or are secrets. They are not defined
// here, so a template that calls one is an error.
var nondeterministic = []string{
	// Random numbers.
	"bcrypt", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
	"genSignedCert", "genSignedCertWithKey", "htpasswd", "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt",
	"randNumeric", "shuffle", "uuidv4",
	// The clock and the time zone.
	"ago", "date", "dateInZone", "dateModify", "date_in_zone", "date_modify", "htmlDate", "htmlDateInZone", "mustDateModify",
	"mustToDate", "must_date_modify", "now", "toDate", "unixEpoch",
	// The network and the environment. Fleet removes these too.
	"env", "expandenv", "getHostByName",
	// Keys and passwords.
	"buildCustomCert", "decryptAES", "derivePassword",
}

// builtins are the functions of text/template, which exports no list of them.
var builtins = []string{
	"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf", "println",
	"slice", "urlquery",
}

// gotmplTables: templates with their output, the data that they were executed with, and the names of all functions.
func gotmplTables() []table {
	return []table{
		{"templates.tsv", templateLines()},
		{"context.json", inputLines("gotmpl/context.json")},
		{"functions.txt", functionNames()},
	}
}

// templateLines: template, and its output, "!" for an error, or "!utf8" for an output that is not UTF-8.
func templateLines() []string {
	names, err := fs.Glob(inputFiles, "gotmpl/templates/*.txt")
	if err != nil {
		panic(err)
	}
	var templates []string
	for _, name := range names { // Glob sorts them.
		templates = append(templates, inputLines(name)...)
	}
	var lines []string
	for _, text := range templates {
		lines = append(lines, row(quote(text), templateOutput(text)))
	}
	if len(distinct(lines)) != len(lines) {
		panic("a template is listed twice: " + duplicate(lines))
	}
	return lines
}

func templateOutput(text string) string {
	output, err := execute(text)
	for range executions - 1 {
		again, errAgain := execute(text)
		if again != output || (err == nil) != (errAgain == nil) {
			panic(fmt.Sprintf("%s: the output changes: %q, %q", text, output, again))
		}
	}
	switch {
	case err != nil:
		return "!"
	case !utf8.ValidString(output):
		return "!utf8"
	default:
		return quote(output)
	}
}

// execute renders a template as Fleet does, with data of its own, because functions such as set change it.
func execute(text string) (string, error) {
	functions := sprig.TxtFuncMap()
	for _, name := range nondeterministic {
		delete(functions, name)
	}
	parsed, err := template.New("values").Delims("${", "}").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var context map[string]any
	if err := json.Unmarshal(input("gotmpl/context.json"), &context); err != nil {
		panic(err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, context)
	return out.String(), err
}

// functionNames are those of text/template and Sprig, with the ones that are not defined above.
func functionNames() []string {
	names := slices.Clone(builtins)
	for name := range sprig.TxtFuncMap() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func input(name string) []byte {
	text, err := inputFiles.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return text
}

func inputLines(name string) []string {
	lines := strings.Split(strings.TrimSuffix(string(input(name)), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "⏎", "\n")
	}
	return lines
}

// duplicate is the first line that another equals.
func duplicate(lines []string) string {
	for i, line := range lines {
		if slices.Contains(lines[:i], line) {
			return line
		}
	}
	return ""
}
