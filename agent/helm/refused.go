package main

import (
	"fmt"
	"regexp"
	"strings"
)

// valueFreeError is an error whose text has no values of objects. The groups of the pattern are names, such as those of fields.
type valueFreeError struct {
	pattern *regexp.Regexp
	text    string
}

func valueFree(pattern, text string) valueFreeError {
	return valueFreeError{pattern: regexp.MustCompile(pattern), text: text}
}

// Names in errors, as parts of patterns.
const (
	aPath      = `([\w./-]{1,300})`
	aName      = `([\w.-]{1,253})`
	anIdentity = `([\w.\[\]/-]{1,600})`
)

// valueFreeErrors are those of Kustomize and of the readers of YAML and patches. All others may print an object, a patch or a literal.
var valueFreeErrors = []valueFreeError{
	valueFree(`no resource matches strategic merge patch "`+anIdentity+`"`, `no resource matches strategic merge patch "$1"`),
	valueFree(`no matches for Id `+anIdentity+`; failed to find unique target for patch `+anIdentity, "failed to find unique target for patch $2"),
	valueFree(`may not add resource with an already registered id: `+anIdentity, "may not add resource with an already registered id: $1"),
	valueFree(`already registered id: `+anIdentity, "already registered id: $1"),
	valueFree(`invalid literal source `, "a literal of configMapGenerator or secretGenerator has no =; write key=value"),
	valueFree(`illegally qualifies as both`, "a patch is both a strategic merge patch and a JSON patch; write one of the two"),
	valueFree(`unknown field "`+aName+`"`, `unknown field "$1"`),
	valueFree(`into Go struct field `+aName+` of type`, "$1 has a value of another type"),
	valueFree(`does not contain declared merge key: (\w{1,63})$`, "an item of a list lacks $1, by which it is merged"),
	valueFree(`(add|remove|replace|move|copy|test) operation does not apply: doc is missing (?:path|key): "?(/[\w./~-]{0,300})`, "$1 operation does not apply: there is no $2"),
	valueFree(`nonexistent key:? "?([\w./~-]{1,253})`, "an operation of a patch is for the nonexistent key $1"),
	valueFree(`nonexistent key`, "an operation of a patch is for a nonexistent key"),
	valueFree(`testing value `+aPath+` failed`, "the test of $1 has failed"),
	valueFree(`file '`+aPath+`' is not in or below`, `"$1" is not in or below the folder of its kustomization`),
	valueFree(`(?s)[Mm]alformedYAMLError|[Mm]alformed YAML`, "a file is no YAML"),
	valueFree(`kustomization\.yaml is empty`, "kustomization.yaml is empty"),
	valueFree(`multiple kustomization files`, "a folder has several kustomizations"),
	valueFree(`^(\w{1,63}) `+aName+`: kind, name, namespace or annotations are not texts`, "$1 $2: kind, name, namespace or annotations are not texts"),
	valueFree(`cycle`, "the kustomizations name each other in a cycle"),
	valueFree(`yaml: line (\d{1,9})`, "no valid YAML, in line $1"),
	valueFree(`\bline (\d{1,9}): cannot unmarshal`, "line $1 is neither an object nor a list of operations"),
}

// fileInError is where an error of Kustomize is.
var fileInError = regexp.MustCompile(`(?:in File: |accumulating resources from '|trouble configuring builtin )` + aPath)

// withoutValues is what an error says that has no value of an object: the data of a Secret may be anywhere in others. `unknown` is for these.
func withoutValues(err error, unknown string) string {
	text := strings.TrimSpace(err.Error())
	cause := unknown
	for _, one := range valueFreeErrors {
		if found := one.pattern.FindStringSubmatchIndex(text); found != nil {
			cause = string(one.pattern.ExpandString(nil, one.text, text, found))
			break
		}
	}
	if file := fileInError.FindStringSubmatch(text); file != nil {
		return fmt.Sprintf("%s: %s", file[1], cause)
	}
	return cause
}

// refusedByKustomize is an error of Kustomize for a field.
func refusedByKustomize(field string, err error) error {
	cause := withoutValues(err, "Kustomize refuses it with an error that may contain data of Secrets; run kustomize build with the same files to see it")
	return &refusedError{text: field + ": " + cause, reason: "ObjectsRefused"}
}
