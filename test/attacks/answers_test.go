package attacks

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// answerCase is what a hostile node does in a round that it was asked.
type answerCase struct {
	question func() question
	send     func(p *party, a asked)
	counted  map[string]float64 // rejections, by kind
	ends     codes.Code         // how its stream ends; OK if it does not
	says     string             // and why
	// takes is the counted answer of the node: its first, which was valid; nil if none counts.
	takes []int64
}

func good(a asked) *conclavev1.WorkRequest {
	return votesOf(a, hostileTeachers, 5, 2, func(int, int) int { return 1 })
}

// goodCounts is the histogram of that answer and the honest one.
func goodCounts() []int64 {
	counts := slices.Clone(votes().counts)
	for q := range 5 {
		counts[2*q+1] += hostileTeachers
	}
	return counts
}

func with(change func(v *conclavev1.Votes)) func(*party, asked) {
	return func(p *party, a asked) {
		m := good(a)
		change(m.GetVotes())
		p.say(m)
	}
}

func sums(values ...int64) func(*party, asked) {
	return func(p *party, a asked) { p.say(sumOf(a, values)) }
}

func times(kind string, n float64) map[string]float64 { return map[string]float64{kind: n} }

func answerCases() map[string]answerCase {
	one := func(kind string) map[string]float64 { return times(kind, 1) }
	repeated := func(n int, say func(p *party, a asked, i int)) func(*party, asked) {
		return func(p *party, a asked) {
			for i := range n {
				say(p, a, i)
			}
		}
	}
	return map[string]answerCase{
		"a message of more than 4 MiB": {votes, with(func(v *conclavev1.Votes) {
			v.Packed = make([]byte, 4<<20)
		}), one("oversized"), codes.ResourceExhausted, "larger than max", nil},
		"a MiB of votes": {votes, with(func(v *conclavev1.Votes) {
			v.Packed = make([]byte, 1<<20)
		}), one("oversized"), 0, "", nil},
		"one byte too many": {votes, with(func(v *conclavev1.Votes) {
			v.Packed = append(v.Packed, 0)
		}), one("oversized"), 0, "", nil},
		"one byte too few": {votes, with(func(v *conclavev1.Votes) {
			v.Packed = v.Packed[1:]
		}), one("malformed"), 0, "", nil},
		"no votes": {votes, with(func(v *conclavev1.Votes) { v.Packed = nil }), one("malformed"), 0, "", nil},
		"votes of one teacher more": {votes, with(func(v *conclavev1.Votes) {
			v.Teachers, v.Packed = v.Teachers+1, append(v.Packed, v.Packed[0])
		}), one("malformed"), 0, "", nil},
		"votes of 2^32-1 teachers": {votes, with(func(v *conclavev1.Votes) {
			v.Teachers = math.MaxUint32
		}), one("malformed"), 0, "", nil},
		"votes on one query more": {votes, with(func(v *conclavev1.Votes) {
			v.Queries++
		}), one("malformed"), 0, "", nil},
		"padding that is not zero": {votes, with(func(v *conclavev1.Votes) {
			v.Packed[2] |= 0x20
		}), one("malformed"), 0, "", nil},
		"a class out of range": {bins, func(p *party, a asked) {
			p.say(votesOf(a, hostileTeachers, 6, 3, func(_, q int) int { return q / 5 * 3 }))
		}, one("out_of_range"), 0, "", nil},
		"a sum for votes": {votes, sums(1, 2, 3), one("malformed"), 0, "", nil},
		"votes for a sum": {classCounts, func(p *party, a asked) {
			p.say(good(a))
		}, one("malformed"), 0, "", nil},
		"a sum too short":         {classCounts, sums(1), one("malformed"), 0, "", nil},
		"a sum too long":          {classCounts, sums(1, 2, 3), one("oversized"), 0, "", nil},
		"no sum":                  {classCounts, sums(), one("malformed"), 0, "", nil},
		"a negative class count":  {classCounts, sums(-1, 5), one("out_of_range"), 0, "", nil},
		"an absurd class count":   {classCounts, sums(5, 1<<53+1), one("out_of_range"), 0, "", nil},
		"the least class count":   {classCounts, sums(math.MinInt64, 0), one("out_of_range"), 0, "", nil},
		"a gradient out of range": {gradients, sums(hostileTeachers*fixed+1, 0, 0), one("out_of_range"), 0, "", nil},
		"a gradient too long": {gradients, sums(hostileTeachers*fixed, hostileTeachers*fixed, 0),
			one("out_of_range"), 0, "", nil},
		"the least gradient": {gradients, sums(math.MinInt64, math.MinInt64, math.MinInt64),
			one("out_of_range"), 0, "", nil},
		"a discriminator's gradient": {discriminator, sums(0, 1<<27*fixed+1, 0), one("out_of_range"), 0, "", nil},
		"an embedding out of range":  {embedding, sums(0, 0, -(1<<27)*fixed-1), one("out_of_range"), 0, "", nil},
		"scores out of range":        {scores, sums(math.MaxInt64, 0), one("out_of_range"), 0, "", nil},
		"sums of a fit out of range": {logistic, sums(0, 0, math.MinInt64, 0, 0, 0), one("out_of_range"), 0, "", nil},
		"the same answer twice": {votes, func(p *party, a asked) {
			p.say(good(a))
			p.say(good(a))
		}, one("duplicate"), 0, "", goodCounts()},
		"another answer": {votes, func(p *party, a asked) {
			p.say(good(a))
			p.say(votesOf(a, hostileTeachers, 5, 2, func(int, int) int { return 0 }))
		}, one("duplicate"), 0, "", goodCounts()},
		"a good answer after a bad one": {votes, func(p *party, a asked) {
			with(func(v *conclavev1.Votes) { v.Packed = nil })(p, a)
			p.say(good(a))
		}, map[string]float64{"malformed": 1, "duplicate": 1}, 0, "", nil},
		"a refusal and then votes": {votes, func(p *party, a asked) {
			p.say(refusalOf(a, "no"))
			p.say(good(a))
		}, map[string]float64{"refusal": 1, "duplicate": 1}, 0, "", nil},
		"a refusal of 2 MiB and control characters": {votes, func(p *party, a asked) {
			p.say(refusalOf(a, strings.Repeat("\x1b[2J\n", 1<<19)))
		}, one("refusal"), 0, "", nil},
		"a flood of refusals": {votes, repeated(300, func(p *party, a asked, _ int) { p.say(refusalOf(a, "no")) }),
			map[string]float64{"refusal": 1, "duplicate": 64}, codes.PermissionDenied, "banned", nil},
		"a flood of nonsense that never reads": {votes, repeated(5000, func(p *party, a asked, i int) {
			a.attempt = uint64(i) + 1e6
			p.say(good(a))
		}), times("unasked", 64), codes.PermissionDenied, "banned", nil},
		"an attempt that is none": {votes, func(p *party, a asked) {
			a.attempt = 0
			p.say(good(a))
		}, one("unasked"), 0, "", nil},
		"the attempt of another stream": {votes, func(p *party, a asked) {
			a.attempt += 1000
			p.say(good(a))
		}, one("unasked"), 0, "", nil},
		"an unknown run": {votes, with(func(v *conclavev1.Votes) { v.Run = "nobody" }), one("foreign"), 0, "", nil},
		"no run":         {votes, with(func(v *conclavev1.Votes) { v.Run = "" }), one("foreign"), 0, "", nil},
		"a run of 1 MiB": {votes, with(func(v *conclavev1.Votes) {
			v.Run = strings.Repeat("r", 1<<20)
		}), one("foreign"), 0, "", nil},
		"the next round": {votes, with(func(v *conclavev1.Votes) { v.Round++ }), one("foreign"), 0, "", nil},
		"round 2^64-1": {votes, with(func(v *conclavev1.Votes) {
			v.Round = math.MaxUint64
		}), one("foreign"), 0, "", nil},
		"an empty message": {votes, func(p *party, _ asked) {
			p.say(&conclavev1.WorkRequest{})
		}, one("protocol"), codes.InvalidArgument, "empty message", nil},
		"a second hello": {votes, func(p *party, _ asked) {
			p.say(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: helloOf("d0",
				"mallory", "m", 1)}})
		}, one("protocol"), codes.InvalidArgument, "second hello", nil},
		"a field that nobody knows": {votes, func(p *party, _ asked) {
			m := new(conclavev1.WorkRequest)
			m.ProtoReflect().SetUnknown(field(99, []byte("x")))
			p.say(m)
		}, one("protocol"), codes.InvalidArgument, "empty message", nil},
	}
}

// Whatever a node answers, it is named, counted under its kind, and in no histogram. The honest node's round ends as
// if the other had said nothing.
func TestHostileAnswers(t *testing.T) {
	w := attacked(t)
	for name, c := range answerCases() {
		t.Run(name, func(t *testing.T) {
			q := c.question()
			if c.takes != nil { // wait for both
				q.open = func(s *conclavev1.RunSpec) { s.Quorum = 1 }
			}
			s := w.scene(t, q)
			m := s.mallory(t)
			before := w.rejections(t)
			over := s.ask(t, 0)
			a, first := m.next(t), s.honest.next(t)
			c.send(m, a)
			if c.ends != codes.OK {
				if err := m.over(t); status.Code(err) != c.ends || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the stream ended with %v, want %v and %q", err, c.ends, c.says)
				}
			}
			for kind, n := range c.counted {
				testkit.Eventually(t, fmt.Sprintf("%v more of kind %s", n, kind), func() bool {
					return w.rejections(t)[kind]-before[kind] >= n
				})
			}
			s.honest.say(s.q.honest(first))
			release := s.answer(t, over)
			for kind, n := range w.rejections(t) {
				if n-before[kind] != c.counted[kind] {
					t.Errorf("%v more of kind %s, want %v", n-before[kind], kind, c.counted[kind])
				}
			}
			want, teachers := s.q.counts, uint32(honestTeachers)
			if c.takes != nil {
				want, teachers = c.takes, honestTeachers+hostileTeachers
			}
			if c.ends == codes.OK && c.counted["foreign"]+c.counted["unasked"] > 0 {
				teachers += hostileTeachers // its answer is still pending; lateness is not revealed
			}
			if release.GetTeachers() != teachers {
				t.Errorf("%d teachers took part, want %d", release.GetTeachers(), teachers)
			}
			if got := w.countsOf(s.spec.GetName()); want != nil && !slices.Equal(got, want) {
				t.Errorf("the histogram is %v, want %v", got, want)
			}
			if c.ends == codes.OK {
				select {
				case <-m.ended:
					t.Errorf("the stream ended: %v", m.err)
				default:
				}
			}
			w.healthy(t)
		})
	}
}

// An answer after the end of a round counts as late, once; another one is a duplicate. Lateness costs the node
// nothing.
func TestLateAnswers(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	m := s.mallory(t)
	before := w.rejections(t)
	for round := range uint64(3) {
		s.answer(t, s.ask(t, round))
		s.exact(t)
		a := m.next(t)
		m.say(good(a))
		m.say(good(a))
	}
	for kind, n := range map[string]float64{"late": 3, "duplicate": 3} {
		w.awaitRejections(t, before, kind, n)
	}
}

// A round that is asked again with another question accepts no answer to the first one.
func TestAnswersToAnOldAttempt(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	m := s.mallory(t)
	before := w.rejections(t)
	first, gone := s.asking(t, 0)
	old := m.next(t)
	testkit.Receive(t, s.honest.rounds)
	first()
	testkit.Receive(t, gone)
	other := s.q.round(s.spec.GetName(), 0)
	other.Params = []byte("other records")
	over := make(chan outcome, 1)
	ctx := testkit.Within(t)
	go func() {
		for { // the first may still be ending
			r, err := ask(ctx, s.student, other)
			if status.Code(err) == codes.FailedPrecondition && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			over <- outcome{r, err}
			return
		}
	}()
	again, honest := m.next(t), s.honest.next(t)
	if again.attempt == old.attempt {
		t.Errorf("both are attempt %d", old.attempt)
	}
	m.say(good(old))
	w.awaitRejections(t, before, "stale", 1)
	s.honest.say(s.q.honest(honest))
	s.answer(t, over)
	s.exact(t)
}

// A node answers only for its own dataset, even with the run, round and attempt of another dataset, and before
// anything is asked.
func TestAnswersToAnotherDataset(t *testing.T) {
	w := attacked(t)
	s, elsewhere := w.scene(t, votes()), w.scene(t, votes())
	conn := w.dial(t, certs.RoleNode, "mallory")
	m := join(t, conn, helloOf(s.spec.GetDataset(), "mallory", "m", hostileTeachers))
	spy := join(t, conn, helloOf(elsewhere.spec.GetDataset(), "mallory", "m", hostileTeachers))
	before := w.rejections(t)
	early := asked{s.q.round(s.spec.GetName(), 0), 1}
	m.say(good(early))
	w.awaitRejections(t, before, "foreign", 1)
	over, overThere := s.ask(t, 0), elsewhere.ask(t, 0)
	seen := spy.next(t)
	testkit.Receive(t, m.rounds)
	m.say(good(seen))
	w.awaitRejections(t, before, "foreign", 2)
	s.answer(t, over)
	elsewhere.answer(t, overThere)
	for _, of := range []*scene{s, elsewhere} {
		of.exact(t)
	}
}

// Two streams with one name are one node: the older one ends, and the node has one answer.
func TestTwoStreamsUnderOneName(t *testing.T) {
	w := attacked(t)
	q := votes()
	q.open = func(s *conclavev1.RunSpec) { s.Quorum = 1 }
	s := w.scene(t, q)
	h := helloOf(s.spec.GetDataset(), "mallory", "m", hostileTeachers)
	first := join(t, w.dial(t, certs.RoleNode, "mallory"), h)
	over := s.ask(t, 0)
	before := w.rejections(t)
	a := first.next(t)
	first.say(good(a))
	first.say(good(a))
	w.awaitRejections(t, before, "duplicate", 1)
	second := join(t, w.dial(t, certs.RoleNode, "mallory"), h)
	if err := first.over(t); status.Code(err) != codes.Aborted {
		t.Errorf("the first stream ended with %v", err)
	}
	select {
	case a := <-second.rounds:
		t.Errorf("a node that has answered round %d is asked again", a.round.GetNumber())
	case <-time.After(50 * time.Millisecond):
	}
	second.say(good(asked{s.q.round(s.spec.GetName(), 0), 1}))
	release := s.answer(t, over)
	if got := w.countsOf(s.spec.GetName()); release.GetTeachers() != 8 || !slices.Equal(got, goodCounts()) {
		t.Errorf("%d teachers took part, with %v, want %v", release.GetTeachers(), got, goodCounts())
	}
}

// A banned node stays banned, with the reason; its site's other nodes do not.
func TestBannedNodesStayOut(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	conn := w.dial(t, certs.RoleNode, "mallory")
	h := helloOf(s.spec.GetDataset(), "mallory", "m", 2)
	before := w.metrics(t)
	const out = "conclave_nodes_banned_total"
	strikes := 0
	for w.metrics(t)[out] == before[out] {
		// A new stream does not reset it.
		m := join(t, conn, h)
		for range 20 {
			m.say(&conclavev1.WorkRequest{
				Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Run: "nobody"}},
			})
		}
		strikes += 20
		if strikes <= 80 {
			testkit.Eventually(t, "strikes", func() bool {
				now := w.metrics(t)
				const foreign = `conclave_messages_rejected_total{kind="foreign"}`
				return now[foreign]-before[foreign] >= float64(strikes) || now[out] > before[out]
			})
		}
		m.leave()
	}
	if strikes != 80 {
		t.Errorf("out after %d messages, want to be after 64", strikes)
	}
	p := work(t, conn)
	p.say(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
	if err := p.over(t); status.Code(err) != codes.PermissionDenied ||
		!strings.Contains(err.Error(), "mallory/m is banned") || !strings.Contains(err.Error(), "without being asked") {
		t.Errorf("who is out is told %v", err)
	}
	join(t, conn, helloOf(s.spec.GetDataset(), "mallory", "other", 2))
	s.answer(t, s.ask(t, 0))
	if got := w.metrics(t)[out] - before[out]; got != 1 {
		t.Errorf("%v nodes were banned", got)
	}
}

// What the student and others see of a node's own text is short and on one line.
func TestRefusalsThatReachAStudent(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	m := s.mallory(t)
	over := s.ask(t, 0)
	m.say(refusalOf(m.next(t), "first\nlevel=error \x00\x1b[31m"+strings.Repeat("é", 1<<20)))
	s.honest.say(refusalOf(s.honest.next(t), "no"))
	o := testkit.Receive(t, over)
	text := status.Convert(o.err).Message()
	if status.Code(o.err) != codes.FailedPrecondition ||
		!strings.Contains(text, "mallory/m refused: firstlevel=error [31m") {
		t.Errorf("the student is told %.300q", text)
	}
	if len(text) > 5000 || strings.ContainsAny(text, "\n\x00\x1b") {
		t.Errorf("%d bytes, %q", len(text), text[:300])
	}
}

// Names of every kind that a hello may contain.
func TestHostileHellos(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	d := s.spec.GetDataset()
	join(t, w.dial(t, certs.RoleNode, "mallory"), helloOf(d, "mallory", "known", 2)).leave()
	giant := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		change func(h *conclavev1.Hello)
		code   codes.Code
		says   string
		reason string
	}{
		"an old protocol": {func(h *conclavev1.Hello) {
			h.Protocol = 3
		}, codes.FailedPrecondition, "protocol 3", "not_allowed"},
		"protocol 2^32-1": {func(h *conclavev1.Hello) {
			h.Protocol = math.MaxUint32
		}, codes.FailedPrecondition, "4294967295", "not_allowed"},
		"a foreign site": {func(h *conclavev1.Hello) {
			h.Site = "north"
		}, codes.PermissionDenied, "north", "permission"},
		"a giant site": {func(h *conclavev1.Hello) { h.Site = giant }, codes.PermissionDenied, "xxx...", "permission"},
		"an unknown dataset": {func(h *conclavev1.Hello) {
			h.Dataset = "elsewhere"
		}, codes.FailedPrecondition, "elsewhere", "not_allowed"},
		"a giant dataset": {func(h *conclavev1.Hello) {
			h.Dataset = giant
		}, codes.FailedPrecondition, "xxx...", "not_allowed"},
		"no node name": {func(h *conclavev1.Hello) { h.Node = "" }, codes.InvalidArgument, "node", "malformed"},
		"a path as node name": {func(h *conclavev1.Hello) {
			h.Node = "../../a"
		}, codes.InvalidArgument, "../../a", "malformed"},
		"a giant node name": {func(h *conclavev1.Hello) {
			h.Node = giant
		}, codes.InvalidArgument, "xxx...", "malformed"},
		"a node name of control": {func(h *conclavev1.Hello) {
			h.Node = "a\nlevel=error\x1b[2J"
		}, codes.InvalidArgument, "alevel=error", "malformed"},
		"no teachers": {func(h *conclavev1.Hello) { h.Teachers = 0 }, codes.InvalidArgument, "0 teachers", "malformed"},
		"2^32-1 teachers": {func(h *conclavev1.Hello) {
			h.Teachers = math.MaxUint32
		}, codes.InvalidArgument, "4294967295", "malformed"},
		"another schema": {func(h *conclavev1.Hello) {
			h.SchemaSha256 = giant
		}, codes.FailedPrecondition, "schema", "not_allowed"},
		"another unit": {func(h *conclavev1.Hello) { h.Unit = giant }, codes.FailedPrecondition, "unit", "not_allowed"},
		"no manifest":  {func(h *conclavev1.Hello) { h.Manifest = "" }, codes.InvalidArgument, "manifest", "malformed"},
		"a giant manifest": {func(h *conclavev1.Hello) {
			h.Manifest = giant
		}, codes.InvalidArgument, "manifest", "malformed"},
		"another manifest": {func(h *conclavev1.Hello) { h.Node, h.Teachers, h.Manifest = "known", 2, "other" },
			codes.FailedPrecondition, "manifest", "not_allowed"},
		"more teachers than before": {func(h *conclavev1.Hello) {
			h.Node, h.Manifest, h.Teachers = "known", "fingerprint-mallory-known", 3
		},
			codes.FailedPrecondition, "number of teachers", "not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			counter := `conclave_nodes_refused_total{reason="` + c.reason + `"}`
			before := w.metrics(t)[counter]
			h := helloOf(d, "mallory", "m", hostileTeachers)
			c.change(h)
			p := work(t, w.dial(t, certs.RoleNode, "mallory"))
			p.say(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
			err := p.over(t)
			if text := status.Convert(err).Message(); status.Code(err) != c.code || !strings.Contains(text, c.says) ||
				len(text) > 5000 || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("the stream ended with %.500v, want %v and %q", err, c.code, c.says)
			}
			if got := w.metrics(t)[counter] - before; got != 1 {
				t.Errorf("counted %v times as %s", got, c.reason)
			}
		})
	}
	if nodes := w.metrics(t)[`conclave_connected_nodes{dataset="`+d+`"}`]; nodes != 1 {
		t.Errorf("%v nodes are connected", nodes)
	}
	s.answer(t, s.ask(t, 0))
	s.exact(t)
}

// Bytes that are not a message of the protocol end the stream, before and after a hello.
func TestHostileBytes(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	hello := encoded(t, &conclavev1.WorkRequest{
		Message: &conclavev1.WorkRequest_Hello{Hello: helloOf(s.spec.GetDataset(), "mallory", "m", hostileTeachers)},
	})
	badText := bytes.Replace(hello, []byte("mallory"), []byte("mallor\xff"), 1)
	vote := encoded(t, good(asked{s.q.round(s.spec.GetName(), 0), 1}))
	for name, c := range map[string]struct {
		messages [][]byte
		kind     string
		code     codes.Code
		says     string
	}{
		"no bytes first": {[][]byte{{}}, "protocol", codes.InvalidArgument, "must be a hello"},
		"votes first":    {[][]byte{vote}, "protocol", codes.InvalidArgument, "must be a hello"},
		"garbage first": {[][]byte{{0xff, 0xff, 0xff}}, "malformed", codes.Internal,
			"not a message of this protocol"},
		"text that is no UTF-8": {[][]byte{badText}, "malformed", codes.Internal, "not a message of this protocol"},
		"half a hello": {[][]byte{hello[:len(hello)/2]}, "malformed", codes.Internal,
			"not a message of this protocol"},
		"5 MiB first": {[][]byte{make([]byte, 5<<20)}, "oversized", codes.ResourceExhausted, "4194304"},
		"garbage":     {[][]byte{hello, {0x12, 0x99}}, "malformed", codes.Internal, "not a message of this protocol"},
		"a length of 2^63": {[][]byte{hello, {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
			"malformed", codes.Internal, "not a message of this protocol"},
		"a field of another kind": {[][]byte{hello, {2 << 3, 1}}, "protocol", codes.InvalidArgument, "empty message"},
		"a group within a group": {[][]byte{hello, bytes.Repeat([]byte{99<<3&0x7f | 3}, 1<<16)}, "malformed",
			codes.Internal, "not a message of this protocol"},
		"some fields of two bytes": {[][]byte{hello, bytes.Repeat([]byte{15 << 3, 0}, 1000)}, "protocol",
			codes.InvalidArgument, "empty message"},
		"4 MiB of fields of two bytes": {[][]byte{hello, bytes.Repeat([]byte{15 << 3, 0}, 2<<20-1)}, "malformed",
			codes.Internal, "not a message of this protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.rejections(t)
			stream, err := rawStream(testkit.Within(t), w.dial(t, certs.RoleNode, "mallory"), workMethod)
			testkit.Must(t, err)
			for _, m := range c.messages {
				_ = stream.SendMsg(m)
			}
			if err := drained(stream); status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the stream ended with %v, want %v and %q", err, c.code, c.says)
			}
			w.awaitRejections(t, before, c.kind, 1)
		})
	}
	s.answer(t, s.ask(t, 0))
	s.exact(t)
}

// asking asks a round and gives up when told.
func (s *scene) asking(t testing.TB, number uint64) (giveUp func(), gone <-chan error) {
	over := make(chan error, 1)
	ctx, cancel := withCancel(t)
	go func() {
		_, err := ask(ctx, s.student, proto.Clone(s.q.round(s.spec.GetName(), number)).(*conclavev1.Round))
		over <- err
	}()
	return cancel, over
}
