package attacks

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// A fit whose public numbers do not prove convergence is refused before a node is asked. An asked fit takes the same
// number of passes, and is released, whatever the sums are.
func TestFitsAreNoOracle(t *testing.T) {
	w := attacked(t)
	for name, sums := range map[string][]int64{
		"nobody": make([]int64, 6),
		"many":   {1 << 50, -1 << 50, 1 << 20, 1 << 55, 0, 1 << 55},
		"none":   {0, 0, 1, math.MaxInt32, math.MinInt32, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.scene(t, logistic())
			for what, change := range map[string]func(*conclavev1.Fit){
				"lambda 1e-12":   func(q *conclavev1.Fit) { q.Lambda = 1e-12 },
				"lambda 0":       func(q *conclavev1.Fit) { q.Lambda = 0 },
				"lambda NaN":     func(q *conclavev1.Fit) { q.Lambda = math.NaN() },
				"records 1e18":   func(q *conclavev1.Fit) { q.Records = 1e18 },
				"records below":  func(q *conclavev1.Fit) { q.Records = 1e-9 },
				"a clip of 1e99": func(q *conclavev1.Fit) { q.Features.Clip = 1e99 },
			} {
				r := s.q.round(s.spec.GetName(), 0)
				q := new(conclavev1.Fit)
				testkit.Must(t, proto.Unmarshal(r.GetParams(), q))
				change(q)
				r.Params = encoded(t, q)
				if _, err := ask(testkit.Within(t), s.student, r); status.Code(err) != codes.InvalidArgument {
					t.Errorf("%s: %v", what, err)
				}
			}
			if len(s.honest.rounds) != 0 {
				t.Error("a node was asked a fit that is refused")
			}
			passes := 0
			s.q.honest = func(a asked) *conclavev1.WorkRequest {
				passes++
				return sumOf(a, sums)
			}
			release := s.answer(t, s.ask(t, 0))
			want, err := ratio.NewWanted(ratio.Problem{
				Synthetic: []float64{1, 1, 1, 1, 1, 1, 1, 1}, Width: 2, Clip: 2, Lambda: 0.1, Records: 40,
			})
			testkit.Must(t, err)
			due, err := want.Problem.Passes()
			if err != nil || passes != due || len(release.GetSum().GetValues()) != 2 {
				t.Errorf("%d passes gave %v, want %d (%v)", passes, release.GetSum(), due, err)
			}
			w.healthy(t)
		})
	}
}

// No refusal reveals a range of a class count: a question that is too large is refused before nodes are asked, and
// everything else is released, however large the count.
func TestCountsAreNotFoundByBisection(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, classCounts())
	counts := func(number, bound uint64) *conclavev1.Round {
		return sumRound(s.spec.GetName(), number, paysCounts, "class-counts",
			&conclavev1.Vector{Entries: 2, Bound: bound, Norm: conclavev1.Vector_NORM_L1, Counts: true})
	}
	for _, bound := range []uint64{1 << 40, 1 << 53, math.MaxInt64, math.MaxUint64} {
		if _, err := ask(testkit.Within(t), s.student, counts(0, bound)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("bound %d: %v", bound, err)
		}
	}
	if len(s.honest.rounds) != 0 {
		t.Error("a node was asked counts that are refused")
	}
	for number, each := range []int64{0, 1, 1 << 43, 1<<43 - 1} { // of 2^24 units, with the largest scale
		s.q.round = func(string, uint64) *conclavev1.Round { return counts(uint64(number), 1<<20) }
		s.q.honest = same(each, each)
		s.answer(t, s.ask(t, uint64(number)))
	}
	w.healthy(t)
}

// A run.yaml that would take a parser gigabytes is refused at its submission, from every sender, before anything
// parses it, and nothing waits in the queue. Package config has more of them.
func TestBombsAreNotQueued(t *testing.T) {
	w := attacked(t)
	runs := rpc.NewRunServiceClient(w.dial(t, certs.RoleStudent, "eve"))
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		name, before := string(rune('1'+i)), "*a"+string(rune('0'+i))
		laughs += "a" + name + ": &a" + name + " [" + strings.Repeat(before+", ", 9) + "]\n"
	}
	spec := specOf(w.dataset(false))
	for name, c := range map[string]struct{ text, says string }{
		"aliases":        {laughs, "anchors"},
		"brackets":       {strings.Repeat("[", 60_000), "nested"},
		"two MiB":        {strings.Repeat("x", 2<<20), "2097152 bytes"},
		"nothing":        {"", "0 bytes"},
		"bytes, no text": {"a: \xff\xfe", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := testkit.Allocated(func() {
				_, err = runs.SubmitRun(testkit.Within(t), &conclavev1.SubmitRunRequest{
					Spec: spec, RunYaml: []byte(c.text), SchemaYaml: []byte("test"),
				})
			})
			text := status.Convert(err).Message()
			if status.Code(err) != codes.InvalidArgument || len(text) > 1000 || !strings.Contains(text, c.says) {
				t.Errorf("submitted: %.300v, want %q", err, c.says)
			}
			if took > 256<<20 {
				t.Errorf("%d bytes are allocated", took)
			}
		})
	}
	if _, err := runs.ShowRun(testkit.Within(t),
		&conclavev1.ShowRunRequest{Run: spec.GetName()}); status.Code(err) != codes.NotFound {
		t.Errorf("the run is %v", err)
	}
	_, err := runs.SubmitRun(testkit.Within(t), &conclavev1.SubmitRunRequest{
		Spec: spec, RunYaml: []byte("name: " + spec.GetName()), SchemaYaml: []byte("test"),
	})
	testkit.Must(t, err) // nothing else was wrong with it
	w.healthy(t)
}
