package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The formulas of docs/sizing.md give what README.md measured, and their examples are what they give.
func TestSizingIsWhatWasMeasured(t *testing.T) {
	formula := regexp.MustCompile(`(\d+) (MiB|ms) \+ C x (\d+) (KiB|µs) \| (\d+) \S+ \| (\d+) \S+ \| (\d+) `)
	pages := string(testkit.Read(t, filepath.Join("..", "..", "docs", "sizing.md")))
	found := formula.FindAllStringSubmatch(pages, -1)
	if len(found) != 3 {
		t.Fatalf("%d formulas, want those of idle memory, of memory in rounds and of processor time", len(found))
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		testkit.Must(t, err)
		return x
	}
	compared := 0
	for i, f := range found {
		of := func(connections float64) float64 {
			scale := 1024.
			if f[4] == "µs" {
				scale = 1000
			}
			return number(f[1]) + connections*number(f[3])/scale
		}
		for j, c := range []float64{100, 1000, 4000} {
			if want := math.Round(of(c)); number(f[5+j]) != want {
				t.Errorf("%s: %s for %v connections, want %v", f[0], f[5+j], c, want)
			}
		}
		for line := range strings.Lines(string(testkit.Read(t, "README.md"))) {
			cells := strings.Split(line, "|")
			// The first table has 13 cells with those outside, the second 12.
			column := map[int]int{0: 3, 1: 7, 2: 6}[i]
			if len(cells) != map[int]int{0: 12, 1: 12, 2: 13}[i] || !strings.Contains(cells[1], " x 1 ") {
				continue
			}
			var connections float64
			if _, err := fmt.Sscanf(cells[1], "%f x", &connections); err != nil {
				continue
			}
			compared++
			if measured := number(cells[column]); of(connections) < measured*0.9 || of(connections) > measured*1.3 {
				t.Errorf("%s: %.0f for %v connections, measured are %v", f[0], of(connections), connections, measured)
			}
		}
	}
	if compared != 15 {
		t.Errorf("%d figures compared, want 15", compared)
	}
}
