package main

import (
	"strings"
)

// random is SplitMix64: a few lines that give the same stream under every Go release.
type random struct{ state uint64 }

func newRandom(seed uint64) *random { return &random{state: seed} }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

func (r *random) oneIn(n int) bool { return r.below(n) == 0 }

func (r *random) pick(from []string) string { return from[r.below(len(from))] }

// Choices that are written twice come twice as often.
var (
	digits      = []string{"0", "0", "1", "1", "2", "3", "10", "99", "4294967296"}
	oddDigits   = []string{"00", "01", "007", "18446744073709551615", "18446744073709551616", "99999999999999999999", ""}
	wildcards   = []string{"x", "X", "*"}
	oddWild     = []string{"xx", "1x", "x1", "**", "1|2", "|", "1|", "|2", "*1"}
	identifiers = []string{"0", "1", "2", "10", "a", "b", "alpha", "beta", "rc", "A", "-", "--1", "0a", "a0", "x"}
	oddIdents   = []string{"01", "00", "", "a_b", "é", "18446744073709551615", "18446744073709551616", "99999999999999999999999"}
	operators   = []string{"", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"}
	oddOps      = []string{"==", "!", "<>", "> =", "~=", "^^", "~ >", "=!", "≥", "!>"}
	joiners     = []string{" ", " ", "  ", ",", ", ", " , ", " ,", "\t", "\n", ",\t "}
	oddJoiners  = []string{"", ",,", " and ", "&&", "\u00a0", "\v", ";", ", ,"}
	hyphens     = []string{" - ", " - ", "  -  ", "\t-\t", " -\n", "\r-\f"}
	oddHyphens  = []string{"-", " -", "- ", " - - ", " – ", "\u00a0-\u00a0", "\v-\v"}
	alternates  = []string{"||", "||", " || ", " ||", "|| "}
	oddAlternat = []string{"|", " | ", "|||", "||||", " or ", "|| ||"}
	blanks      = []string{"", "", "", "", " ", "  ", "\t"}
	oddBlanks   = []string{"\u00a0", "\v", ",", "\u0085", "\ufeff"}
	noise       = []string{"0", "1", "2", "x", "*", "v", "V", ".", "-", "+", "|", "||", " ", "\t", "\n", "\v", ",", "=", "!", ">",
		"<", "~", "^", "a", "_", "\u00a0", "é", "\x00", "\x7f", "\"", "\\", "😀", "\u200b", "e\u0301", " - ", "/"}
	tight = []string{"1", "2", "3", "v", "x", " ", " ", " ", "-", " - ", ".", "|", ",", "||", ">", "=", "\t"}
)

// rarely picks from odd once in n times, else from usual.
func (r *random) rarely(n int, usual, odd []string) string {
	if r.oneIn(n) {
		return r.pick(odd)
	}
	return r.pick(usual)
}

func (r *random) suffix(mark string, odds int) string {
	if !r.oneIn(odds) {
		return ""
	}
	parts := []string{r.rarely(12, identifiers, oddIdents)}
	for r.oneIn(2) {
		parts = append(parts, r.rarely(12, identifiers, oddIdents))
	}
	return mark + strings.Join(parts, ".")
}

// numbers makes the dotted head of a version; wild says whether wildcards may stand in it.
func (r *random) numbers(wild bool) string {
	count := 1 + r.below(3)
	if r.oneIn(25) {
		count = 4
	}
	parts := make([]string, count)
	for i := range parts {
		switch {
		case wild && r.oneIn(5):
			parts[i] = r.rarely(6, wildcards, oddWild)
		default:
			parts[i] = r.rarely(25, digits, oddDigits)
		}
	}
	return strings.Join(parts, ".")
}

func (r *random) version(wild bool) string {
	prefix := ""
	if r.oneIn(8) {
		prefix = r.rarely(6, []string{"v"}, []string{"V", "vv", "v "})
	}
	return prefix + r.numbers(wild) + r.suffix("-", 4) + r.suffix("+", 8)
}

func (r *random) versionText() string {
	switch r.below(4) {
	case 0:
		return r.spoil(r.version(false))
	case 1:
		return r.jumble(noise, 8)
	default:
		return r.version(false)
	}
}

func (r *random) blank() string { return r.rarely(40, blanks, oddBlanks) }

func (r *random) member() string {
	if r.oneIn(4) {
		return r.version(true) + r.rarely(8, hyphens, oddHyphens) + r.version(true)
	}
	return r.rarely(20, operators, oddOps) + r.blank() + r.version(true)
}

func (r *random) group() string {
	text := r.member()
	for r.oneIn(2) {
		text += r.rarely(15, joiners, oddJoiners) + r.member()
	}
	return r.blank() + text + r.blank()
}

func (r *random) constraint() string {
	text := r.group()
	for r.oneIn(3) {
		text += r.rarely(10, alternates, oddAlternat) + r.group()
	}
	return text
}

func (r *random) constraintText() string {
	switch r.below(6) {
	case 0, 1:
		return r.spoil(r.constraint())
	case 2:
		return r.jumble(tight, 12)
	case 3:
		return r.jumble(noise, 10)
	default:
		return r.constraint()
	}
}

// spoil makes one to three small edits, the kind a hand makes by mistake.
func (r *random) spoil(text string) string {
	letters := strings.Split(text, "")
	for edits := 1 + r.below(3); edits > 0; edits-- {
		at := r.below(len(letters) + 1)
		switch kind := r.below(4); {
		case kind == 0 || at == len(letters):
			letters = append(letters[:at:at], append([]string{r.pick(noise)}, letters[at:]...)...)
		case kind == 1:
			letters = append(letters[:at:at], letters[at+1:]...)
		case kind == 2:
			letters = append(letters[:at+1:at+1], letters[at:]...)
		default:
			other := r.below(len(letters))
			letters[at], letters[other] = letters[other], letters[at]
		}
	}
	return strings.Join(letters, "")
}

func (r *random) jumble(from []string, most int) string {
	var text strings.Builder
	for length := 1 + r.below(most); length > 0; length-- {
		text.WriteString(r.pick(from))
	}
	return text.String()
}

// checkable makes a constraint over small numbers, so that the versions it is checked with fall on both sides.
func (r *random) checkable() string {
	small := []string{"0", "0", "1", "1", "2", "3", "x", "*"}
	one := func() string {
		parts := make([]string, 1+r.below(3))
		for i := range parts {
			parts[i] = r.pick(small)
		}
		return strings.Join(parts, ".") + r.rarely(5, []string{""}, []string{"-0", "-alpha", "-beta.1", "-rc.2+b", "+b"})
	}
	member := func() string {
		if r.oneIn(6) {
			return one() + " - " + one()
		}
		return r.pick(operators) + one()
	}
	text := member()
	for r.oneIn(2) {
		text += ", " + member()
	}
	for r.oneIn(4) {
		text += " || " + member()
	}
	return text
}

var comparedParts = []string{"0", "1", "2", "9", "10", "a", "b", "A", "alpha", "beta", "-", "-1", "0a", "1a", "a1", "rc",
	"18446744073709551614", "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999",
	"100000000000000000000", "2147483648"}

// comparable makes a version with equal numbers more often than not, so that the pre-release decides.
func (r *random) comparable() string {
	head := r.rarely(3, []string{"1.2.3"}, []string{"1.2", "1", "v1.2.3", "1.2.4", "0.0.0", "1.10.0", "1.9.0", "18446744073709551615.0.0"})
	if r.oneIn(6) {
		return head
	}
	parts := []string{r.pick(comparedParts)}
	for r.below(3) > 0 {
		parts = append(parts, r.pick(comparedParts))
	}
	return head + "-" + strings.Join(parts, ".") + r.rarely(6, []string{""}, []string{"+b", "+b.1"})
}

// nearby is another version: a fresh one, or the given one with one pre-release part exchanged, added or dropped.
func (r *random) nearby(version string) string {
	head, pre, found := strings.Cut(version, "-")
	if !found || r.oneIn(3) {
		return r.comparable()
	}
	parts := strings.Split(pre, ".")
	switch at := r.below(len(parts)); r.below(3) {
	case 0:
		parts[at] = r.pick(comparedParts)
	case 1:
		parts = append(parts, r.pick(comparedParts))
	default:
		parts = parts[:at]
	}
	if len(parts) == 0 {
		return head
	}
	return head + "-" + strings.Join(parts, ".")
}
