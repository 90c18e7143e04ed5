package main

import (
	"encoding/json"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

// regexpLines: expression and the error, or what FindAllStringSubmatchIndex finds in the sample text of the first line.
func regexpLines() []string {
	inputs := inputLines("regexp.txt")
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

// yamlTables: values and the document that Marshal writes, and documents and the JSON of what Unmarshal reads, or "!".
func yamlTables() []table {
	var written, read []string
	for _, line := range inputLines("yaml/values.jsonl") {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			panic(fmt.Sprintf("%s: %v", line, err))
		}
		document, err := yaml.Marshal(values)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", line, err))
		}
		written = append(written, row(line, quote(string(document))))
	}
	for _, line := range inputLines("yaml/documents.jsonl") {
		var document string
		if err := json.Unmarshal([]byte(line), &document); err != nil {
			panic(fmt.Sprintf("%s: %v", line, err))
		}
		read = append(read, row(line, yamlResult(document)))
	}
	return []table{{"emit.tsv", written}, {"read.tsv", read}}
}

func yamlResult(document string) string {
	var value any
	if err := yaml.Unmarshal([]byte(document), &value); err != nil {
		return "!"
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return "!"
	}
	return string(encoded)
}
