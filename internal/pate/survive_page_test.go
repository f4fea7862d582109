package pate

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The table of docs/vote-noise.md is what its formula gives for the sigmas that the page's commands print.
func TestThePageOfNoiseInVotes(t *testing.T) {
	page := string(testkit.Read(t, filepath.Join("..", "..", "docs", "vote-noise.md")))
	sigmas := map[string]float64{}
	for _, s := range regexp.MustCompile(`gnmax, sigma ([0-9.]+),`).FindAllStringSubmatch(page, -1) {
		sigma := testkit.Value(strconv.ParseFloat(s[1], 64))
		sigmas[fmt.Sprintf("%.2f", sigma)] = sigma
	}
	rows := regexp.MustCompile(`\| ([0-9,]+) \| ([0-9.]+) \| ([0-9,]+) to ([0-9,]+) \| ([0-9,]+) \| ([0-9.]+)% \|`).
		FindAllStringSubmatch(page, -1)
	if len(rows) != 9 || len(sigmas) != 3 { // the third is that of a run with a warm start, which has no rows
		t.Fatalf("%d rows and %d sigmas, want 9 and 3", len(rows), len(sigmas))
	}
	number := func(text string) int {
		return testkit.Value(strconv.Atoi(strings.ReplaceAll(text, ",", "")))
	}
	for _, r := range rows {
		most, least, d := number(r[3]), number(r[4]), number(r[5])
		sigma, known := sigmas[r[2]]
		if !known || most+least != number(r[1]) || most-least != d {
			t.Errorf("%s: the row contradicts itself or the plans", r[0])
		}
		want := fmt.Sprintf("%.1f", 100*normal.Tail(float64(d)/(math.Sqrt2*sigma)))
		if r[6] != want {
			t.Errorf("%s: want %s%%", r[0], want)
		}
	}
}
