package main

import (
	"encoding/json"
	"fmt"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/yaml"
)

// yamlTables: values and the document that Marshal writes; and documents with what kubectl reads, what Helm writes before it runs
// a post-renderer, and what kubectl reads of that. An error is "!".
func yamlTables() []table {
	var written, read []string
	for _, line := range inputLines("go/yaml/values.jsonl") {
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
	for _, document := range distinct(append(pickedDocuments(), randomDocuments()...)) {
		line := yamlRow(document)
		for range executions - 1 {
			if yamlRow(document) != line {
				panic(fmt.Sprintf("%q: keys of several types with the same text, one of which is chosen by chance", document))
			}
		}
		read = append(read, line)
	}
	return []table{{"emit.tsv", written}, {"read.tsv", read}}
}

func yamlRow(document string) string {
	helm, err := kyamlText(document)
	if err != nil {
		return row(quote(document), objectJSON(document), "!")
	}
	return row(quote(document), objectJSON(document), quote(helm), objectJSON(helm))
}

// objectJSON is what kubectl and Helm's client read, with integers of 64 bits: it is sent to the API server.
func objectJSON(document string) string {
	var value any
	if err := utilyaml.Unmarshal([]byte(document), &value); err != nil {
		return "!"
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return "!"
	}
	return string(encoded)
}

// kyamlText is a document after Helm has read and written it for a post-renderer.
func kyamlText(document string) (text string, err error) {
	defer func() {
		// The writer panics for some documents.
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	nodes, err := kio.ParseAll(document)
	if err != nil {
		return "", err
	}
	text, err = kio.StringAll(nodes)
	if err == nil && strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("no document")
	}
	return text, err
}
