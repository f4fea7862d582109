package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// TestMain is also the program that a measurement under test starts.
func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// A small measurement with all its processes: every figure is there, and each side sent
// and took what it says.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts an aggregator")
	}
	dir := filepath.Join(shortDir(t), "work")
	p := plan{sizes: []size{{20, 3, 2}}, blocks: 2, block: 50 * time.Millisecond, warm: 1, audit: true, keep: dir}
	results, err := measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	if len(r.blocks) != 2 || len(r.bare) != 2 {
		t.Fatalf("%d and %d blocks", len(r.blocks), len(r.bare))
	}
	asked, err := proto.Marshal(voteRound("scale", 1))
	testkit.Must(t, err)
	for i, b := range append(r.blocks, r.bare...) {
		if b.rounds < 1 || b.seconds <= 0 {
			t.Errorf("block %d: %+v", i, b)
		}
		// TLS, HTTP/2 and gRPC add a small overhead.
		if down, up := b.down/20, b.up/20; down < float64(len(asked)) || down > 1.1*float64(len(asked))+300 ||
			up < float64(voteBytes(3)) || up > float64(voteBytes(3))+300 {
			t.Errorf("block %d: %.0f bytes down a connection where a round has %d, %.0f up where votes have %d", i,
				down, len(asked), up, voteBytes(3))
		}
	}
	for i, b := range r.blocks {
		if b.etcdRequests < 1 || b.etcd <= 0 {
			t.Errorf("block %d: %.1f requests to etcd took %v s", i, b.etcdRequests, b.etcd)
		}
	}
	if r.idle.rss < r.alone.rss/2 || r.idle.heap == 0 || r.fds < 20 {
		t.Errorf("alone %+v, idle %+v, %v files", r.alone, r.idle, r.fds)
	}
	text := markdown(p, results)
	if rows := strings.Count(text, "| 20 x 3, 2 students |"); rows != 2 || strings.Contains(text, "NaN") {
		t.Errorf("%d rows in:\n%s", rows, text)
	}
	lines := testkit.Read(t, filepath.Join(dir, "20x3x2", "audit.jsonl"))
	if got, want := strings.Count(string(lines), `"event":"release"`),
		2+int(r.blocks[0].rounds+r.blocks[1].rounds); got != want {
		t.Errorf("%d releases in the audit log, want %d", got, want)
	}
}

// shortDir is a folder whose path leaves room for that of etcd's socket.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "sc")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestSizes(t *testing.T) {
	got, err := parseSizes("1000x1, 100x100x4")
	if err != nil || len(got) != 2 || got[0] != (size{1000, 1, 1}) || got[1] != (size{100, 100, 4}) ||
		got[1].all() != 10_000 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "10", "x", "0x1", "1x0", "20001x1", "10x70000", "20000x100", "1x1x0", "1x1x1x1",
		"-1x1"} {
		if _, err := parseSizes(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for _, bad := range [][]string{{"--blocks", "1"}, {"--block", "0s"}, {"--warm", "0"}, {"--sizes", "1"}, {"more"}} {
		c := command()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(bad)
		if err := c.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// The line through points on a line is that line, and power laws have their exponents.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at0, slope := rapid.Float64Range(-5, 5).Draw(t, "at0"), rapid.Float64Range(-3, 3).Draw(t, "slope")
		n := rapid.IntRange(3, 10).Draw(t, "n")
		var x, straight, power []float64
		for i := range n {
			v := 100 * math.Pow(2, float64(i))
			x = append(x, v)
			straight, power = append(straight, at0+slope*v), append(power, math.Exp(at0)*math.Pow(v, slope))
		}
		l, p := leastSquares(x, straight), exponent(x, power)
		if math.Abs(l.slope-slope) > 1e-9 || math.Abs(l.at0-at0) > 1e-6 || l.slopeError > 1e-9 ||
			math.Abs(p.slope-slope) > 1e-9 {
			t.Fatalf("%+v and %+v of %v + %v x", l, p, at0, slope)
		}
	})
	// By hand: x = 1, 2, 3 and y = 1, 3, 2 give 1 + x/2 with residuals -1/2, 1, -1/2.
	l := leastSquares([]float64{1, 2, 3}, []float64{1, 3, 2})
	if math.Abs(l.at0-1) > 1e-12 || math.Abs(l.slope-0.5) > 1e-12 || math.Abs(l.slopeError-math.Sqrt(0.75)) > 1e-12 ||
		math.Abs(l.at0Error-math.Sqrt(1.5*(1./3+2))) > 1e-12 {
		t.Errorf("%+v", l)
	}
	if l := leastSquares([]float64{1, 2}, []float64{1, 2}); !math.IsNaN(l.slopeError) {
		t.Errorf("two points have no error: %+v", l)
	}
}

func TestGauges(t *testing.T) {
	g, err := readGauges(strings.NewReader("# HELP a b\na 1\nb{x=\"1 2\"} 2\nb{x=\"3\"} 3.5e+06\n"))
	if err != nil || g["a"] != 1 || g["b"] != 3500002 || g[`b{x="1 2"}`] != 2 || g[`b{x="3"}`] != 3.5e6 {
		t.Errorf("%v, %v", g, err)
	}
	if _, err := readGauges(strings.NewReader("a b\n")); err == nil {
		t.Error("a value that is no number was taken")
	}
}

func TestFill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	beginMark, endMark := marks("measured")
	write(fmt.Sprintf("before\n%s\nold\n%s\nafter\n", beginMark, endMark))
	for _, text := range []string{"new\n", "newer\n"} {
		testkit.Must(t, fill(path, text))
		got, err := os.ReadFile(path)
		if want := fmt.Sprintf("before\n%s\n%s%s\nafter\n", beginMark, text, endMark); err != nil ||
			string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	write("no marks")
	if err := fill(path, "new"); err == nil {
		t.Error("a file without marks was taken")
	}
}
