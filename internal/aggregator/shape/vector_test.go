package shape

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func answerOf(values ...int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}}
}

// Rounding and the number of contributors also add to the L2 norm of an honest sum.
func TestHonestSumsAreTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		teachers := rapid.IntRange(1, 30).Draw(t, "teachers")
		v := vector{
			bound:      rapid.Int64Range(1, spec.MaxBound).Draw(t, "bound"),
			entries:    rapid.IntRange(1, 20).Draw(t, "entries"),
			norm:       conclavev1.Vector_Norm(rapid.IntRange(1, 3).Draw(t, "norm")),
			perTeacher: rapid.Bool().Draw(t, "per teacher"), rate: 1,
		}
		sum := make([]int64, v.entries)
		alike := rapid.Bool().Draw(t, "alike")
		var one []float64
		for i := range teachers {
			if i == 0 || !alike {
				one = rapid.SliceOfN(rapid.Float64Range(-1, 1), v.entries, v.entries).Draw(t, "vector")
			}
			length := lengthOf(v.norm, one)
			for j, x := range one {
				if length > 0 {
					sum[j] += int64(x / length * float64(v.bound)) // towards zero
				}
			}
		}
		if got, err := v.Read(answerOf(sum...), uint32(teachers)); err != nil || !slices.Equal(got, sum) {
			t.Errorf("%d teachers, %+v: %v, %v", teachers, v, got, err)
		}
	})
}

// lengthOf is a norm, computed so that a square of 1e-161 does not underflow.
func lengthOf(norm conclavev1.Vector_Norm, values []float64) (length float64) {
	for _, x := range values {
		switch norm {
		case conclavev1.Vector_NORM_L1:
			length += math.Abs(x)
		case conclavev1.Vector_NORM_L2:
			length = math.Hypot(length, x)
		default:
			length = max(length, math.Abs(x))
		}
	}
	return length
}

// A sum that contributors cannot produce is refused. The error names the kind of problem, but no number.
func TestSumsOutOfRangeAreRejected(t *testing.T) {
	const l1, l2, each = conclavev1.Vector_NORM_L1, conclavev1.Vector_NORM_L2, conclavev1.Vector_NORM_EACH
	for name, c := range map[string]struct {
		norm     conclavev1.Vector_Norm
		teachers bool
		values   []int64
		want     fault.Kind
	}{
		"no entry":            {l2, true, nil, ""},
		"an entry less":       {l2, true, []int64{1}, ""},
		"an entry more":       {l2, true, []int64{1, 2, 3}, fault.Oversized},
		"a long entry":        {l2, true, []int64{31, 0}, fault.OutOfRange},
		"a low entry":         {each, true, []int64{0, -31}, fault.OutOfRange},
		"the lowest":          {each, false, []int64{math.MinInt64, 0}, fault.OutOfRange},
		"a long L2":           {l2, true, []int64{30, 1}, fault.OutOfRange},
		"a long L1":           {l1, true, []int64{16, -15}, fault.OutOfRange},
		"a long L1 of units":  {l1, false, []int64{10 * maxUnits, 10}, fault.OutOfRange},
		"a long unit":         {l1, false, []int64{10*maxUnits + 1, 0}, fault.OutOfRange},
		"all of each":         {each, true, []int64{30, -30}, "taken"},
		"all of L1":           {l1, true, []int64{-16, 14}, "taken"},
		"all of L2":           {l2, true, []int64{18, -24}, "taken"},
		"all of each of many": {each, false, []int64{10 * maxUnits, -10 * maxUnits}, "taken"},
	} {
		v := vector{entries: 2, bound: 10, norm: c.norm, perTeacher: c.teachers, rate: 1}
		_, err := v.Read(answerOf(c.values...), 3)
		if taken := c.want == "taken"; taken != (err == nil) || !taken && fault.KindOf(err, "") != c.want {
			t.Errorf("%s: %v (%q), want %q", name, err, fault.KindOf(err, ""), c.want)
		}
	}
	counts := vector{entries: 2, bound: 10, norm: l1, rate: 1, counts: true}
	if _, err := counts.Read(answerOf(-1, 5), 3); fault.KindOf(err, "") != fault.OutOfRange {
		t.Errorf("a count of -1: %v", err)
	}
	votes := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{Teachers: 3}}}
	if _, err := (&vector{entries: 2, bound: 10, norm: l2}).Read(votes, 3); err == nil ||
		!strings.Contains(err.Error(), "got votes, want a sum") {
		t.Errorf("votes: %v", err)
	}
}

// Noise is calibrated to what one unit changes: a whole teacher's vector.
func TestSensitivityOfSums(t *testing.T) {
	run := mustSpec(t, roundtest.SumsOf(1.5))
	for per, want := range map[conclavev1.Vector_Per]float64{
		conclavev1.Vector_PER_UNIT: 1.5 * (1 << 16), conclavev1.Vector_PER_TEACHER: 2 * 1.5 * (1 << 16),
	} {
		q := testkit.Value(parse(roundtest.GradientRound("r", 1, 1, func(v *conclavev1.Vector) { v.Per = per }), run))
		if got := q.(*Sum).Scale(); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%v: sigma is %v, want %v", per, got, want)
		}
	}
	counts := roundtest.CountRound("r", 1, 2, 1<<10)
	q := testkit.Value(parse(counts, mustSpec(t, roundtest.Shares(0.5))))
	if got := q.(*Sum).Scale(); got != 2048 {
		t.Errorf("class counts at epsilon 0.5 have noise of scale %v, want 2048", got)
	}
}

// Sums of zeros also get their full noise. The mean, the mean square and the mean product of neighbours of n standard
// normal numbers are 0, 1 and 0, with standard deviations of 1, sqrt(2) and 1 over sqrt(n). The nine figures exceed
// 6.5 of them with a chance of 8e-10.
func TestSumsOfNobodyHaveNoise(t *testing.T) {
	const entries, multiplier, bound = 20001, 1.5, 1 << 16
	for name, c := range map[string]struct {
		round *conclavev1.Round
		spec  func(*conclavev1.RunSpec)
		sigma float64
	}{
		"all": {roundtest.EmbeddingRound("r", 0, entries, nil), roundtest.EmbeddingOf(multiplier),
			bound * multiplier},
		"sample": {roundtest.DiscriminatorRound("r", 0, entries, nil), roundtest.SamplesOf(multiplier, 0.25, 3),
			bound * multiplier},
		"teachers": {roundtest.GradientRound("r", 0, entries/3, nil), roundtest.SumsOf(multiplier),
			2 * bound * multiplier},
	} {
		q := testkit.Value(parse(c.round, mustSpec(t, c.spec)))
		r := new(conclavev1.Release)
		_, err := q.Answer(gnmax.NewSource(), make([]int64, entries), r)
		testkit.Must(t, err)
		var mean, square, product float64
		values := r.GetSum().GetValues()
		for i, v := range values {
			x, next := float64(v)/c.sigma, float64(values[(i+1)%entries])/c.sigma
			mean, square, product = mean+x/entries, square+x*x/entries, product+x*next/entries
		}
		if limit := 6.5 / math.Sqrt(entries); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit ||
			math.Abs(product) > limit {
			t.Errorf("%s: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", name, mean, square, product,
				limit)
		}
	}
}

// No honest sum is refused, whatever the records: the largest number of units at each of many nodes, all of the
// largest length, with the finest allowed steps, and one unit less. Noise is drawn and released.
func TestNoSumOfHonestNodesIsRefused(t *testing.T) {
	const nodes = 64
	finest := func(v *conclavev1.Vector) { v.Bound = spec.MaxBound }
	for name, c := range map[string]struct {
		round *conclavev1.Round
		spec  func(*conclavev1.RunSpec)
	}{
		"class counts": {roundtest.CountRound("r", 1, 1, spec.MaxBound), roundtest.Shares(0.5)},
		"embedding": {roundtest.Sum(roundtest.EmbeddingRound("r", 1, 1, nil), roundtest.OfUnits(1), finest),
			roundtest.EmbeddingOf(2)},
		"gradients": {roundtest.GradientRound("r", 1, 1, finest), roundtest.SumsOf(1.5)},
		"scores": {roundtest.ScoreRound("r", 1, roundtest.Units(0, 0), func(r *conclavev1.Round) {
			r.GetSum().Bound = spec.MaxBound
		}), roundtest.SelectionsOf(1.5, 3)},
	} {
		q := testkit.Value(parse(c.round, mustSpec(t, c.spec)))
		for _, less := range []int64{0, spec.MaxBound} {
			for _, sign := range []int64{1, -1} {
				if name == "class counts" && sign < 0 {
					continue
				}
				each := sign * (maxUnits*spec.MaxBound - less)
				if name == "gradients" { // of teachers
					each = sign * (8*spec.MaxBound - less)
				}
				values := make([]int64, q.Length())
				values[0] = each
				if _, err := q.Read(answerOf(values...), 8); err != nil {
					t.Errorf("%s of %d: %v", name, each, err)
				}
				values[0] *= nodes
				if _, err := q.Answer(gnmax.NewSource(), values, &conclavev1.Release{Teachers: 8}); err != nil {
					t.Errorf("%s of %d nodes: %v", name, nodes, err)
				}
			}
		}
	}
	// The same holds for the largest sums that other nodes can cause: they saturate at this value.
	for name, c := range map[string]func(*conclavev1.RunSpec){
		"gaussian": roundtest.SumsOf(1.5), "scores": roundtest.SelectionsOf(1.5, 3),
	} {
		asked := roundtest.GradientRound("r", 1, 1, nil)
		if name == "scores" {
			asked = roundtest.ScoreRound("r", 1, roundtest.Units(1, 1), nil)
		}
		q := testkit.Value(parse(asked, mustSpec(t, c)))
		for _, v := range []int64{mostCount, -mostCount} {
			if _, err := q.Answer(gnmax.NewSource(), slices.Repeat([]int64{v}, q.Length()),
				&conclavev1.Release{Teachers: 8}); err != nil {
				t.Errorf("%s of %d: %v", name, v, err)
			}
		}
	}
}

// The bound on the size of a release holds for the largest numbers, and is reached.
func TestNoSumIsLargerThanItsBound(t *testing.T) {
	for _, entries := range []int{1, 1000, maxEntries} {
		for _, bound := range []uint64{1, spec.MinBound, 1 << 16, spec.MaxBound} {
			for per, teachers := range map[conclavev1.Vector_Per]uint32{
				conclavev1.Vector_PER_UNIT: 1, conclavev1.Vector_PER_TEACHER: 1 << 20,
			} {
				run := mustSpec(t, func(s *conclavev1.RunSpec) { roundtest.SumsOf(256)(s); s.Teachers = teachers })
				asked := roundtest.Sum(roundtest.GradientRound("r", 1, 1, nil), roundtest.OfUnits(entries),
					func(v *conclavev1.Vector) { v.Bound, v.Per = bound, per })
				s := testkit.Value(parse(asked, run)).(*Sum)
				for _, v := range []int64{s.limit, -s.limit} {
					r := largestRelease()
					r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Scale: bound,
						Values: slices.Repeat([]int64{v}, entries)}}
					checkSize(t, s, r)
				}
			}
		}
	}
	r := largestRelease()
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{
		Values: slices.Repeat([]int64{math.MinInt64}, roundtest.MaxFitWidth), Scale: 1 << 61,
	}}
	checkSize(t, &reduced{vector: &vector{entries: roundtest.MaxFitWidth}}, r)
	r.Answer = &conclavev1.Release_Selected{Selected: &conclavev1.Selected{Index: math.MaxUint32}}
	checkSize(t, &cachedSelection{selection: &selection{}}, r)
}

// FuzzSums decodes a question for a sum, a selection or a fit, and a node's answer, from the wire. No input may
// panic. An accepted question is charged by the run's noise and can be answered and stored, and an accepted answer is
// one that this many contributors can produce.
func FuzzSums(f *testing.F) {
	runs := []*spec.Spec{
		mustSpec(f, roundtest.SumsOf(1.5)), mustSpec(f, roundtest.SamplesOf(1.5, 0.25, 3)),
		mustSpec(f, roundtest.EmbeddingOf(2)), mustSpec(f, roundtest.SelectionsOf(1.5, 3)),
		mustSpec(f, roundtest.FitOf(roundtest.Gaussian(2))), mustSpec(f, roundtest.FitOf(roundtest.Laplace(2))),
		mustSpec(f, roundtest.GammaOf(2)),
	}
	raw := func(m proto.Message) []byte { return testkit.Value(proto.Marshal(m)) }
	rounds := []*conclavev1.Round{
		roundtest.GradientRound("r", 1, 1, nil), roundtest.DiscriminatorRound("r", 1, 2, nil),
		roundtest.EmbeddingRound("r", 1, 6, nil), roundtest.CountRound("r", 1, 2, 9),
		roundtest.ScoreRound("r", 1, roundtest.Units(0, 0), nil),
		roundtest.ScoreRound("r", 1, roundtest.Units(1, -1), func(r *conclavev1.Round) {
			r.Selection.Complements, r.Selection.Expected = true, roundtest.Units(1, -1, -1, 1)
			r.Selection.Records = maxFitted
		}),
		roundtest.SelectionRound("r", 1, roundtest.Units(0, 0), nil), roundtest.VoteRound("r", 1, 1),
		roundtest.FitRound("r", 1, question.L2, nil), roundtest.FitRound("r", 1, question.L1, nil),
		roundtest.FitRound("r", 1, question.L2, func(q *conclavev1.Fit) { q.Lambda = 1e-300 }),
	}
	for _, bad := range roundtest.BadVectors() {
		rounds = append(rounds, roundtest.EmbeddingRound("r", 1, 2, bad.Change))
	}
	for _, bad := range roundtest.BadFits() {
		rounds = append(rounds, roundtest.FitRound("r", 1, question.L2, bad.Change))
	}
	for i, r := range rounds {
		f.Add(raw(r), raw(answerOf(int64(3<<16), 0, int64(-i))), uint8(3))
		f.Add(raw(r), raw(answerOf(maxUnits<<16, -maxUnits<<16)), uint8(2))
	}
	f.Fuzz(func(t *testing.T, asked, answer []byte, teachers uint8) {
		r, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(asked, r) != nil || proto.Unmarshal(answer, reply) != nil || teachers == 0 {
			return
		}
		for _, run := range runs {
			if q, err := parse(r, run); err == nil {
				checkQuestion(t, q, r, run, reply, uint32(teachers))
			}
		}
	})
}

func checkQuestion(
	t *testing.T,
	q round.Question,
	r *conclavev1.Round,
	run *spec.Spec,
	answer *conclavev1.WorkRequest,
	teachers uint32,
) {
	t.Helper()
	if run.Plan[r.GetPlanned()].Kind != r.GetKind() || q.Length() < 1 || q.Length() > maxEntries ||
		q.Largest() > coordinator.MaxRelease {
		t.Fatalf("a question %+v for %d numbers, %d bytes", q, q.Length(), q.Largest())
	}
	counts, err := q.Read(answer, teachers)
	if _, reduces := q.(round.Reducer); reduces && err != nil {
		counts, err = make([]int64, q.Length()), nil
	}
	if err != nil {
		return
	}
	if len(counts) != q.Length() {
		t.Fatalf("%d counts of %d", len(counts), q.Length())
	}
	release := &conclavev1.Release{Teachers: teachers}
	answered, err := q.Answer(gnmax.NewSource(), counts, release)
	if err != nil || answered != q.Queries() {
		t.Fatalf("released %v for %d answers, %v", release, answered, err)
	}
	if s := release.GetSum(); s != nil && len(s.GetValues()) != q.Length() {
		t.Fatalf("released %d numbers of %d", len(s.GetValues()), q.Length())
	}
	if s, ok := q.(*Sum); ok && s.perTeacher {
		var lengths []float64
		for _, v := range counts {
			lengths = append(lengths, float64(v))
		}
		if got, most := lengthOf(s.norm, lengths), float64(teachers)*float64(s.bound); got > most*(1+1e-9) {
			t.Fatalf("%d teachers sent a sum of length %v, bound %d", teachers, got, s.bound)
		}
	}
}
