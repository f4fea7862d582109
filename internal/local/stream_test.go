package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Sites that stream add up to the same integers as one that has all rows in memory, for records and people.
// They do so also if they share a file, and their teachers vote.
func TestSitesThatStream(t *testing.T) {
	t.Parallel()
	who := func(i int) string { return fmt.Sprint("p", i*i%101%50) }
	for name, c := range map[string]struct {
		lines string
		who   func(i int) string
	}{
		"embed":             {embedding, nil},
		"embed over people": {embedding + "privacy: {epsilon: 2, delta: 1e-5, unit: who}\n", who},
		"marginals":         {"pipeline: marginals\nmarginals: {cells: 4, steps: 5}\n", nil},
		"pategan":           {votes, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sums [2][]int64
			for i, text := range []string{runOn("table.csv", c.lines, 1),
				strings.ReplaceAll(runOn("table.csv", c.lines, 0.4, 0.6), "share: ", "stream: true, share: ")} {
				spec, dir, out := begin(t, text)
				people(t, dir, c.who)
				_, err := Run(testkit.Within(t), spec, Options{Out: out, HoldOut: i == 1,
					Hooks: aggregator.Hooks{Sums: func(_ string, number uint64, counts []int64) {
						if number == 0 { // later questions follow from the releases
							sums[i] = slices.Clone(counts)
						}
					}}})
				testkit.Must(t, err)
				left, err := filepath.Glob(filepath.Join(out, "state", "node-*", ".*"))
				if err != nil || len(left) > 0 {
					t.Errorf("%v is left (%v)", left, err)
				}
			}
			if len(sums[0]) == 0 || !slices.Equal(sums[0], sums[1]) {
				t.Errorf("the sum is %v, and streamed %v", sums[0], sums[1])
			}
		})
	}
}

// A stage that a streaming site does not support is refused before anything is written or spent.
func TestStagesThatAStreamRefuses(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"post: [pgb]\n":            "site s0 would refuse the selections after the training",
		"weights: logreg-noised\n": "site s0 would refuse the fit after the training",
	} {
		text := strings.ReplaceAll(runOn("table.csv", votes+lines), "share: ", "stream: true, share: ")
		spec, dir, out := begin(t, text)
		people(t, dir, nil)
		_, err := Run(testkit.Within(t), spec, Options{Out: out})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%serror %v", lines, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%sthe output folder is there (%v)", lines, err)
		}
	}
}

// A file that the run says is sorted by its unit gives the same sum without a sort, and an unsorted one is refused.
func TestSortedFilesOfALocalRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		who  func(i int) string
		want string
	}{
		"sorted":   {func(i int) string { return fmt.Sprintf("p%03d", i/5) }, ""},
		"unsorted": {func(i int) string { return fmt.Sprintf("p%03d", (250-i)/5) }, "against sorted_by"},
	} {
		spec, dir, out := begin(t, strings.ReplaceAll(runOn("table.csv", embedding+
			"privacy: {epsilon: 2, delta: 1e-5, unit: who}\n"), "share: ", "stream: true, sorted_by: unit, share: "))
		people(t, dir, c.who)
		_, err := Run(testkit.Within(t), spec, Options{Out: out})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
