package attacks

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Whatever a node answers to a permit, it is counted under its kind, the round continues without it, and a flood ends
// its stream.
func TestHostilePermits(t *testing.T) {
	w := attacked(t)
	flood := func(m *conclavev1.WorkRequest) []*conclavev1.WorkRequest {
		return slices.Repeat([]*conclavev1.WorkRequest{m}, 300)
	}
	asOf := func(m *conclavev1.WorkResponse) asked {
		return asked{attempt: m.GetAttempt(), round: &conclavev1.Round{Run: m.GetPermit().GetRun(),
			Number: m.GetPermit().GetRound()}}
	}
	for name, c := range map[string]struct {
		permit  func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest
		counted map[string]float64
		banned  bool
	}{
		"votes": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{good(asOf(m))}
		}, times("malformed", 1), false},
		"a sum": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{sumOf(asOf(m), []int64{1, 2})}
		}, times("malformed", 1), false},
		"a refusal of a MiB": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{refusalOf(asOf(m), strings.Repeat("\x1b[2J", 1<<18))}
		}, times("refusal", 1), false},
		"a refusal, and then it permits": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{refusalOf(asOf(m), "no"), permits(m)}
		}, map[string]float64{"refusal": 1, "duplicate": 1}, false},
		"a flood": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			return flood(permits(m))
		}, times("duplicate", 64), true},
		"a flood for a run that it was not asked about": {
			func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
				m.GetPermit().Run = "nobody"
				return flood(permits(m))
			}, times("foreign", 64), true},
		"a flood by an attempt that is none": {func(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
			m.Attempt += 1000
			return flood(permits(m))
		}, times("unasked", 64), true},
	} {
		t.Run(name, func(t *testing.T) {
			q := votes()
			q.open = func(s *conclavev1.RunSpec) { s.Quorum = 0.5 }
			s := w.scene(t, q)
			m := workWith(t, w.dial(t, certs.RoleNode, "mallory"), c.permit).join(t,
				helloOf(s.spec.GetDataset(), "mallory", "m", hostileTeachers))
			before := w.rejections(t)
			over := s.ask(t, 0)
			first := s.honest.next(t)
			if c.banned {
				if err := m.over(t); status.Code(err) != codes.PermissionDenied {
					t.Errorf("the stream ended with %v", err)
				}
			}
			for kind, n := range c.counted {
				w.awaitRejections(t, before, kind, n)
			}
			s.honest.say(s.q.honest(first))
			release := s.answer(t, over)
			if got := w.countsOf(s.spec.GetName()); !c.banned && !slices.Equal(got, s.q.counts) ||
				release.GetTeachers() != honestTeachers {
				t.Errorf("%d teachers took part, the histogram is %v", release.GetTeachers(), got)
			}
			w.healthy(t)
			s.close(t)
		})
	}
}

// close ends a scene's run, because a student's open runs are limited.
func (s *scene) close(t *testing.T) {
	t.Helper()
	_, err := s.student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: s.spec.GetName()})
	testkit.Must(t, err)
}

// A permit is not an answer to a round.
func TestAPermitIsNoAnswer(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	m := s.mallory(t)
	before := w.rejections(t)
	over := s.ask(t, 0)
	a, first := m.next(t), s.honest.next(t)
	m.say(&conclavev1.WorkRequest{Attempt: a.attempt, Message: &conclavev1.WorkRequest_Permitted{
		Permitted: &conclavev1.Permitted{Run: a.round.GetRun(), Round: a.round.GetNumber()},
	}})
	w.awaitRejections(t, before, "malformed", 1)
	s.honest.say(s.q.honest(first))
	if release := s.answer(t, over); release.GetTeachers() != honestTeachers {
		t.Errorf("%d teachers took part", release.GetTeachers())
	}
	s.close(t)
}
