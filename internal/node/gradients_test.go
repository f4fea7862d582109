package node

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Three teachers with one record each, through real nodes and a real aggregator with almost no noise, computed by
// hand.
//
// The records are the single numbers 0.9, 0.8 and 0.1; the generated one is 0.5. A teacher is a logistic regression
// that starts from weights of 0, so the first gradient of its weight is (0.5 - record)/4, and Adam's first step is
// the rate, 0.1, against the gradient's sign: weights 0.1, 0.1 and -0.1, and no bias. Its step at a record x is w
// sigmoid(-w x): at 0.5 and 0.25 that is 0.04875026 and 0.04937500 for the first two, -0.05124974 and -0.05062500 for
// the third.
func TestThreeTeachersByHand(t *testing.T) {
	schema := questiontest.Schema(t, "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n",
		partition.UnitRecord)
	public := question.NewPublic(schema, 1, 1)
	address, folder := startAggregator(t, schema.SHA256)
	for i, x := range []float64{0.9, 0.8, 0.1} {
		table := partition.NewTable(schema)
		testkit.Must(t, table.Append([]float64{x}, ""))
		c := smallConfig(t, 1)
		c.Aggregator, c.Node, c.TLS = address, fmt.Sprint("n", i), certs.IssuedFiles(folder, certs.RoleNode, "north")
		run(t, start(t, c, table))
	}
	client := connect(t, address, folder)
	teacher := &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_GRADIENT,
		Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		Classes:  1, Steps: 1, Batch: 8, LearningRate: 0.1,
	}
	column := func(x ...float32) *conclavev1.Tensor {
		return &conclavev1.Tensor{Shape: []uint32{uint32(len(x)), 1}, Data: safetensors.Bytes(x)}
	}

	// The direction of seed 42 is 1.4923: the steps become 0.0728 and 0.0737, twice, and -0.0765 and -0.0755. Among
	// four bins in (-0.1, 0.1) these are the last and the first. The noise of scale 1/40 changes one of the eight
	// counts with a chance below 1e-15.
	const seed = 42
	p, err := projection.New(projection.Spec{Features: 1, Directions: 1, Clip: 0.1, Bins: 4}, seed)
	testkit.Must(t, err)
	direction := []float32{1}
	if p.Project(direction, direction, 1); math.Abs(float64(direction[0])-1.4923) > 1e-4 {
		t.Fatalf("direction %v; the example is computed for another", direction[0])
	}
	openRun(t, client, "votes", schema.SHA256, 3, &conclavev1.Planned{Kind: "gradient-votes",
		Mechanism: &conclavev1.PrivacyEvent{Kind: "lnmax", Lambda: 40}, Variant: "histogram"})
	votes := askedOf(public, "votes", 0, teachers.GradientVotes, &conclavev1.VoteQuestion{
		Teacher: teacher, Training: column(0.5), TrainingClasses: []uint32{0},
		Queries: column(0.5, 0.25), QueryClasses: []uint32{0, 0},
		AnswerClasses: 4, Gradient: &conclavev1.Projection{Directions: 1, Seed: seed, Clip: 0.1},
	})
	release, err := client.Ask(testkit.Within(t), votes, student.Asking{}, nil)
	testkit.Must(t, err)
	if got, want := release.GetVotes().Histogram, []int64{1, 0, 0, 2, 1, 0, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("histogram %v, want %v", got, want)
	}
	if got := release.GetVotes().Labels; !slices.Equal(got, []int32{3, 3}) {
		t.Errorf("winners %v, want the last bins", got)
	}
	if got := p.Midpoint(3); math.Abs(float64(got)-0.075) > 1e-7 {
		t.Errorf("midpoint %v, want 0.075", got)
	}

	// Normalized to equal length, the vectors are (0.702599, 0.711586) twice and (-0.711425, -0.702784); their sum is
	// (0.693773, 0.720388). The noise has a standard deviation of 2 x 0.002, and exceeds seven of them with a chance
	// below 1e-11.
	openRun(t, client, "sum", schema.SHA256, 3, &conclavev1.Planned{Kind: "gradient-sums",
		Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 0.002, Sensitivity: 1}})
	sum := askedOf(public, "sum", 0, teachers.GradientSum, &conclavev1.GradientSum{
		Teacher: teacher, Training: column(0.5), TrainingClasses: []uint32{0},
		Queries: column(0.5, 0.25), QueryClasses: []uint32{0, 0}, Bound: 1 << 16,
	})
	release, err = client.Ask(testkit.Within(t), sum, student.Asking{}, nil)
	testkit.Must(t, err)
	for i, want := range []float64{0.693773, 0.720388} {
		if got := float64(release.GetSum().Values[i]) / (1 << 16); math.Abs(got-want) > 7*0.004 {
			t.Errorf("entry %d of the sum is %v, want about %v", i, got, want)
		}
	}
}
