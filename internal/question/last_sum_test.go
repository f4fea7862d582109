package question_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A sum is drawn once for a question. If its file was damaged or dropped, and it is not in memory, it is drawn again;
// one that cannot be stored does not leave.
func TestOnce(t *testing.T) {
	table := questiontest.SmallUnits(t, partition.UnitRecord, 20, func(int) bool { return true })
	s := questiontest.Site(t, table, 2)
	path, drawn := filepath.Join(s.State, "run-r.sum"), int64(0)
	ask := func() (int64, error) {
		sum, err := s.Once(question.Round{Run: "r", Number: 3, Digest: func() string { return "abc" }},
			func() ([]int64, error) { drawn++; return []int64{-drawn, 5}, nil })
		if err == nil && (len(sum) != 2 || sum[1] != 5) {
			t.Fatalf("the sum is %v", sum)
		}
		return -slices.Min(append(sum, 0)), err
	}
	expect := func(what string, want int64) {
		t.Helper()
		if got, err := ask(); err != nil || got != want {
			t.Errorf("%s: drawing %d (%v), want %d", what, got, err, want)
		}
	}
	restart := func() { s = questiontest.SiteIn(t, table, 2, s.State) }
	expect("first", 1)
	expect("again", 1)
	restart()
	expect("after a start", 1)
	whole := testkit.Read(t, path)
	for i := range whole {
		for _, damaged := range [][]byte{whole[:i], slices.Concat(whole[:i], []byte{whole[i] ^ 1}, whole[i+1:])} {
			testkit.Must(t, os.WriteFile(path, damaged, 0o600))
			restart()
			expect("of a damaged file", drawn+1)
		}
	}
	testkit.Must(t, question.ForgetSums(s.State))
	restart()
	expect("forgotten", drawn+1)

	testkit.Must(t, question.ForgetSums(s.State))
	restart()
	away := s.State + "-away"
	testkit.Must(t, os.Rename(s.State, away))
	if _, err := ask(); !errors.Is(err, question.ErrState) {
		t.Errorf("a sum that cannot be kept: %v", err)
	}
	testkit.Must(t, os.Rename(away, s.State))
	expect("with a folder", drawn+1)
	expect("and again", drawn)
}

// When a run has ended, nothing of it is left, not even what a node that was killed had written half. Other runs stay.
func TestNothingOfAnEndedRunIsLeft(t *testing.T) {
	dir := t.TempDir()
	others := []string{".run-r2.safetensors-1", "partition.key", "run-r2.safetensors", "run-r2.sum"}
	for _, name := range append([]string{".run-r.safetensors-12", "run-r.passes", "run-r.safetensors", "run-r.sum"},
		others...) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for range 2 { // also of one without any
		testkit.Must(t, question.RemoveRun(dir, "r"))
		testkit.Same(t, "", others, testkit.Names(t, dir))
	}
}
