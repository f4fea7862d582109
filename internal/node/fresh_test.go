package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// freshRound asks teachers with a hidden layer, which begin anew, for a sum.
func freshRound(run string, number uint64) *conclavev1.Round {
	r := sumRound(run, number, 0)
	teacher := r.GetSum().GetGradients().Teacher
	teacher.Fresh, teacher.Model, teacher.Hidden, teacher.Batch = true, conclavev1.TeacherSpec_MODEL_HIDDEN, 6, 3
	return r
}

// numbered is a round that holds the records of another.
func numbered(r *conclavev1.Round, number uint64) *conclavev1.Round {
	r.Number = number
	return r
}

// What fresh teachers answer depends on the question alone: neither on the rounds before
// nor on the state folder.
func TestFreshTeachersForget(t *testing.T) {
	table := smallTable(t, 80, 1)
	c := smallConfig(t, 4)
	n := start(t, c, table)
	first := gradientSumOf(t, n, freshRound("r", 1))
	if slices.Max(first) == 0 {
		t.Fatal("the sum is empty")
	}
	other := gradientSumOf(t, n, freshRound("r", 2))
	if slices.Equal(first, other) {
		t.Error("other records have the same gradients")
	}
	if again := gradientSumOf(t, n, numbered(freshRound("r", 1), 3)); !slices.Equal(first, again) {
		t.Error("after other rounds the same question is answered otherwise")
	}
	if n.current.ensemble.Steps() != 0 || len(weights(n)) != 0 {
		t.Errorf("%d steps and %d weights are kept", n.current.ensemble.Steps(), len(weights(n)))
	}
	// The file holds the answer, and no weights of 4 x 2 networks.
	info, err := os.Stat(statePath(c.State, "r"))
	testkit.Must(t, err)
	if info.Size() > 2000 {
		t.Errorf("the state file has %d bytes", info.Size())
	}

	// Killed, started again with its state, and with no state at all.
	n = start(t, c, table)
	if again := gradientSumOf(t, n, numbered(freshRound("r", 1), 3)); !slices.Equal(first, again) {
		t.Error("after a start the round asked again is answered otherwise")
	}
	testkit.Must(t, os.Remove(statePath(c.State, "r")))
	n = start(t, c, table)
	if again := gradientSumOf(t, n, numbered(freshRound("r", 2), 4)); !slices.Equal(other, again) {
		t.Error("without its state the node answers otherwise")
	}
	if again := gradientSumOf(t, n, freshRound("another", 1)); !slices.Equal(first, again) {
		t.Error("in another run the same question is answered otherwise")
	}
}

// Fresh teachers of all nodes begin with the same weights: with the same records, all of
// them in a batch, those of two nodes give the same gradients. Others do not.
func TestFreshTeachersBeginAlike(t *testing.T) {
	near, c := smallNode(t, 3), smallConfig(t, 3)
	c.Site = "south"
	far := start(t, c, smallTable(t, 60, 2))
	far.examples = near.examples
	for _, fresh := range []bool{true, false} {
		r := freshRound(map[bool]string{true: "fresh", false: "kept"}[fresh], 1)
		r.GetSum().GetGradients().Teacher.Fresh, r.GetSum().GetGradients().Teacher.Batch = fresh, 1000
		if a, b := gradientSumOf(t, near, r), gradientSumOf(t, far, r); slices.Equal(a, b) != fresh {
			t.Errorf("fresh %v: the gradients of two nodes are the same is %v", fresh, !fresh)
		}
	}
}

// Votes of real or fake are not asked of teachers that begin anew.
func TestFreshTeachersDoNotVoteRealOrFake(t *testing.T) {
	n := smallNode(t, 3)
	for _, vote := range []conclavev1.TeacherSpec_Vote{relativeVote, plainVote, conclavev1.TeacherSpec_VOTE_CALIBRATED, coinVote} {
		r := voteRound("r", 1)
		r.GetVote().Teacher.Vote, r.GetVote().Teacher.Fresh = vote, true
		if m := ask(t, n, r); !strings.Contains(m.GetRefusal().GetReason(), "fresh teachers are for gradients") {
			t.Errorf("%v: %v", vote, m)
		}
	}
	if n.current != nil {
		t.Error("teachers were made for a question that was refused")
	}
	r := gradientRound("votes", 1)
	r.GetVote().Teacher.Fresh = true
	votesOf(t, n, r)
	r = freshRound("coins", 1)
	r.GetSum().GetGradients().Teacher.Vote = coinVote
	gradientSumOf(t, n, r)
}

// A run is of fresh teachers or of others, and of one first weight.
func TestFreshTeachersBelongToTheirRun(t *testing.T) {
	n := smallNode(t, 3)
	gradientSumOf(t, n, freshRound("r", 1))
	for name, change := range map[string]func(*conclavev1.TeacherSpec){
		"kept":         func(s *conclavev1.TeacherSpec) { s.Fresh = false },
		"another seed": func(s *conclavev1.TeacherSpec) { s.Seed++ },
	} {
		r := freshRound("r", 2)
		change(r.GetSum().GetGradients().Teacher)
		for range 2 { // from memory, and from the disk
			if m := ask(t, n, r); m.GetRefusal().GetReason() != errOtherTeachers.Error() {
				t.Errorf("%s: %v", name, m)
			}
			n.current = nil
		}
	}
}

// Only one network of fresh teachers is kept, so that they may be larger than others.
func TestFreshTeachersMayBeMany(t *testing.T) {
	n := smallNode(t, 3)
	n.cfg.Teachers = 1 << 20
	teacher := smallTeacher()
	teacher.Vote, teacher.Model, teacher.Hidden = gradientVote, conclavev1.TeacherSpec_MODEL_HIDDEN, 100
	if _, err := n.checkTeacher(teacher); err == nil || !strings.Contains(err.Error(), "use a smaller hidden layer") {
		t.Errorf("a million kept teachers: %v", err)
	}
	teacher.Fresh = true
	spec, err := n.checkTeacher(teacher)
	testkit.Must(t, err)
	if _, err := spec.ensemble(); err != nil {
		t.Errorf("a million fresh teachers: %v", err)
	}
}

// imageTable draws images of two classes.
func imageTable(t *testing.T, height, width, channels, rows int) *partition.Table {
	t.Helper()
	pixels := height * width * channels
	table := partition.NewTable(mustSchema(t, fmt.Sprintf(`format: idx
image: {height: %d, width: %d, channels: %d}
label: y
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
  - {name: y, kind: categorical, categories: [a, b]}
`, height, width, channels, pixels)))
	rng := rand.New(rand.NewPCG(1, 2))
	for range rows {
		cells := make([]float64, pixels+1)
		for i := range cells {
			cells[i] = float64(rng.IntN(256))
		}
		cells[pixels] = float64(rng.IntN(2))
		testkit.Must(t, table.Append(cells, ""))
	}
	return table
}

// imageNode is a node of images of 8 x 6 pixels with two channels.
func imageNode(t *testing.T, teachers int) *Node {
	t.Helper()
	return start(t, smallConfig(t, teachers), imageTable(t, 8, 6, 2, 12*teachers))
}

// cosineRound asks for the sum of gradients by the coefficients of images.
func cosineRound(run string, number uint64, cosines uint32) *conclavev1.Round {
	rng := rand.New(rand.NewPCG(number, 98))
	training, trainingClasses := generated(10, 96, rng)
	queries, queryClasses := generated(4, 96, rng)
	teacher := smallTeacher()
	teacher.Vote, teacher.Model, teacher.Hidden, teacher.Features, teacher.Cosines = gradientVote, conclavev1.TeacherSpec_MODEL_HIDDEN, 5, conclavev1.TeacherSpec_FEATURES_COSINES, cosines
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Gradients{Gradients: &conclavev1.GradientSum{
			Teacher: teacher, Training: training, TrainingClasses: trainingClasses, Queries: queries, QueryClasses: queryClasses, Bound: 1 << 16,
		}},
	}}}
}

// Teachers that see cosines learn from projected images and give gradients by
// coefficients, of the side x side lowest frequencies in each channel.
func TestCosinesByHand(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, fresh := range []bool{false, true} {
			n := imageNode(t, 3)
			r := cosineRound("r", 1, 18)
			q := r.GetSum().GetGradients()
			q.Teacher.Shared, q.Teacher.Fresh = shared, fresh
			got := gradientSumOf(t, n, r)

			basis, err := projection.NewCosines(8, 6, 2, 3)
			testkit.Must(t, err)
			project := func(x []float32, class func(i int) int) []float32 {
				rows := len(x) / 96
				out := make([]float32, rows*18)
				basis.Project(out, x, rows)
				if !shared {
					return out
				}
				var told []float32
				for i := range rows {
					told = append(append(told, out[i*18:(i+1)*18]...), float32(class(i)))
				}
				return told
			}
			a, err := n.checkBatch(q)
			testkit.Must(t, err)
			examples := make([]nn.Examples, 3)
			for i, of := range n.examples {
				for c, x := range of.ByClass {
					x = project(x, func(int) int { return c })
					if shared && c > 0 {
						examples[i].ByClass[0] = append(examples[i].ByClass[0], x...)
						continue
					}
					examples[i].ByClass = append(examples[i].ByClass, x)
				}
			}
			networks := map[bool][]int{false: a.training.classes, true: make([]int, len(a.training.classes))}
			asked := map[bool][]int{false: a.queries.classes, true: make([]int, len(a.queries.classes))}
			e, err := a.spec.ensemble()
			testkit.Must(t, err)
			steps := make([][]float32, 3)
			testkit.Must(t, e.TrainGradients(examples, project(a.training.x,
				func(i int) int { return a.training.classes[i] }), networks[shared], a.steps, a.batch,
				project(a.queries.x, func(i int) int { return a.queries.classes[i] }), asked[shared], nil, func(model int, dx []float32) {
					steps[model] = slices.Clone(dx)
				}))
			want := make([]float64, 4*18)
			in := len(steps[0]) / 4
			for _, dx := range steps {
				var length float64
				for i := range want {
					length += math.Pow(float64(dx[i/18*in+i%18]), 2)
				}
				for i := range want {
					want[i] -= float64(dx[i/18*in+i%18]) / math.Sqrt(length)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d numbers, want %d", len(got), len(want))
			}
			for i, w := range want {
				if g := float64(got[i]) / (1 << 16); math.Abs(g-w) > 3*(1./(1<<16)+1e-5) {
					t.Fatalf("shared %v, fresh %v: number %d is %v, want %v", shared, fresh, i, g, w)
				}
			}
		}
	}
}

// Votes on gradients by coefficients are in directions among these.
func TestCosinesAreVotedOn(t *testing.T) {
	n := imageNode(t, 3)
	s := cosineRound("r", 1, 8).GetSum().GetGradients()
	r := &conclavev1.Round{Run: "r", Number: 1, Question: &conclavev1.Round_Vote{Vote: &conclavev1.VoteQuestion{
		Teacher: s.Teacher, Training: s.Training, TrainingClasses: s.TrainingClasses, Queries: s.Queries, QueryClasses: s.QueryClasses,
		AnswerClasses: 5, Gradient: &conclavev1.Projection{Directions: 8, Seed: 3, Clip: 1e-3},
	}}}
	votes := unpack(t, votesOf(t, n, r), 3, 4*8, 5)
	if slices.Max(votes) == slices.Min(votes) {
		t.Errorf("all votes are for bin %d", votes[0])
	}
	r = numbered(r, 2)
	r.GetVote().Gradient.Directions = 9
	if m := ask(t, n, r); !strings.Contains(m.GetRefusal().GetReason(), "1 to 8") {
		t.Errorf("nine directions of eight coefficients: %v", m)
	}
}

// Another number of coefficients is another run's; what was kept of one is not mistaken
// for the other, nor for the pixels where there are as many.
func TestCosinesAreKeptApart(t *testing.T) {
	pixels := func(run string) *conclavev1.Round {
		r := cosineRound(run, 1, 0)
		q := r.GetSum().GetGradients()
		q.Teacher.Features, q.Teacher.Shared = conclavev1.TeacherSpec_FEATURES_PLAIN, true
		return r
	}
	cosines := func(run string, count uint32) *conclavev1.Round {
		r := cosineRound(run, 1, count)
		r.GetSum().GetGradients().Teacher.Shared = true
		return r
	}
	table := imageTable(t, 4, 4, 1, 30)
	of := func(r *conclavev1.Round) *conclavev1.Round { // of 16 pixels
		q := r.GetSum().GetGradients()
		rng := rand.New(rand.NewPCG(1, 97))
		q.Training, q.TrainingClasses = generated(10, 16, rng)
		q.Queries, q.QueryClasses = generated(4, 16, rng)
		return r
	}
	n := start(t, smallConfig(t, 3), table)
	rounds := map[string]func(run string) *conclavev1.Round{
		"pixels": func(run string) *conclavev1.Round { return of(pixels(run)) },
		"all":    func(run string) *conclavev1.Round { return of(cosines(run, 16)) },
		"four":   func(run string) *conclavev1.Round { return of(cosines(run, 4)) },
	}
	for i, name := range strings.Fields("pixels all pixels four all four pixels all") {
		run := name + string(rune('0'+i))
		got := gradientSumOf(t, n, rounds[name](run))
		alone := start(t, copyState(t, n.cfg), table)
		if want := gradientSumOf(t, alone, rounds[name](run)); !slices.Equal(got, want) {
			t.Errorf("%s in place %d: other gradients than of a node that was asked nothing else", name, i)
		}
	}
	m := ask(t, n, numbered(of(cosines("all7", 4)), 2))
	if m.GetRefusal().GetReason() != errOtherTeachers.Error() {
		t.Errorf("other coefficients in a run: %v", m)
	}
}

func TestCosinesAreChecked(t *testing.T) {
	n := imageNode(t, 3)
	for _, count := range []uint32{0, 1, 2 * 2, 2*9 - 1, 2 * 10, 2 * 49, 96, math.MaxUint32} {
		if m := ask(t, n, cosineRound("r", 1, count)); !strings.Contains(m.GetRefusal().GetReason(), "use k x k for each of 2 channels, with k from 1 to 6") {
			t.Errorf("%d cosines: %v", count, m)
		}
	}
	for i, count := range []uint32{2, 8, 2 * 36} {
		if s := gradientSumOf(t, n, cosineRound(string(rune('a'+i)), 1, count)); len(s) != 4*int(count) {
			t.Errorf("%d cosines: a sum of %d numbers", count, len(s))
		}
	}
	r := cosineRound("conv", 1, 18)
	r.GetSum().GetGradients().Teacher.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION
	if m := ask(t, n, r); !strings.Contains(m.GetRefusal().GetReason(), "images, and plain features") {
		t.Errorf("convolutions of coefficients: %v", m)
	}
	tables := smallNode(t, 3)
	s := sumRound("r", 1, 0)
	s.GetSum().GetGradients().Teacher.Features, s.GetSum().GetGradients().Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 1
	if m := ask(t, tables, s); !strings.Contains(m.GetRefusal().GetReason(), "need records that are images") {
		t.Errorf("cosines of a table: %v", m)
	}
}
