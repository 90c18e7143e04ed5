package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
)

// strvalsLines: values, path, value, how it is read, and the values after that or the error.
func strvalsLines() []string {
	values := []string{
		`{}`, `{"a":1}`, `{"a":{"b":"x","l":[1,{"c":2},[3]]},"l":["x","y"]}`, `{"a":null,"l":null}`, `{"a":{},"l":[]}`,
	}
	paths := []string{
		"a", "a.b", "a.b.c", "a.l[0]", "a.l[1].c", "a.l[1].d", "a.l[2][0]", "a.l[2][1].x", "a.l[4]", "l[0]", "l[2]", "l[1].x.y", "l[0][0]",
		"n", "n.m.o", "n[2]", "n[0].m", "n[1][1]", `a\.b`, `n.kubernetes\.io/os`, "a..b", ".a", "a.", "n[", "n[x]", "n[-1]", "n[]", "n[65537]", "n[0]x",
		"[0]", "a-b_c/d", "n[01]", "n[+1]", "n[ 1]",
	}
	texts := []string{
		"", "x", "1", "0", "-1", "+1", "-0", "01", "007", "1.5", "1e3", "true", "TRUE", "False", "null", "NULL", "yes", "9223372036854775807",
		"9223372036854775808", "a,b", "a,b=c", `a\,b`, "a,b.c=d,e=1", "{a,b}", "{}", "{1,true,x y}", "{a", "{a},b=c", "{a}x=y", `a\`, `\{a}`, "a=b", "a b",
		"line\nbreak", "\"1\"", "ä", ",", "a,", "{,}", "[1]", `{"a":1}`,
	}
	var lines []string
	for _, before := range values {
		for _, path := range paths {
			for _, text := range []string{"", "x", "a,b=c", "{a,b}"} {
				lines = append(lines, strvalsLine(before, path, text, "typed"))
			}
			lines = append(lines, strvalsLine(before, path, "{a,b},c=1", "text"), strvalsLine(before, path, `a\,b={c}[0].d`, "verbatim"))
		}
	}
	for _, text := range texts {
		for _, path := range []string{"a", "a.l[1].c", "n[0].m"} {
			lines = append(lines, strvalsLine(values[2], path, text, "typed"), strvalsLine("{}", path, text, "text"), strvalsLine("{}", path, text, "verbatim"))
		}
	}
	random := rand.New(rand.NewPCG(7, 11))
	letters := []rune(`ab.[0]1=,{}\x`)
	for range 2000 {
		part := func(length int) string {
			var text []rune
			for range random.IntN(length) {
				text = append(text, letters[random.IntN(len(letters))])
			}
			return string(text)
		}
		lines = append(lines, strvalsLine(values[random.IntN(len(values))], part(8), part(8), []string{"typed", "text"}[random.IntN(2)]))
	}
	return distinct(lines)
}

func strvalsLine(before, path, text, kind string) string {
	var values map[string]any
	if err := json.Unmarshal([]byte(before), &values); err != nil {
		panic(err)
	}
	parse, assigned := strvals.ParseInto, text
	switch kind {
	case "text":
		parse = strvals.ParseIntoString
	case "verbatim":
		parse, assigned = strvals.ParseIntoString, escaped.Replace(text)
	}
	columns := []string{before, quote(path), quote(text), kind}
	if err := parse(path+"="+assigned, values); err != nil {
		return row(append(columns, "!", quote(err.Error()))...)
	}
	after, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return row(append(columns, "ok", string(after))...)
}

// escaped is a value of which no character has a meaning.
var escaped = strings.NewReplacer(`\`, `\\`, ",", `\,`, "{", `\{`, "}", `\}`)
