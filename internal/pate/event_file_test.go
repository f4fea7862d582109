package pate

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestParseEventsWithVotes(t *testing.T) {
	confident := privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 120, Sigma1: 30, Sigma2: 20}
	with := func(e privacy.Event, asked, answered int64) privacy.Event {
		e.Asked, e.Answered = asked, answered
		return e
	}
	for text, want := range map[string]VotedEvent{
		`{"kind":"gnmax","sigma":40,"votes":[[12,188],[180,20]]}`: {
			Event: privacy.Event{Kind: privacy.GNMax, Sigma: 40, Count: 2}, Votes: [][]int64{{12, 188}, {180, 20}},
		},
		`{"kind":"lnmax","lambda":0.1,"count":1,"votes":[[3,5]]}`: {
			Event: privacy.Event{Kind: privacy.LNMax, Lambda: 0.1, Count: 1}, Votes: [][]int64{{3, 5}},
		},
		`{"kind":"confident-gnmax","threshold":120,"sigma1":30,"sigma2":20,"votes":[[12,188],[1,199]]}`: {
			Event: with(confident, 2, 2), Votes: [][]int64{{12, 188}, {1, 199}},
		},
		`{"kind":"confident-gnmax","threshold":120,"sigma1":30,"sigma2":20,` +
			`"votes":[[12,188],{"votes":[101,99],"answered":false}]}`: {
			Event: with(confident, 2, 1), Votes: [][]int64{{12, 188}, {101, 99}}, Unanswered: []bool{false, true},
		},
		`{"kind":"confident-gnmax","threshold":120,"sigma1":30,"sigma2":20,` +
			`"answered":false,"votes":[[100,100],[99,101]]}`: {
			Event: with(confident, 2, 0), Votes: [][]int64{{100, 100}, {99, 101}}, Unanswered: []bool{true, true},
		},
		`{"kind":"confident-gnmax","threshold":120,"sigma1":30,"sigma2":20,"asked":5,"answered":3}`: {
			Event: with(confident, 5, 3),
		},
	} {
		events, err := ParseEvents(strings.NewReader("[" + text + "]"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff([]VotedEvent{want}, events); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestParseEventsRefuses(t *testing.T) {
	for _, c := range []struct{ text, part string }{
		{`{"kind":"gnmax","sigma":40,"count":3,"votes":[[1,2]]}`, "count is 3, but the votes give 1"},
		{`{"kind":"gnmax","sigma":40,"votes":[]}`, "votes have no query"},
		{`{"kind":"gnmax","sigma":40,"votes":[[]]}`, "query 1"},
		{`{"kind":"gnmax","sigma":40,"votes":[[5]]}`, "query 1"},
		{`{"kind":"gnmax","sigma":40,"votes":[[1,-2]]}`, "query 1"},
		{`{"kind":"gnmax","sigma":40,"votes":[[1,2.5]]}`, "votes of query 1 are not a list of whole numbers"},
		{`{"kind":"gnmax","sigma":40,"votes":[{}]}`, "query 1 are missing"},
		{`{"kind":"gnmax","sigma":40,"votes":[null]}`, "null is not a value"},
		{`{"kind":"gnmax","sigma":40,"votes":[[1,null]]}`, "null is not a value"},
		{`{"kind":"gnmax","sigma":40,"count":null}`, "null is not a value"},
		{`{"kind":"gnmax","sigma":40,"count":9,"count":1}`, `"count" appears twice`},
		{`{"kind":"gnmax","sigma":40,"votes":[{"votes":[1,2],"votes":[1,9]}]}`, `"votes" appears twice`},
		{`{"kind":"gnmax","sigma":40,"Count":1}`, `unknown field "Count"`},
		{`{"kind":"gnmax","ſigma":40,"count":1}`, `unknown field "ſigma"`},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"asked":9}`, "answered is missing"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"asked":9,"answered":null}`,
			"null is not a value"},
		{`{"kind":"gnmax","sigma":40,"answered":false,"votes":[[1,2]]}`, "does not belong"},
		{`{"kind":"gnmax","sigma":40,"votes":[{"votes":[1,2],"answered":true}]}`, "does not belong"},
		{`{"kind":"gnmax","sigma":40,"votes":[{"counts":[1,2]}]}`, "unknown field"},
		{`{"kind":"gaussian","sigma":40,"sensitivity":1,"votes":[[1,2]]}`, "do not belong"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"asked":1,"answered":true}`, "without votes"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"answered":"no","votes":[[1,2]]}`,
			"whole number"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"answered":1,"votes":[[1,2],[2,1]]}`,
			"answered is 1, but the votes give 2"},
		{`{"kind":"subsampled-gaussian","rate":1.5,"noise_multiplier":1,"count":1}`, "rate is 1.5"},
		{`{"kind":"subsampled-gaussian","rate":0.5,"noise_multiplier":1,"sensitivity":1,"count":1}`,
			"sensitivity is 1; it must be the number of sites"},
		{`{"kind":"gnmax","sigma":40,"votes":[[9223372036854775807,9223372036854775807,9223372036854775807]]}`,
			"query 1"},
		// A field of another kind counts as given even if it is 0.
		{`{"kind":"lnmax","lambda":5,"sigma":0,"count":1}`, "sigma does not belong"},
		{`{"kind":"gnmax","sigma":5,"count":1,"threshold":0}`, "threshold does not belong"},
		{`{"kind":"gnmax","sigma":5,"count":1,"asked":0}`, "asked does not belong"},
		{`{"kind":"gnmax","sigma":5,"count":1,"answered":0}`, "answered does not belong"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"asked":1,"answered":1,"count":0}`,
			"count does not belong"},
		{`{"kind":"laplace","epsilon":1,"count":1,"votes":[]}`, "votes do not belong"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"answered":0,"votes":[[5,100]]}`,
			"answered is 0, but the votes give 1"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"asked":0,"votes":[[5,100]]}`,
			"asked is 0, but the votes give 1"},
		{`{"kind":"gnmax","sigma":40,"count":0,"votes":[[5,100]]}`, "count is 0, but the votes give 1"},
		{`{"kind":"gnmax","sigma":40,"count":3,"votes":[]}`, "votes have no query"},
		{`{"kind":"gnmax","sigma":40,"votes":5}`, "votes have no query"},
		{`{"kind":"gnmax","sigma":40,"votes":[[1,2],7]}`, "votes of query 2 are neither"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"votes":[{"votes":[1],"answered":1}]}`,
			"neither true nor false"},
		// What is wrong or missing is named as in the file.
		{`{"kind":"gnmax","sigma":40}`, "count is missing"},
		{`{"kind":"gnmax","count":1}`, "sigma is missing"},
		{`{"sigma":40,"count":1}`, "kind is missing"},
		{`{"kind":7,"count":1}`, "kind is 7"},
		{`{"kind":"gnmax","sigma":40,"count":1e3}`, "count is 1e3; give a whole number"},
		{`{"kind":"gnmax","sigma":40,"count":"3"}`, `count is "3"; give a whole number`},
		{`{"kind":"gnmax","sigma":1e999,"count":1}`, "sigma is 1e999; give a number"},
		{`{"kind":"gnmax","sigma":"40","count":1}`, `sigma is "40"; give a number`},
		{`{"kind":"gnmax","sigma":40,"cuont":1}`,
			"cuont is an unknown field; this kind has sigma, sensitivity, count, votes"},
		{`{"kind":"gnmax","sigma":40,"sensitivity":2,"votes":[[5,100]]}`,
			"sensitivity is 2, with votes; data-dependent bounds"},
		{`{"kind":"confident-gnmax","threshold":1,"sigma1":3,"sigma2":2,"answered":0}`, "asked is missing"},
		{`5`, "event 1: is not an object"},
	} {
		events, err := ParseEvents(strings.NewReader("[" + c.text + "]"))
		if err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: read as %+v with error %v; want an error with %q", c.text, events, err, c.part)
		}
	}
}

// A file that is no list says so, and in words of its own.
func TestParseEventsRefusesOtherFiles(t *testing.T) {
	for text, part := range map[string]string{
		"": "there is nothing to read", " \n": "there is nothing to read",
		`[{"kind":"gnmax","sigma":40`:             "ends within the list",
		`{"kind":"gnmax","sigma":40,"count":1}`:   "not a JSON list",
		`[]`:                                      "the list is empty",
		`[{"kind":"gnmax","sigma":4,"count":1}]]`: "",
		`[] []`: "there is data after the list", `null`: "null is not a value",
		`[{"kind":"gnmax","sigma":4,"count":1},{"kind":"gnmax","sigma":0,"count":1}]`: "event 2: ",
	} {
		events, err := ParseEvents(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: read as %+v with error %v; want an error with %q", text, events, err, part)
		}
	}
}

// Events as a ledger has them can be read, but for counts that it leaves out.
func TestParseEventsOfALedger(t *testing.T) {
	raw, err := json.Marshal(validEvents)
	testkit.Must(t, err)
	// A ledger leaves a zero out; in a file it must be said.
	said := strings.Replace(string(raw), `"asked":10}`, `"asked":10,"answered":0}`, 1)
	back, err := ParseEvents(strings.NewReader(said))
	testkit.Must(t, err)
	for i, v := range back {
		testkit.Same(t, "", VotedEvent{Event: validEvents[i]}, v)
	}
	if events, err := ParseEvents(bytes.NewReader(raw)); err == nil {
		t.Errorf("without the zero it was read as %+v", events)
	}
}

func FuzzParseEvents(f *testing.F) {
	for _, e := range validEvents {
		raw, _ := json.Marshal([]privacy.Event{e})
		f.Add(raw)
	}
	f.Add([]byte(`[{"kind":"gnmax","sigma":-1,"count":1}]`))
	f.Add([]byte(`[{"kind":"laplace","epsilon":1e308,"count":9223372036854775807}]`))
	f.Add([]byte(`[{"kind":"gnmax","sigma":1e-308,"count":1}]`))
	f.Add([]byte(`[{"kind":"lnmax","lambda":0.1,"votes":[[3,5],[0,8]]}]`))
	f.Add([]byte(`[{"kind":"confident-gnmax","threshold":120,"sigma1":30,"sigma2":20,` +
		`"votes":[{"votes":[101,99],"answered":false}]}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := ParseEvents(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var plain []privacy.Event
		for _, v := range events {
			plain = append(plain, v.Event)
		}
		claim, err := privacy.Running(plain, 1e-5)
		if err != nil {
			return
		}
		if !(claim.Epsilon >= 0) || math.IsInf(claim.Epsilon, 0) {
			t.Fatalf("claim is %+v", claim)
		}
		if len(events) > 4 {
			return
		}
		voted, err := DataDependent(events, 1e-5)
		if err == nil && voted.RDP != nil &&
			(!(*voted.RDP >= 0) || *voted.RDP > *claim.ByAccountant[privacy.AccountantRDP]*(1+1e-9)) {
			t.Fatalf("data-dependent %g, for all datasets %g", *voted.RDP, *claim.ByAccountant[privacy.AccountantRDP])
		}
	})
}
