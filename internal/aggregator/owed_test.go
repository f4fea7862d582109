package aggregator

import (
	"testing"

	"pgregory.net/rapid"
)

func TestOwedAnswers(t *testing.T) {
	var o owed
	a, b := asking{roundKey{"r", 0}, 3}, asking{roundKey{"r", 1}, 5}
	o.ask(a)
	o.ask(b)
	for _, c := range []struct {
		answer asking
		want   string
	}{
		{asking{roundKey{"r", 1}, 3}, foreignKind}, // the attempt of another round
		{asking{roundKey{"r", 0}, 4}, foreignKind}, // of another stream
		{asking{roundKey{"r", 0}, 0}, foreignKind}, // brings nothing back
		{asking{roundKey{"q", 0}, 3}, foreignKind}, // another run
		{b, ""}, {b, duplicateKind}, {a, ""}, {a, duplicateKind}, {asking{roundKey{"r", 2}, 6}, foreignKind},
	} {
		if got := o.answer(c.answer); got != c.want {
			t.Errorf("%v is %q, want %q", c.answer, got, c.want)
		}
	}
}

// Whatever a node answers, at most one answer to each round that it was sent is taken for
// one, and what is remembered is bounded. An honest node, which answers each at most once,
// is never rejected, however late it is.
func TestOwedIsAtMostOneAnswerForEachRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o owed
		var sent []asking
		normal, rejected := 0, 0
		honest := rapid.Bool().Draw(t, "honest")
		unanswered := map[asking]bool{}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(sent) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				a := asking{roundKey{"r", uint64(len(sent) / 2)}, uint64(len(sent)) + 1}
				o.ask(a)
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
				a.attempt += rapid.SampledFrom([]uint64{0, 0, 0, 1, ^uint64(0)}).Draw(t, "off by")
			}
			switch o.answer(a) {
			case "", lateKind:
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
		if len(o.open) > maxOwed || len(o.answered) > 16 {
			t.Fatalf("%d and %d rounds are remembered", len(o.open), len(o.answered))
		}
	})
}
