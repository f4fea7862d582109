package schema

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/proposal"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

func unfinished() *proposal.Proposal {
	return &proposal.Proposal{Columns: []proposal.Column{
		{Name: "score", Kind: "integer", Lower: partition.Todo, Upper: partition.Todo, Hint: "write bounds"},
		{Name: "ward", Kind: "categorical"},
		{Name: "dead", Kind: "binary"},
	}}
}

// The command asks for each open field until the answer is valid, and the label at the end.
func TestAsk(t *testing.T) {
	p, out := unfinished(), new(strings.Builder)
	testkit.Must(t, ask(p, strings.NewReader("low\n0\n\nnorth|south\nnobody\ndead\n"), out))
	const want = `Answer from public knowledge, not by looking at the rows. Press Enter to leave TODO.
score, lower (write bounds):   not a plain number; write it as 12 or 1.5
score, lower (write bounds): score, upper: ward, categories: label (the column that rows are generated for), ` +
		`if any:   ` +
		`the label "nobody" is not a column of the file; choose one of its columns
label (the column that rows are generated for), if any: `
	testkit.Same(t, "questions", want, out.String())
	testkit.Same(t, "label", "dead", p.Label)
	testkit.Same(t, "left", []string{"upper"}, p.Columns[0].Unfinished())
	testkit.Same(t, "ward", []string{"north", "south"}, p.Columns[1].Categories)
}

// The end of the input leaves the rest unchanged.
func TestAskEnds(t *testing.T) {
	p := unfinished()
	testkit.Must(t, ask(p, strings.NewReader("0\n"), new(strings.Builder)))
	testkit.Same(t, "left", []string{"upper"}, p.Columns[0].Unfinished())
	testkit.Same(t, "columns", 2, p.Unfinished())
}
