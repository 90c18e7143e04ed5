package main

import "strings"

// Few numbers, so that requests hit and miss about as often.
var (
	listedNumbers = []string{"0", "0", "1", "1", "1", "2", "2", "3", "10"}
	listedPre     = []string{"", "", "", "", "-0", "-1", "-alpha", "-alpha.1", "-beta.2", "-rc.1", "-rc.10", "-rc.9"}
	listedBuild   = []string{"", "", "", "", "", "+a", "+b", "+b.1"}
	oddlyListed   = []string{"latest", "nonsense", "", "1.2.3.4", "1.2.3-01", "1.x", "*", "V1.2.3", "1..2", "x", "18446744073709551616.0.0",
		"1.0.0-", "1.0.0 ", "vv1", "01.2.3", "1.02", "^1"}
	oddlyTagged = []string{"latest", "main", "1.2.3.4", "1.2.3-01", "1.x", "V1.2.3", "1..2", "18446744073709551616.0.0", "1.0.0-", "1.0.0_",
		"01.2.3", "1.02", "1.0.0_a_b", "_1.0.0", "sha256-0a1b.sig"}
)

// listedVersion is a version as an index lists it.
func (r *random) listedVersion() string {
	if r.oneIn(14) {
		return r.pick(oddlyListed)
	}
	prefix := r.rarely(9, []string{""}, []string{"v"})
	count := 3
	if r.oneIn(7) {
		count = 1 + r.below(2)
	}
	numbers := make([]string, count)
	for i := range numbers {
		numbers[i] = r.pick(listedNumbers)
	}
	return prefix + strings.Join(numbers, ".") + r.pick(listedPre) + r.pick(listedBuild)
}

// listedTag is one as a registry lists it, which cannot have a "+".
func (r *random) listedTag() string {
	if r.oneIn(14) {
		return r.pick(oddlyTagged)
	}
	for {
		if version := r.listedVersion(); version != "" && !strings.ContainsAny(version, " *^") {
			return strings.ReplaceAll(version, "+", "_")
		}
	}
}

// versionList is short mostly: now and then empty, longer than what Go sorts by insertion, or of pre-releases alone.
func (r *random) versionList(one func() string) []string {
	length := 1 + r.below(8)
	switch r.below(30) {
	case 0:
		length = 0
	case 1:
		length = 13 + r.below(12)
	}
	onlyPre := r.oneIn(12)
	versions := make([]string, 0, length)
	for len(versions) < length {
		version := one()
		if len(versions) > 0 && r.oneIn(8) {
			version = r.equivalent(r.pick(versions))
		}
		if !onlyPre || strings.Contains(version, "-") {
			versions = append(versions, version)
		}
	}
	return versions
}

// equivalent is equal in precedence: the same again, or with other build metadata, or with another prefix.
func (r *random) equivalent(version string) string {
	at := strings.IndexAny(version, "+_")
	switch {
	case r.oneIn(4):
		return version
	case r.oneIn(4):
		return "v" + strings.TrimPrefix(version, "v")
	case at < 0:
		return version
	default:
		return version[:at+1] + r.pick([]string{"a", "b", "c"})
	}
}

// request is for one of the versions, for something near one, or for whatever constraint.
func (r *random) request(versions []string) string {
	one := r.listedVersion()
	if len(versions) > 0 {
		one = r.pick(versions)
	}
	switch r.below(10) {
	case 0:
		return r.rarely(3, []string{""}, []string{"*", ">=0.0.0-0", "x"})
	case 1:
		return one
	case 2:
		return strings.ReplaceAll(one, "_", "+")
	case 3:
		return r.other(one)
	case 4, 5:
		return r.pick(operators) + r.other(one)
	case 6:
		if r.oneIn(3) {
			return r.constraintText()
		}
	}
	return r.checkable()
}

// other writes a version in another way, or another of the same line.
func (r *random) other(version string) string {
	release, _, _ := strings.Cut(version, "+")
	switch r.below(6) {
	case 0:
		return "v" + version
	case 1:
		return strings.TrimPrefix(version, "v")
	case 2:
		return release + "+other"
	case 3:
		return release
	case 4:
		numbers, _, _ := strings.Cut(release, "-")
		return numbers + r.rarely(2, []string{""}, []string{"-0", "-rc.2"})
	default:
		line, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		return line + r.rarely(2, []string{""}, []string{".x", ".1", "-0"})
	}
}
