package main

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// goTables: regular expressions, YAML, and values that are set at a path.
func goTables() []table {
	return append([]table{{"regexp.tsv", regexpLines()}, {"strvals.tsv", strvalsLines()}}, yamlTables()...)
}

// regexpLines: expression and the error, or what FindAllStringSubmatchIndex finds in the sample text of the first line.
func regexpLines() []string {
	inputs := inputLines("go/regexp.txt")
	sample := inputs[0]
	lines := []string{quote(sample)}
	for _, expression := range distinct(inputs[1:]) {
		lines = append(lines, row(quote(expression), regexpResult(expression, sample)))
	}
	return lines
}

func regexpResult(expression, sample string) string {
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return row("!", quote(err.Error()))
	}
	found, err := json.Marshal(compiled.FindAllStringSubmatchIndex(sample, -1))
	if err != nil {
		panic(fmt.Sprintf("%q: %v", expression, err))
	}
	return row("ok", string(found))
}
