package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// How many random inputs each table gets beside the picked ones: many enough to meet every pair of grammar rules,
// few enough to keep the tables readable in a review.
const (
	randomVersions    = 3000
	randomConstraints = 6000
	checkedRandom     = 200
	comparedPairs     = 2500
)

func semverTables() []table {
	return []table{
		{"parse.tsv", parseLines()},
		{"constraint.tsv", constraintLines()},
		{"check.tsv", checkLines()},
		{"compare.tsv", compareLines()},
	}
}

// parseLines: input, NewVersion as its String() or "!class", StrictNewVersion as "ok" or "!".
func parseLines() []string {
	r := newRandom(1)
	inputs := append([]string{}, pickedVersions()...)
	for range randomVersions {
		inputs = append(inputs, r.versionText())
	}
	var lines []string
	for _, input := range distinct(inputs) {
		strict := "ok"
		if _, err := semver.StrictNewVersion(input); err != nil {
			strict = "!"
		}
		lines = append(lines, row(quote(input), looseAnswer(input), strict))
	}
	return lines
}

func looseAnswer(input string) string {
	version, err := semver.NewVersion(input)
	switch {
	case err == nil:
		return version.String()
	case errors.Is(err, semver.ErrVersionTooLong):
		return "!long"
	case errors.Is(err, semver.ErrInvalidSemVer):
		return "!invalid"
	case errors.Is(err, semver.ErrSegmentStartsZero):
		return "!zero"
	case strings.HasPrefix(err.Error(), "error parsing version segment"):
		return "!range"
	default:
		panic(fmt.Sprintf("%q: a class of error not met before: %v", input, err))
	}
}

// constraintLines: input, "ok" and String(), or the class of the error and, for "improper", the segment as it is quoted.
func constraintLines() []string {
	r := newRandom(2)
	inputs := append([]string{}, pickedConstraints()...)
	for range randomConstraints {
		inputs = append(inputs, r.constraintText())
	}
	var lines []string
	for _, input := range distinct(inputs) {
		lines = append(lines, quote(input)+"\t"+constraintAnswer(input))
	}
	return lines
}

func constraintAnswer(input string) string {
	const improper = "improper constraint: "
	constraint, err := semver.NewConstraint(input)
	switch {
	case err == nil:
		return row("ok", constraint.String())
	case errors.Is(err, semver.ErrConstraintTooLong):
		return row("long", "")
	case errors.Is(err, semver.ErrTooManyConstraintGroups):
		return row("groups", "")
	case strings.HasPrefix(err.Error(), improper):
		return row("improper", strings.TrimPrefix(err.Error(), improper))
	case err.Error() == "constraint parser error":
		return row("parser", "")
	default:
		panic(fmt.Sprintf("%q: a class of error not met before: %v", input, err))
	}
}

// checkLines: the versions on the first line, then each constraint with a bit for each version, the lowest bit first.
func checkLines() []string {
	pool := checkedVersions()
	if len(pool) > 64 {
		panic("the bitmap has 64 bits")
	}
	var versions []*semver.Version
	for _, text := range pool {
		versions = append(versions, semver.MustParse(text))
	}
	lines := []string{strings.Join(pool, " ")}
	for _, text := range checkedConstraints() {
		constraint, err := semver.NewConstraint(text)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", text, err))
		}
		var bits uint64
		for i, version := range versions {
			if constraint.Check(version) {
				bits |= 1 << i
			}
		}
		lines = append(lines, row(quote(text), fmt.Sprintf("%016x", bits)))
	}
	return lines
}

// checkedConstraints are valid ones: the picked, every operator before every shape of version, and random ones.
func checkedConstraints() []string {
	var texts []string
	for _, text := range pickedConstraints() {
		if _, err := semver.NewConstraint(text); err == nil && len(text) < 80 {
			texts = append(texts, text)
		}
	}
	for _, operator := range operators {
		for _, shape := range versionShapes {
			texts = append(texts, operator+shape)
		}
	}
	r := newRandom(3)
	for made := 0; made < checkedRandom; {
		text := r.checkable()
		if _, err := semver.NewConstraint(text); err == nil {
			texts = append(texts, text)
			made++
		}
	}
	return distinct(texts)
}

// compareLines: two versions and Compare of the first with the second.
func compareLines() []string {
	r := newRandom(4)
	var pairs [][2]string
	for _, picked := range [][]string{comparedVersions(), longVersions()} {
		for _, a := range picked {
			for _, b := range picked {
				pairs = append(pairs, [2]string{a, b})
			}
		}
	}
	for range comparedPairs {
		a := r.comparable()
		pairs = append(pairs, [2]string{a, r.nearby(a)})
	}
	var lines []string
	for _, pair := range pairs {
		a, errA := semver.NewVersion(pair[0])
		b, errB := semver.NewVersion(pair[1])
		if errA != nil || errB != nil {
			continue // A change made in passing may spoil a version: parse.tsv is the place for those.
		}
		lines = append(lines, row(pair[0], pair[1], fmt.Sprint(a.Compare(b))))
	}
	return distinct(lines)
}

// distinct keeps the first of equal texts, in order.
func distinct(texts []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			kept = append(kept, text)
		}
	}
	return kept
}
