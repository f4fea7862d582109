package roundtest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func VoteRound(run string, number uint64, queries int) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Vote{Vote: Vote(queries)}}
}

// OtherBytes serializes a round as no encoder of Go does, but as the format
// allows: fields in reverse order, a number in more bytes than it needs, lists
// unpacked, and zeros that are left out elsewhere.
func OtherBytes(t testing.TB, r *conclavev1.Round) []byte {
	t.Helper()
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(t, err)
		return b
	}
	q := proto.Clone(r.GetVote()).(*conclavev1.VoteQuestion)
	classes := q.QueryClasses
	q.QueryClasses = nil
	var b []byte
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	b = protowire.AppendBytes(b, raw(&conclavev1.VoteQuestion{Queries: q.Queries}))
	q.Queries = nil // merged from two pieces
	rest := raw(q)
	for _, c := range classes {
		rest = protowire.AppendTag(rest, 5, protowire.VarintType)
		rest = protowire.AppendVarint(rest, uint64(c))
	}
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	b = protowire.AppendBytes(b, rest)
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = append(b, byte(r.GetNumber())|0x80, 0x80, 0) // numbers below 128
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	return protowire.AppendString(b, r.GetRun())
}

// DiscriminatorRound asks for the gradient of so many weights at rate 0.25.
func DiscriminatorRound(run string, number uint64, weights int,
	change func(*conclavev1.DiscriminatorSum)) *conclavev1.Round {
	q := &conclavev1.DiscriminatorSum{
		Discriminator: &conclavev1.Discriminator{Kind: conclavev1.Discriminator_KIND_DENSE, Classes: 2,
			ByClass: conclavev1.Discriminator_CLASSES_EACH},
		Weights: make([]byte, 4*weights), Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: 0.25, Clip: 1,
		Bound: 1 << 16,
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Discriminator{Discriminator: q}}}}
}

// EmbeddingRound asks for an embedding of so many entries.
func EmbeddingRound(run string, number uint64, entries int, change func(*conclavev1.EmbeddingSum)) *conclavev1.Round {
	q := &conclavev1.EmbeddingSum{
		Embedding: &conclavev1.Embedding{Classes: 2, Parts: []*conclavev1.Embedding_Part{
			{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 0.3},
			{Kind: conclavev1.Embedding_Part_KIND_FOURIER, Weight: 1, Count: 20, Spread: 0.8, Seed: 1},
		}},
		Entries: uint32(entries), Bound: 1 << 16,
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Embedding{Embedding: q}}}}
}

// BadEmbeddings are questions that no run takes.
// BadEmbeddings are questions that no run may ask, by what is wrong with them.
func BadEmbeddings() map[string]Bad[conclavev1.EmbeddingSum] {
	type bad = Bad[conclavev1.EmbeddingSum]
	weight := func(v float64) func(*conclavev1.EmbeddingSum) {
		return func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[1].Weight = v }
	}
	bound := func(v uint64) func(*conclavev1.EmbeddingSum) {
		return func(q *conclavev1.EmbeddingSum) { q.Bound = v }
	}
	return map[string]bad{
		"no entries": {func(q *conclavev1.EmbeddingSum) { q.Entries = 0 },
			"an embedding of 0 entries; ask for 1 to"},
		"many entries": {func(q *conclavev1.EmbeddingSum) { q.Entries = MaxHistogram + 1 },
			"an embedding of 131073 entries"},
		"absurdly many": {func(q *conclavev1.EmbeddingSum) { q.Entries = math.MaxUint32 },
			"an embedding of 4294967295 entries"},
		"no bound":        {bound(0), "bound of embeddings is 0; use 256 to 1048576"},
		"a small bound":   {bound(255), "bound of embeddings is 255"},
		"a large bound":   {bound(1<<20 + 1), "bound of embeddings is 1048577"},
		"an absurd bound": {bound(math.MaxUint64), "use 256 to 1048576"},
		"nothing at all":  {func(q *conclavev1.EmbeddingSum) { q.Embedding = nil }, "an embedding of 0 parts"},
		"no parts": {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts = nil },
			"an embedding of 0 parts; use 1 to 64"},
		"many parts": {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts = slices.Repeat(q.Embedding.Parts, 33) },
			"an embedding of 66 parts"},
		"weight 0":        {weight(0), "part 2 of the embedding has weight 0"},
		"negative weight": {weight(-1), "part 2 of the embedding has weight -1"},
		"a weight of NaN": {weight(math.NaN()), "part 2 of the embedding has weight NaN"},
		"infinite weight": {weight(math.Inf(1)), "part 2 of the embedding has weight +Inf"},
		"a part of no one": {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[0] = &conclavev1.Embedding_Part{} },
			"part 1 of the embedding has weight 0"},
	}
}

// FitWidth is that of the fits of these tests, FitClip the length of their records' features.
const (
	FitWidth = 3
	FitClip  = 2
)

// Records are as many vectors of features, the same for the same seed, about a place.
func Records(seed uint64, n int, place float64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0xf17))
	var all []float64
	for range n {
		x := []float64{1, place + rng.NormFloat64()/2, rng.NormFloat64() / 2}
		length := 0.0
		for _, v := range x {
			length = math.Hypot(length, v)
		}
		for _, v := range x { // as float32 has them, and not longer
			all = append(all, float64(float32(v*math.Min(1, 1.999/length))))
		}
	}
	return all
}

// FitRound asks for a fit to 50 synthetic records, counting on 40 real ones.
func FitRound(run string, number uint64, change func(*conclavev1.Fit)) *conclavev1.Round {
	synthetic := Tensor(50, FitWidth)
	for i, v := range Records(1, 50, -0.3) {
		PutFloat(synthetic, i, float32(v))
	}
	q := &conclavev1.Fit{
		Features:  &conclavev1.RatioFeatures{Mean: make([]float32, 2), Scale: []float32{1, 1}, Clip: FitClip},
		Synthetic: synthetic, Lambda: 0.1, Records: 40,
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Fit{Fit: q}}
}

func PutFloat(t *conclavev1.Tensor, at int, v float32) {
	bits := math.Float32bits(v)
	for i := range 4 {
		t.Data[4*at+i] = byte(bits >> (8 * i))
	}
}

// BadFits are questions that no run takes.
// BadFits are questions that no run may ask, by what is wrong with them.
func BadFits() map[string]Bad[conclavev1.Fit] {
	type bad = Bad[conclavev1.Fit]
	lambda := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Lambda = v } }
	count := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Records = v } }
	clip := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Features.Clip = v } }
	value := func(at int, v float64) func(*conclavev1.Fit) {
		return func(q *conclavev1.Fit) { PutFloat(q.Synthetic, at, float32(v)) }
	}
	return map[string]bad{
		"no synthetic records": {func(q *conclavev1.Fit) { q.Synthetic = nil },
			"a fit to 0 synthetic records of 0 features"},
		"no rows": {func(q *conclavev1.Fit) { q.Synthetic = Tensor(0, 3) },
			"a fit to 0 synthetic records"},
		"too many features": {func(q *conclavev1.Fit) { q.Synthetic = Tensor(1, MaxFitWidth+1) },
			"401 features; use 1 record at least and 400 features at most"},
		"a flat tensor": {func(q *conclavev1.Fit) { q.Synthetic.Shape = q.Synthetic.Shape[:1] },
			"fit.synthetic has 1 dimensions"},
		"a short tensor": {func(q *conclavev1.Fit) { q.Synthetic.Data = q.Synthetic.Data[4:] },
			"fit.synthetic of shape [50, 3] holds 596 bytes"},
		"a NaN": {value(4, math.NaN()),
			"fit.synthetic holds a value that is not finite in row 1, feature 1"},
		"an infinity":      {value(0, math.Inf(-1)), "not finite in row 0, feature 0"},
		"a long record":    {value(5, 3), "synthetic record 1 is longer than clip 2"},
		"no features":      {func(q *conclavev1.Fit) { q.Features = nil }, "clip is 0"},
		"clip 0":           {clip(0), "clip is 0"},
		"clip of NaN":      {clip(math.NaN()), "clip is NaN"},
		"infinite clip":    {clip(math.Inf(1)), "clip is +Inf"},
		"lambda 0":         {lambda(0), "lambda is 0"},
		"lambda below 0":   {lambda(-1), "lambda is -1"},
		"lambda of NaN":    {lambda(math.NaN()), "lambda is NaN"},
		"infinite lambda":  {lambda(math.Inf(1)), "lambda is +Inf"},
		"no records":       {count(0), "a fit counts on 0 privacy units; say 1 to 16777216, a public number"},
		"half a record":    {count(0.5), "counts on 0.5 privacy units"},
		"records of NaN":   {count(math.NaN()), "counts on NaN privacy units"},
		"too many records": {count(MaxUnits + 1), "privacy units; say 1 to 16777216"},
	}
}

// Gradients asks for the sum of gradients of three numbers at some records.
func Gradients(records int) *conclavev1.GradientSum {
	v := Vote(records)
	v.Teacher.Vote = conclavev1.TeacherSpec_VOTE_GRADIENT
	return &conclavev1.GradientSum{
		Teacher: v.Teacher, Training: v.Training, TrainingClasses: v.TrainingClasses, Queries: v.Queries,
		QueryClasses: v.QueryClasses,
		Bound:        1 << 16,
	}
}

// Bins asks for votes on gradients in two directions, in ten bins.
func Bins(records int) *conclavev1.VoteQuestion {
	v := Vote(records)
	v.Teacher.Vote, v.AnswerClasses = conclavev1.TeacherSpec_VOTE_GRADIENT, 10
	v.Gradient = &conclavev1.Projection{Directions: 2, Seed: 3, Clip: 1e-4}
	return v
}

func GradientRound(run string, number uint64, q *conclavev1.GradientSum) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Gradients{Gradients: q}}}}
}

func BinRound(run string, number uint64, q *conclavev1.VoteQuestion) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Vote{Vote: q}}
}

// Unit is the fixed-point unit of the scores of these tests.
const Unit = 1 << 12

// ScoreRound sums the scores of so many discriminators as expected says, of 80 units.
func ScoreRound(run string, number uint64, expected []int64, change func(*conclavev1.ScoreSum)) *conclavev1.Round {
	q := &conclavev1.ScoreSum{Bound: Unit, Selection: &conclavev1.Selection{ScoresRound: number, Records: 80,
		Expected: expected}}
	for range expected {
		q.Discriminators = append(q.Discriminators, &conclavev1.ScoreSum_Scored{
			Discriminator: &conclavev1.Discriminator{Kind: conclavev1.Discriminator_KIND_DENSE, Classes: 2},
			Weights:       make([]byte, 12),
		})
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Scores{Scores: q}}}}
}

// SelectionRound selects by the sums of round 0.
func SelectionRound(run string, number uint64, expected []int64, change func(*conclavev1.Selection)) *conclavev1.Round {
	q := &conclavev1.Selection{Records: 80, Expected: expected}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Selection{Selection: q}}
}

// Units are whole scores in steps.
func Units(v ...int64) []int64 {
	for i := range v {
		v[i] *= Unit
	}
	return v
}

// BadScores are questions that no run takes.
// BadScores are questions that no run may ask, by what is wrong with them.
func BadScores() map[string]Bad[conclavev1.ScoreSum] {
	type bad = Bad[conclavev1.ScoreSum]
	weights := func(raw []byte) func(*conclavev1.ScoreSum) {
		return func(q *conclavev1.ScoreSum) { q.Discriminators[1].Weights = raw }
	}
	selecting := func(change func(*conclavev1.Selection)) func(*conclavev1.ScoreSum) {
		return func(q *conclavev1.ScoreSum) { change(q.Selection) }
	}
	return map[string]bad{
		"no discriminator": {func(q *conclavev1.ScoreSum) { q.Discriminators = nil },
			"the scores of 0 discriminators; ask for 1 to 4096"},
		"too many": {func(q *conclavev1.ScoreSum) { q.Discriminators = slices.Repeat(q.Discriminators, MaxScored) },
			"the scores of 8192 discriminators"},
		"no bound":        {func(q *conclavev1.ScoreSum) { q.Bound = 0 }, "bound of scores is 0; use 256 to 1048576"},
		"a small bound":   {func(q *conclavev1.ScoreSum) { q.Bound = 255 }, "bound of scores is 255"},
		"a large bound":   {func(q *conclavev1.ScoreSum) { q.Bound = 1<<20 + 1 }, "bound of scores is 1048577"},
		"an absurd bound": {func(q *conclavev1.ScoreSum) { q.Bound = math.MaxUint64 }, "use 256 to 1048576"},
		"another round": {selecting(func(s *conclavev1.Selection) { s.ScoresRound = 7 }),
			"selects by those of round 7; name its own"},
		"no weights":      {weights(nil), "discriminator 2 has 0 bytes of weights"},
		"half a weight":   {weights(make([]byte, 6)), "discriminator 2 has 6 bytes of weights"},
		"many weights":    {weights(make([]byte, 4*MaxWeights+4)), "for each of 1 to 131072 weights"},
		"a weight of NaN": {weights([]byte{0, 0, 0, 0, 0, 0, 0xc0, 0x7f}), "discriminator 2: weight 1 is not finite"},
		"infinite weight": {weights([]byte{0, 0, 0x80, 0x7f}), "discriminator 2: weight 0 is not finite"},
		"no records": {selecting(func(s *conclavev1.Selection) { s.Records = 0 }),
			"counts on 0 privacy units; say 1 to 16777216"},
		"too many records": {selecting(func(s *conclavev1.Selection) { s.Records = MaxUnits + 1 }),
			"counts on 16777217 privacy units"},
		"too few expected": {selecting(func(s *conclavev1.Selection) { s.Expected = s.Expected[:1] }),
			"a selection among 2 discriminators says of 1"},
		"nothing expected": {selecting(func(s *conclavev1.Selection) { s.Expected = nil }),
			"a selection among 2 discriminators says of 0"},
		"no probability": {selecting(func(s *conclavev1.Selection) { s.Expected = []int64{0, Unit + 1} }),
			"generated records score 4097 with discriminator 2, outside -4096 to 4096: scores must be probabilities"},
		"below all": {selecting(func(s *conclavev1.Selection) { s.Expected = []int64{math.MinInt64, 0} }),
			"discriminator 1, outside -4096 to 4096"},
		"no selection": {func(q *conclavev1.ScoreSum) { q.Selection = nil },
			"a selection among 2 discriminators says of 0"},
		"no opposites' expectation": {func(q *conclavev1.ScoreSum) { q.Complements = true },
			"a selection among 4 discriminators says of 2"},
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

func CountRound(run string, number uint64, classes uint32, scale uint64) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Planned: 1,
		Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
			Statistic: &conclavev1.SumQuestion_ClassCounts{ClassCounts: &conclavev1.ClassCounts{Classes: classes,
				Scale: scale}}}}}
}

func Submission(dataset, name string) *conclavev1.SubmitRunRequest {
	spec := Spec()
	spec.Dataset, spec.Name = dataset, name
	return &conclavev1.SubmitRunRequest{Spec: spec, RunYaml: []byte("name: " + name), SchemaYaml: []byte("test")}
}

// Bad is a change that makes a question one that is refused, and what the error names.
type Bad[Q any] struct {
	Change func(*Q)
	Want   string
}
