package teachers

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// imageSite has images of 8 x 6 pixels with two channels.
func imageSite(t *testing.T, teachers int) *question.Site {
	t.Helper()
	return questiontest.Site(t, questiontest.Images(t, 8, 6, 2, 12*teachers), teachers)
}

// cosineRound asks for the sum of gradients by the coefficients of images.
func cosineRound(run string, number uint64, cosines uint32) *round {
	rng := rand.New(rand.NewPCG(number, 98))
	training, trainingClasses := teacherstest.Generated(10, 96, rng)
	queries, queryClasses := teacherstest.Generated(4, 96, rng)
	teacher := teacherstest.Teacher()
	teacher.Vote, teacher.Model, teacher.Hidden = gradientVote, conclavev1.TeacherSpec_MODEL_HIDDEN, 5
	teacher.Features, teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, cosines
	return &round{run: run, number: number, sum: &conclavev1.GradientSum{
		Teacher: teacher, Training: training, TrainingClasses: trainingClasses,
		Queries: queries, QueryClasses: queryClasses, Bound: 1 << 16,
	}}
}

// Teachers that see cosines learn from projected images and give gradients by
// coefficients, of the side x side lowest frequencies in each channel.
func TestCosinesByHand(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, fresh := range []bool{false, true} {
			site := imageSite(t, 3)
			r := cosineRound("r", 1, 18)
			q := r.sum
			q.Teacher.Shared, q.Teacher.Fresh = shared, fresh
			got := gradientSumOf(t, site, r)

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
			a, err := readBatch(site.Public, q)
			testkit.Must(t, err)
			examples := make([]ensemble.Examples, 3)
			for i, of := range site.Examples {
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
				project(a.queries.x, func(i int) int { return a.queries.classes[i] }), asked[shared], nil,
				func(model int, dx []float32) {
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
	site := imageSite(t, 3)
	s := cosineRound("r", 1, 8).sum
	r := &round{run: "r", number: 1, vote: &conclavev1.VoteQuestion{
		Teacher: s.Teacher, Training: s.Training, TrainingClasses: s.TrainingClasses,
		Queries: s.Queries, QueryClasses: s.QueryClasses,
		AnswerClasses: 5, Gradient: &conclavev1.Projection{Directions: 8, Seed: 3, Clip: 1e-3},
	}}
	votes := questiontest.Unpack(t, votesOf(t, site, r), 3, 4*8, 5)
	if slices.Max(votes) == slices.Min(votes) {
		t.Errorf("all votes are for bin %d", votes[0])
	}
	r = numbered(r, 2)
	r.vote.Gradient.Directions = 9
	if got := reason(site, r); !strings.Contains(got, "1 to 8") {
		t.Errorf("nine directions of eight coefficients: %v", got)
	}
}

// Another number of coefficients is another run's; what was kept of one is not mistaken
// for the other, nor for the pixels where there are as many.
func TestCosinesAreKeptApart(t *testing.T) {
	pixels := func(run string) *round {
		r := cosineRound(run, 1, 0)
		q := r.sum
		q.Teacher.Features, q.Teacher.Shared = plain, true
		return r
	}
	cosines := func(run string, count uint32) *round {
		r := cosineRound(run, 1, count)
		r.sum.Teacher.Shared = true
		return r
	}
	table := questiontest.Images(t, 4, 4, 1, 30)
	of := func(r *round) *round { // of 16 pixels
		q := r.sum
		rng := rand.New(rand.NewPCG(1, 97))
		q.Training, q.TrainingClasses = teacherstest.Generated(10, 16, rng)
		q.Queries, q.QueryClasses = teacherstest.Generated(4, 16, rng)
		return r
	}
	site := questiontest.Site(t, table, 3)
	rounds := map[string]func(run string) *round{
		"pixels": func(run string) *round { return of(pixels(run)) },
		"all":    func(run string) *round { return of(cosines(run, 16)) },
		"four":   func(run string) *round { return of(cosines(run, 4)) },
	}
	for i, name := range strings.Fields("pixels all pixels four all four pixels all") {
		run := name + string(rune('0'+i))
		got := gradientSumOf(t, site, rounds[name](run))
		alone := questiontest.Site(t, table, 3)
		if want := gradientSumOf(t, alone, rounds[name](run)); !slices.Equal(got, want) {
			t.Errorf("%s in place %d: other gradients than of a node that was asked nothing else", name, i)
		}
	}
	if a, err := ask(site, numbered(of(cosines("all7", 4)), 2)); err != errOtherTeachers {
		t.Errorf("other coefficients in a run: %v (%v)", a, err)
	}
}

func TestCosinesAreChecked(t *testing.T) {
	site := imageSite(t, 3)
	for _, count := range []uint32{0, 1, 2 * 2, 2*9 - 1, 2 * 10, 2 * 49, 96, math.MaxUint32} {
		got := reason(site, cosineRound("r", 1, count))
		if !strings.Contains(got, "use k x k for each of 2 channels, with k from 1 to 6") {
			t.Errorf("%d cosines: %v", count, got)
		}
	}
	for i, count := range []uint32{2, 8, 2 * 36} {
		if s := gradientSumOf(t, site, cosineRound(string(rune('a'+i)), 1, count)); len(s) != 4*int(count) {
			t.Errorf("%d cosines: a sum of %d numbers", count, len(s))
		}
	}
	r := cosineRound("conv", 1, 18)
	r.sum.Teacher.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION
	if got := reason(site, r); !strings.Contains(got, "images, and plain features") {
		t.Errorf("convolutions of coefficients: %v", got)
	}
	tables := smallSite(t, 3)
	s := sumRound("r", 1, 0)
	s.sum.Teacher.Features, s.sum.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 1
	if got := reason(tables, s); !strings.Contains(got, "need records that are images") {
		t.Errorf("cosines of a table: %v", got)
	}
}
