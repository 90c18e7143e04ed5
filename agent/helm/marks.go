package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
)

// unknown is the template of a document without the comment that names it.
const unknown = "the chart"

// target is what is deployed: the objects as they were rendered, and as they are applied and recorded.
type target struct {
	marks *Marks
	// replaces is whether Helm reads the recorded objects after the rendered ones: in an upgrade.
	replaces bool
	rendered string
	marked   string
	isKnown  bool
	// built is how often objects were read.
	built int
	// chart is the one that a record gets, if Helm has another one.
	chart *chartv2.Chart
	// crds are the documents that define kinds, among others.
	crds []document
}

// deployed is what is applied of a text. Helm reads the rendered objects first, an upgrade to validate them. Then it reads the recorded
// ones, which may be the same text, and the rendered ones again.
func (t *target) deployed(text string) (string, error) {
	if t.marks == nil {
		return text, nil
	}
	if err := t.set(text); err != nil {
		return "", err
	}
	t.built++
	isRecorded := t.replaces && t.built == 2
	if text == t.rendered && !isRecorded {
		return t.marked, nil
	}
	return text, nil
}

// document is a rendered object, or several.
type document struct {
	// File is the template that it is from.
	File string `json:"file"`
	Text string `json:"text"`
}

// set learns the rendered objects, and marks them. It does nothing if they are known.
func (t *target) set(rendered string) error {
	if t.isKnown {
		return nil
	}
	t.rendered, t.isKnown = rendered, true
	documents := split(rendered)
	for _, document := range documents {
		if strings.Contains(document.Text, "CustomResourceDefinition") {
			t.crds = append(t.crds, document)
		}
	}
	texts, err := t.marks.apply(documents)
	if err != nil {
		return err
	}
	var marked strings.Builder
	for at, text := range texts {
		if text != "" {
			fmt.Fprintf(&marked, "---\n# Source: %s\n%s", documents[at].File, text)
		}
	}
	t.marked = marked.String()
	return nil
}

// record changes the objects and hooks of a record before it is created.
func (t *target) record(record *releasev1.Release) error {
	if t.chart != nil {
		record.Chart = t.chart
	}
	if t.marks == nil {
		return nil
	}
	if err := t.set(record.Manifest); err != nil {
		return err
	}
	record.Manifest = t.marked
	if len(record.Hooks) == 0 {
		return nil
	}
	hooks := make([]document, 0, len(record.Hooks))
	for _, hook := range record.Hooks {
		hooks = append(hooks, document{File: hook.Path, Text: hook.Manifest})
	}
	// The chart may define the kinds of its hooks.
	texts, err := t.marks.apply(append(hooks, t.crds...))
	if err != nil {
		return err
	}
	for at := range record.Hooks {
		record.Hooks[at].Manifest = texts[at]
	}
	return nil
}

// split divides a manifest into documents. Helm writes a comment with the template before each.
func split(manifest string) []document {
	var documents []document
	for _, text := range separate(manifest) {
		file := unknown
		if source, isSource := strings.CutPrefix(text, "# Source: "); isSource {
			file, text, _ = strings.Cut(source, "\n")
			file = strings.TrimSpace(file)
		}
		if strings.TrimSpace(text) != "" {
			documents = append(documents, document{File: file, Text: text})
		}
	}
	return documents
}

// separate divides a text at its separators, as Kubernetes does: what comes before one ends with a line break, which may belong to a value.
func separate(text string) []string {
	var all []string
	start, end := 0, 0
	for line := range strings.Lines(text) {
		next := end + len(line)
		if strings.HasPrefix(line, "---") {
			all = append(all, text[start:end])
			start = next
		}
		end = next
	}
	return append(all, text[start:])
}

// apply runs the program, which returns a text for each document.
func (m *Marks) apply(documents []document) ([]string, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	input, err := json.Marshal(map[string]any{"step": m.Step, "documents": documents})
	if err != nil {
		return nil, err
	}
	command := exec.Command(m.Program, m.Arguments...)
	command.Stdin = bytes.NewReader(input)
	var output, failure bytes.Buffer
	command.Stdout, command.Stderr = &output, &failure
	if err := command.Run(); err != nil {
		if wasAborted(err) {
			return nil, &refusedError{text: "the objects need too much memory", reason: "OutOfMemory"}
		}
		if text := strings.TrimSpace(failure.String()); text != "" {
			return nil, &refusedError{text: text, reason: "ObjectsRefused"}
		}
		return nil, fmt.Errorf("cannot mark the objects: %w", err)
	}
	var texts []string
	if err := json.Unmarshal(output.Bytes(), &texts); err != nil {
		return nil, fmt.Errorf("cannot read the marked objects: %w", err)
	}
	if len(texts) != len(documents) {
		return nil, fmt.Errorf("%d of %d documents were marked", len(texts), len(documents))
	}
	return texts, nil
}

// wasAborted is whether a program got no more memory.
func wasAborted(err error) bool {
	exit, isExit := err.(*exec.ExitError)
	if !isExit {
		return false
	}
	status, isStatus := exit.Sys().(syscall.WaitStatus)
	return isStatus && status.Signaled() && status.Signal() == syscall.SIGABRT
}
