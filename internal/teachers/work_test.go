package teachers

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node computes as many steps, on as many records, whether it has records of a class, of a
// teacher, or more than one.
func TestWorkDoesNotDependOnRecords(t *testing.T) {
	const teachers = 3
	units := questiontest.SmallUnits(t, partition.UnitRecord, 60, func(int) bool { return true })
	site := func(keep func(teacher, class int) int) *question.Site {
		s := questiontest.Site(t, units, teachers)
		for i, e := range s.Examples {
			for c, x := range e.ByClass {
				if n := keep(i, c) * s.Features; n < len(x) {
					e.ByClass[c] = x[:n]
				}
			}
		}
		return s
	}
	sites := map[string]func() *question.Site{
		"all":        func() *question.Site { return site(func(int, int) int { return 1 << 20 }) },
		"no class 1": func() *question.Site { return site(func(_, c int) int { return 5 * (1 - c) }) },
		"one record of class 1": func() *question.Site {
			return site(func(i, c int) int {
				if c == 0 {
					return 5
				}
				return max(0, 1-i)
			})
		},
		"no record": func() *question.Site { return site(func(int, int) int { return 0 }) },
	}
	shared := teacherstest.Votes(3)
	shared.Teacher.Shared, shared.Teacher.Hidden = true, 4
	shared.Teacher.Model = conclavev1.TeacherSpec_MODEL_HIDDEN
	fresh := teacherstest.GradientVotes(3)
	fresh.Teacher.Fresh = true
	for name, q := range map[string]struct {
		kind   question.Kind
		params proto.Message
	}{
		"votes": {Votes, teacherstest.Votes(3)}, "shared": {Votes, shared},
		"gradients": {GradientSum, teacherstest.GradientSum(3, 1)}, "fresh": {GradientVotes, fresh},
	} {
		var want ensemble.Work
		for of, site := range sites {
			s := site()
			questiontest.MustAsk(t, s, q.kind, q.params, "r", 1)
			got := current(s).ensemble.Work()
			if want == (ensemble.Work{}) {
				want = got
			}
			if got != want || got.Steps == 0 || got.Records < got.Steps*8 {
				t.Errorf("%s, %s: %+v, elsewhere %+v", name, of, got, want)
			}
		}
	}
}
