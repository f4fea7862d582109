package peer

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

func TestPendingAnswers(t *testing.T) {
	var p pending
	a, b := Round{"r", 0, 3}, Round{"r", 1, 5}
	p.ask(a)
	p.ask(b)
	for _, c := range []struct {
		answer Round
		want   fault.Kind
	}{
		{Round{"r", 1, 3}, fault.Foreign}, // the attempt of another round
		{Round{"r", 0, 4}, fault.Foreign}, // of another stream
		{Round{"r", 0, 0}, fault.Foreign}, // expects no answer
		{Round{"q", 0, 3}, fault.Foreign}, // another run
		{b, ""}, {b, fault.Duplicate}, {a, ""}, {a, fault.Duplicate}, {Round{"r", 2, 6}, fault.Foreign},
	} {
		if got := p.answer(c.answer); got != c.want {
			t.Errorf("%v is %q, want %q", c.answer, got, c.want)
		}
	}
}

// A node queues as many rounds as it can, and answers the first last.
func TestAnswersToAllThatANodeKeeps(t *testing.T) {
	var p pending
	const kept = 1024 // in package node
	for i := range uint64(kept + 1) {
		p.ask(Round{"r", i, i + 1})
	}
	for i := range uint64(kept + 1) {
		if got := p.answer(Round{"r", kept - i, kept - i + 1}); got != "" {
			t.Fatalf("the answer to round %d is %s", kept-i, got)
		}
	}
}

// At most one answer to each round sent to a node is accepted, and memory is bounded. An honest node, which answers
// each round at most once, is never rejected, however late it is.
func TestAtMostOneAnswerForEachRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pending
		var sent []Round
		normal, rejected := 0, 0
		honest := rapid.Bool().Draw(t, "honest")
		unanswered := map[Round]bool{}
		for range rapid.SampledFrom([]int{0, maxPending - 20}).Draw(t, "before") {
			a := Round{"r", uint64(len(sent) / 2), uint64(len(sent)) + 1}
			p.ask(a)
			sent = append(sent, a)
			unanswered[a] = true
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(sent) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				a := Round{"r", uint64(len(sent) / 2), uint64(len(sent)) + 1}
				p.ask(a)
				sent = append(sent, a)
				unanswered[a] = true
				continue
			}
			a := rapid.SampledFrom(sent).Draw(t, "answered")
			if honest && !unanswered[a] {
				continue
			}
			delete(unanswered, a)
			if !honest {
				a.Attempt += rapid.SampledFrom([]uint64{0, 0, 0, 1, ^uint64(0)}).Draw(t, "off by")
			}
			switch p.answer(a) {
			case "", fault.Late:
				normal++
			default:
				rejected++
			}
		}
		if normal > len(sent) {
			t.Fatalf("%d answers to %d rounds", normal, len(sent))
		}
		if honest && rejected > 0 {
			t.Fatalf("%d answers of an honest node were rejected", rejected)
		}
		if len(p.open) > maxPending || len(p.answered) > maxAnswered {
			t.Fatalf("%d and %d rounds are remembered", len(p.open), len(p.answered))
		}
	})
}
