package aggregator

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Laplace noise of this scale makes counts of six bytes on average, so that the
// size of the largest round depends on the noise and what is under it.
func wideNoise(s *conclavev1.RunSpec) {
	trains(histograms(planned(runspec.Votes, lnMax(math.Exp2(-34.7)), 0)))(s)
}

// The largest round with the widest noise is answered, whatever its noise, and
// is charged: an answer that is refused for its size, uncharged and with the
// size in the error, would tell of the votes for nothing.
func TestTheLargestReleaseIsCharged(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, wideNoise)
	c.node(t, hello(d, "north", "a", 8), votes(8, alternating))
	r := student.mustAsk(t, voteRound(spec.Name, 0, maxQueries))
	if n := len(r.GetVotes().GetHistogram()); n != 2*maxQueries {
		t.Errorf("a histogram of %d counts", n)
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 1 || entries[0].Queries != maxQueries {
		t.Errorf("the ledger has %d releases", len(entries))
	}
}

// What a release may take is found before the nodes are asked.
func TestRoundsWithoutRoomAreRefusedBeforeNodesAreAsked(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
		wideNoise(s)
		// Fields that nobody knows are kept: a spec of this size leaves no room.
		s.Pipeline = strings.Repeat("p", 200<<10)
	})
	node := c.node(t, hello(d, "north", "a", 8), votes(8, alternating))
	for range 2 {
		_, err := student.ask(testkit.Within(t), voteRound(spec.Name, 0, maxQueries), nil)
		wantStatus(t, err, codes.InvalidArgument, "round 0", "fewer queries")
	}
	if len(node.rounds) != 0 {
		t.Errorf("the node saw %d rounds", len(node.rounds))
	}
	student.mustAsk(t, voteRound(spec.Name, 0, maxQueries/4))
}

// The bound holds for the longest name and the largest numbers, and is not far
// above: a bound that refused useful rounds would be of no use.
func TestNoReleaseIsLargerThanItsBound(t *testing.T) {
	for _, shape := range []struct{ queries, classes int }{{maxQueries, 2}, {maxHistogram / 256, 256}, {maxHistogram / 65, 65}, {1, 2}} {
		for _, whole := range []bool{true, false} {
			q := &voteQuestion{asked: shape.queries, classes: shape.classes, whole: whole}
			out := &conclavev1.NoisyVotes{Classes: uint32(shape.classes)}
			for range shape.queries {
				out.Labels = append(out.Labels, int32(shape.classes-1))
				for range shape.classes {
					if whole {
						out.Histogram = append(out.Histogram, clampNoisyVotes(math.MinInt64))
					}
				}
			}
			r := largestRelease()
			r.Answer = &conclavev1.Release_Votes{Votes: out}
			checkSize(t, q, r)
		}
	}
	for _, classes := range []int{1, maxClasses} {
		out := &conclavev1.NoisySum{Scale: maxSumScale}
		for range classes {
			out.Values = append(out.Values, math.MinInt64)
		}
		r := largestRelease()
		r.Answer = &conclavev1.Release_Sum{Sum: out}
		checkSize(t, &classCounts{classes: classes}, r)
	}
}

func largestRelease() *conclavev1.Release {
	return &conclavev1.Release{
		Run: strings.Repeat("r", 128), Round: math.MaxUint64, Teachers: math.MaxUint32, QuestionSha256: make([]byte, 32),
	}
}

func checkSize(t *testing.T, q question, r *conclavev1.Release) {
	t.Helper()
	raw, err := marshalStable(r)
	testkit.Must(t, err)
	if bound := q.largest(); len(raw) > bound || bound > len(raw)+releaseFrame || bound > coordinator.MaxRelease {
		t.Errorf("%+v: %d bytes, bound %d, storable %d", q, len(raw), bound, coordinator.MaxRelease)
	}
}

func TestClampNoisyVotes(t *testing.T) {
	for in, want := range map[int64]int64{
		0: 0, -5: -5, 1 << 40: 1 << 40, maxNoisyVotes: maxNoisyVotes, maxNoisyVotes + 1: maxNoisyVotes,
		math.MinInt64: -maxNoisyVotes, math.MaxInt64: maxNoisyVotes,
	} {
		if got := clampNoisyVotes(in); got != want {
			t.Errorf("%d becomes %d, want %d", in, got, want)
		}
	}
}

// Noise that cannot be drawn is found when the run is opened or the question is
// asked, not when the nodes have answered.
func TestNoiseThatCannotBeDrawnIsRefusedAtOnce(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	open := func(change func(*conclavev1.RunSpec)) error {
		spec := goodSpec()
		spec.Name, spec.Dataset = "refused", d
		change(spec)
		_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		return err
	}
	wantStatus(t, open(shares(1e-12)), codes.InvalidArgument, "plan, entry 1", "epsilon 1e-12 of class-counts", "raise it")
	wantStatus(t, open(trains(planned(runspec.Votes, lnMax(1e-13), 0))), codes.InvalidArgument, "plan, entry 0", "lambda")
	wantStatus(t, open(trains(planned(runspec.Votes, gnMax(1e12), 0))), codes.InvalidArgument, "plan, entry 0", "sigma")

	spec, _ := student.open(t, d, shares(2e-7))
	node := c.node(t, hello(d, "north", "a", 8), silent)
	_, err := student.ask(testkit.Within(t), countRound(spec.Name, 0, 2, 1<<16), nil)
	wantStatus(t, err, codes.InvalidArgument, "at scale 65536", "lower the scale", "larger epsilon")
	if len(node.rounds) != 0 || len(student.ledger(t, spec.Name)) != 0 {
		t.Errorf("the node saw %d rounds, %d releases were charged", len(node.rounds), len(student.ledger(t, spec.Name)))
	}
}
