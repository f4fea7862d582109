package roundtest

import (
	"encoding/binary"
	"math"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Round asks a question of a kind whose parameters an aggregator does not read.
func Round(run string, number uint64, kind, params string) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Kind: kind, Params: []byte(params)}
}

// Sum is a round that asks for a sum; change adapts its shape.
func Sum(r *conclavev1.Round, v *conclavev1.Vector, change func(*conclavev1.Vector)) *conclavev1.Round {
	if change != nil {
		change(v)
	}
	r.Shape = &conclavev1.Round_Sum{Sum: v}
	return r
}

// OfUnits is the vector of a sum over privacy units.
func OfUnits(entries int) *conclavev1.Vector {
	return &conclavev1.Vector{
		Entries: uint32(entries), Bound: 1 << 16, Norm: conclavev1.Vector_NORM_L2, Per: conclavev1.Vector_PER_UNIT,
		Rate: 1,
	}
}

// VoteRound asks every teacher for a vote between two classes on each query.
func VoteRound(run string, number uint64, queries int) *conclavev1.Round {
	r := Round(run, number, runspec.Votes, "")
	r.Params = question.Marshal(Vote(queries))
	r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{Queries: uint32(queries), Classes: 2}}
	return r
}

// BinRound asks for votes on gradients at this many records in two directions, in ten bins.
func BinRound(run string, number uint64, records int) *conclavev1.Round {
	r := Round(run, number, runspec.GradientVotes, "bins")
	r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{Queries: uint32(2 * records), Classes: 10}}
	return r
}

// GradientRound asks for the sum of the teachers' gradients, three numbers at each record.
func GradientRound(run string, number uint64, records int, change func(*conclavev1.Vector)) *conclavev1.Round {
	v := OfUnits(3 * records)
	v.Per = conclavev1.Vector_PER_TEACHER
	return Sum(Round(run, number, runspec.GradientSums, "gradients"), v, change)
}

// DiscriminatorRound asks for the gradient of this many weights at rate 0.25.
func DiscriminatorRound(run string, number uint64, weights int, change func(*conclavev1.Vector)) *conclavev1.Round {
	v := OfUnits(weights)
	v.Rate = 0.25
	return Sum(Round(run, number, runspec.Discriminator, "discriminator"), v, change)
}

// EmbeddingRound asks for an embedding with this many entries.
func EmbeddingRound(run string, number uint64, entries int, change func(*conclavev1.Vector)) *conclavev1.Round {
	return Sum(Round(run, number, runspec.Embedding, "embedding"), OfUnits(entries), change)
}

// CountRound asks for class counts, charged to the plan's second entry.
func CountRound(run string, number uint64, classes uint32, scale uint64) *conclavev1.Round {
	v := OfUnits(int(classes))
	v.Norm, v.Bound, v.Counts = conclavev1.Vector_NORM_L1, scale, true
	r := Sum(Round(run, number, runspec.ClassCounts, "counts"), v, nil)
	r.Planned = 1
	return r
}

// Unit is the fixed-point unit of scores in these tests.
const Unit = 1 << 12

// ScoreRound asks for a sum with one entry per expected score, and selects by it, with 80 units.
func ScoreRound(run string, number uint64, expected []int64, change func(*conclavev1.Round)) *conclavev1.Round {
	v := OfUnits(len(expected))
	v.Bound, v.Norm = Unit, conclavev1.Vector_NORM_EACH
	r := Sum(Round(run, number, runspec.Scores, "scores"), v, nil)
	r.Selection = &conclavev1.Selection{Round: number, Records: 80, Expected: expected}
	if change != nil {
		change(r)
	}
	return r
}

// SelectionRound selects by the sums of round 0.
func SelectionRound(run string, number uint64, expected []int64, change func(*conclavev1.Selection)) *conclavev1.Round {
	r := Round(run, number, runspec.Scores, "")
	r.Selection = &conclavev1.Selection{Records: 80, Expected: expected}
	if change != nil {
		change(r.Selection)
	}
	return r
}

// Units converts whole scores to steps.
func Units(v ...int64) []int64 {
	for i := range v {
		v[i] *= Unit
	}
	return v
}

// Bad is a change that makes a question invalid, and what the error names.
type Bad[Q any] struct {
	Change func(*Q)
	Want   string
}

// BadVectors are sum vectors that every run must refuse, by problem.
func BadVectors() map[string]Bad[conclavev1.Vector] {
	type bad = Bad[conclavev1.Vector]
	entries := func(n uint32) func(*conclavev1.Vector) { return func(v *conclavev1.Vector) { v.Entries = n } }
	bound := func(b uint64) func(*conclavev1.Vector) { return func(v *conclavev1.Vector) { v.Bound = b } }
	norm := func(n conclavev1.Vector_Norm) func(*conclavev1.Vector) {
		return func(v *conclavev1.Vector) { v.Norm = n }
	}
	per := func(p conclavev1.Vector_Per) func(*conclavev1.Vector) {
		return func(v *conclavev1.Vector) { v.Per = p }
	}
	rate := func(r float64) func(*conclavev1.Vector) { return func(v *conclavev1.Vector) { v.Rate = r } }
	return map[string]bad{
		"no entries":      {entries(0), "a sum of 0 entries; ask for 1 to 2097152"},
		"many entries":    {entries(MaxEntries + 1), "a sum of 2097153 entries"},
		"absurdly many":   {entries(math.MaxUint32), "a sum of 4294967295 entries"},
		"no bound":        {bound(0), "the bound of a sum is 0 steps; use 1 to 1048576"},
		"a large bound":   {bound(1<<20 + 1), "the bound of a sum is 1048577 steps"},
		"an absurd bound": {bound(math.MaxUint64), "use 1 to 1048576"},
		"no norm":         {norm(0), "norm NORM_UNSPECIFIED; use L1, L2 or each"},
		"another norm":    {norm(4), "norm 4"},
		"nobody's sum":    {per(0), "a sum over PER_UNSPECIFIED; use units or teachers"},
		"a stranger's":    {per(3), "a sum over 3"},
		"rate 0":          {rate(0), "a sample of rate 0"},
		"negative rate":   {rate(-0.25), "a sample of rate -0.25"},
		"a rate of NaN":   {rate(math.NaN()), "a sample of rate NaN"},
		"a rate above 1":  {rate(1.5), "a sample of rate 1.5"},
	}
}

// BadSelections are selections between two entries that every run must refuse, by problem.
func BadSelections() map[string]Bad[conclavev1.Round] {
	type bad = Bad[conclavev1.Round]
	selecting := func(change func(*conclavev1.Selection)) func(*conclavev1.Round) {
		return func(r *conclavev1.Round) { change(r.Selection) }
	}
	return map[string]bad{
		"another round": {selecting(func(s *conclavev1.Selection) { s.Round = 7 }),
			"selects by that of round 7; use its own round"},
		"a sample": {func(r *conclavev1.Round) { r.GetSum().Rate = 0.5 },
			"a selection by a sum over a sample of rate 0.5"},
		"votes": {func(r *conclavev1.Round) { r.Shape = VoteRound("r", 0, 2).Shape }, "selects by votes"},
		"no records": {selecting(func(s *conclavev1.Selection) { s.Records = 0 }),
			"assumes 0 privacy units; use a public number from 1 to 16777216"},
		"too many records": {selecting(func(s *conclavev1.Selection) { s.Records = MaxFitted + 1 }),
			"assumes 16777217 privacy units"},
		"too few expected": {selecting(func(s *conclavev1.Selection) { s.Expected = s.Expected[:1] }),
			"a selection among 2 candidates has 1"},
		"nothing expected": {selecting(func(s *conclavev1.Selection) { s.Expected = nil }),
			"a selection among 2 candidates has 0"},
		"beyond the bound": {selecting(func(s *conclavev1.Selection) { s.Expected = []int64{0, Unit + 1} }),
			"expected score 4097 of candidate 2 of a selection is outside -4096 to 4096"},
		"below all": {selecting(func(s *conclavev1.Selection) { s.Expected = []int64{math.MinInt64, 0} }),
			"candidate 1 of a selection is outside -4096 to 4096"},
		"no opposites' expectation": {selecting(func(s *conclavev1.Selection) { s.Complements = true }),
			"a selection among 4 candidates has 2"},
	}
}

func Tensor(rows, columns int, values ...float32) *conclavev1.Tensor {
	data := make([]byte, 0, 4*rows*columns)
	for i := range rows * columns {
		v := float32(0.25)
		if i < len(values) {
			v = values[i]
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), uint32(columns)}, Data: data}
}

func Vote(queries int) *conclavev1.VoteQuestion {
	return &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
			Classes: 2, Steps: 1, Batch: 4, LearningRate: 0.1, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		},
		Training:        Tensor(4, 3),
		TrainingClasses: []uint32{0, 1, 0, 1},
		Queries:         Tensor(queries, 3),
		QueryClasses:    make([]uint32, queries),
		AnswerClasses:   2,
	}
}

func Submission(dataset, name string) *conclavev1.SubmitRunRequest {
	spec := Spec()
	spec.Dataset, spec.Name = dataset, name
	return &conclavev1.SubmitRunRequest{Spec: spec, RunYaml: []byte("name: " + name), SchemaYaml: []byte("test")}
}
