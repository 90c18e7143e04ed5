package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// How often a list is shuffled to see whether its order decides: often enough to meet nearly all orders of four.
const shuffles = 48

// question is a row of a table of choices: which of these versions does a request select?
type question struct {
	versions []string
	request  string
}

// answer is a version or an error. The version may be empty: an index can list that.
type answer struct {
	version string
	err     string
}

func chosen(version string) answer { return answer{version: version} }

func refused(err error) answer { return answer{err: err.Error()} }

// json gives a text for a version, an object for an error.
func (a answer) json() string {
	if a.err != "" {
		return encode(map[string]string{"error": a.err})
	}
	return encode(a.version)
}

// answers are those to all orders of the list that were tried, the given one first. Helm's sort is not stable: where
// versions are equal, the order may decide; where some cannot be read, it even sorts others wrongly now and then.
func (r *random) answers(q question, choose func([]string, string) answer) []answer {
	versions := slices.Clone(q.versions)
	found := []answer{choose(versions, q.request)}
	for range shuffles {
		for i := len(versions) - 1; i > 0; i-- {
			j := r.below(i + 1)
			versions[i], versions[j] = versions[j], versions[i]
		}
		if a := choose(versions, q.request); !slices.Contains(found, a) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b answer) int { return cmp.Compare(a.json(), b.json()) })
	return found
}

// column is one answer, or the list of all that the order of the versions decides between.
func column(answers []answer) string {
	var texts []string
	for _, a := range answers {
		texts = append(texts, a.json())
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// choices writes a table: a comment, then a row for each question that is new.
func choices(name, what string, questions []question, answer func(question) (columns []string, ordered bool)) table {
	var rows []string
	seen := map[string]bool{}
	ordered := 0
	for _, q := range questions {
		key := row(encode(q.versions), encode(q.request))
		if seen[key] {
			continue
		}
		seen[key] = true
		columns, byOrder := answer(q)
		if byOrder {
			ordered++
		}
		rows = append(rows, row(append([]string{key}, columns...)...))
	}
	comment := fmt.Sprintf("# %s. %d rows; in %d of them the order of the list decides, and all choices are listed.",
		what, len(rows), ordered)
	return table{name, append([]string{comment}, rows...)}
}

// encode gives JSON on one line, an empty list for a nil one.
func encode(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // Texts, and lists and maps of them, always encode.
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// release names a module with the version that is built in.
func release(module string) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		panic("built without modules")
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return module + " " + dependency.Version
		}
	}
	panic("not built with " + module)
}
