package node

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/tracetest"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node makes a span for each round that it answers or refuses, and none for the passes of a fit, whose number
// depends on all sites' records. The text of a refusal stays in the log.
func TestSpansOfANode(t *testing.T) {
	f := newFakeAggregator(t)
	var collector tracetest.Collector
	c := f.config(4)
	c.Traces = tracing.Config{Endpoint: collector.Serve(t, ""), Insecure: true}
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	stop, _ := run(t, n)
	j := f.next()
	j.votes(voteRound("r", 0))
	wrong := questiontest.Change(voteRound("r", 1), func(q *conclavev1.VoteQuestion) { q.Teacher.Classes = 7 })
	j.ask(wrong)
	j.reply()
	for range 3 {
		j.ask(logisticRound("r", 1, 1))
		j.reply()
	}
	testkit.Must(t, stop())
	var got []string
	for _, s := range collector.Spans() {
		text := s.GetName() + " " + s.GetStatus().GetMessage()
		for _, a := range s.GetAttributes() {
			text += " " + a.GetKey() + "=" + a.GetValue().GetStringValue()
		}
		got = append(got, text)
	}
	about := " conclave.run=r conclave.round= conclave.dataset=d conclave.purpose=votes"
	if want := "answer " + about + "\nanswer refused" + about; strings.Join(got, "\n") != want {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
	if strings.Contains(collector.Text(), "classes") {
		t.Error("the reason of a refusal is in a span")
	}
}
