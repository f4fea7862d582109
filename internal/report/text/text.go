// Package text formats figures and names for people: briefly, and in the same way everywhere in a report.
package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Figure writes a number with three significant digits, whole numbers in full.
func Figure(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e7 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if a := math.Abs(v); a >= 1000 && a < 1e7 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Percent writes a share; what is above zero never reads as zero.
func Percent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 0.1:
		return "< 0.1%"
	case p < 10 && p != math.Trunc(p):
		return fmt.Sprintf("%.1f%%", p)
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

// Shorten cuts a text in its middle to at most n characters: names that begin the same way often differ at the
// end.
func Shorten(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	tail := (n - 1) * 2 / 5
	return strings.TrimSpace(string(runes[:n-1-tail])) + "…" + strings.TrimSpace(string(runes[len(runes)-tail:]))
}

// Grouped writes a whole number with a comma between thousands.
func Grouped[N int | int64 | uint32 | uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Several counts things: "1 round", "17 rounds", "2 queries".
func Several[N int | int64 | uint32 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ends := strings.CutSuffix(thing, "y"); ends && !strings.HasSuffix(stem, "a") { // days
		return Grouped(n) + " " + stem + "ies"
	}
	return Grouped(n) + " " + thing + "s"
}

// Score writes a figure between 0 and 1.
func Score(v float64) string { return fmt.Sprintf("%.3f", v) }

// Correlation writes a figure between -1 and 1, with a minus sign of the width
// of a digit.
func Correlation(v float64) string {
	return strings.Replace(fmt.Sprintf("%+.2f", v), "-", "−", 1)
}

// Finite tells whether v is neither infinite nor NaN.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
