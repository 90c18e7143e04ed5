package main

import "strings"

// How many random documents a table has.
const randomDocumentCount = 600

// Parts of documents: what starts a line, what is a key, what is a value, and what ends a line.
var (
	yamlIndents = []string{"", "", "", "  ", "  ", "    ", "- ", "  - ", " ", "- - ", "? ", ": ", "\t"}
	yamlKeys    = []string{"a", "b", "c", "a", "\"b\"", "'c'", "<<", "!!merge <<", "\"<<\"", "*x", "*y ", "&x a", "yes", "1", "~", "=", "!!str d",
		"? e", "[a]", "{a: b}", "long key", "-f", "a:b", "é", ""}
	yamlValues = []string{"", "1", "x", "yes", "~", "'q'", "\"d\\n\"", "[1, 2]", "{b: 1}", "{b: , c}", "*x", "*y", "&x 1", "&y {b: 2}", "&x [3]", "|", ">", "|-",
		">+", "|2", "[*x, *y]", "[{<<: *y}]", "!!str 2", "!!int '3'", "!foo z", "x y", "x: y", "- z", "\"open", "'open", "[open", "# c", "x # c",
		"010", "0o7", "1:30", "2026-01-02", "=", "<<", "-", "\"two\\", "{*x : 1}", "!!binary aGk=", "'it''s'", "a\u2028b", "\"a\u0085b\"", "@", "%", "\ufeffx"}
	yamlEnds = []string{"\n", "\n", "\n", "\n", "\n", "\n", "\r\n", "\n\n", " \n", "\t\n", " # c\n", "\u2028", "\n---\n", "\n...\n", "", "\r"}
	// Single characters, for texts without any structure.
	yamlNoise = []string{"a", "b", "1", " ", " ", "  ", "\n", "\n", "\n  ", "\n    ", ":", ": ", "- ", "-", "? ", "?", ",", ", ", "[", "]", "{", "}", "&x", "*x", "&x ",
		"*x ", "!!str ", "!", "'", "\"", "|", ">", "#", " #", "\t", "<<", "<<: ", "~", "---", "...", "%", "\\", "\u0085", "\u2028", "é", "\r\n", ".", "0", "_", "="}
)

// randomDocuments are made of lines with a key and a value mostly, and of noise.
func randomDocuments() []string {
	r := newRandom(20260102)
	documents := make([]string, randomDocumentCount)
	for i := range documents {
		if r.oneIn(3) {
			documents[i] = r.joined(yamlNoise, 1+r.below(12))
		} else {
			documents[i] = r.lines()
		}
	}
	return documents
}

func (r *random) joined(parts []string, count int) string {
	var out strings.Builder
	for range count {
		out.WriteString(r.pick(parts))
	}
	return out.String()
}

func (r *random) lines() string {
	var out strings.Builder
	// Half of all documents know the anchors that the aliases need.
	if r.oneIn(2) {
		out.WriteString("x: &x one\ny: &y {two: 2}\n")
	}
	for range 1 + r.below(5) {
		out.WriteString(r.rarely(3, yamlIndents[:4], yamlIndents))
		if !r.oneIn(6) {
			out.WriteString(r.rarely(2, yamlKeys[:3], yamlKeys))
			out.WriteString(r.rarely(12, []string{": "}, []string{":", " : ", ":\t", ""}))
		}
		out.WriteString(r.pick(yamlValues))
		out.WriteString(r.rarely(4, yamlEnds[:1], yamlEnds))
	}
	return out.String()
}
