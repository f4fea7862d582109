package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func markdownOf(t *testing.T, p Page) string {
	t.Helper()
	var out bytes.Buffer
	testkit.Must(t, WriteMarkdown(&out, p))
	text := out.String()
	// Rows of a table have as many cells as its head.
	cells := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells > 0 && n != cells {
			t.Errorf("a row has %d bars, its table %d: %s", n, cells, line)
		}
		cells = n
	}
	for _, bad := range []string{"%!", "<no value>", "NaN", "Inf", "\n\n\n"} {
		if strings.Contains(text, bad) {
			t.Errorf("the text holds %q", bad)
		}
	}
	return text
}

func TestMarkdownShowsTheFacts(t *testing.T) {
	p := fullPage(t)
	p.Config += "steps: 3\r    # indented\n```\n"
	text := markdownOf(t, p)
	for _, want := range []string{
		`# Clinic &lt;script&gt;alert("x")&lt;/script&gt;: privacy report`, "NOT PRIVATE: keep this file at the site",
		"ε = 1", "alone, the bound is 73.1%",
		"strong protection: epsilon is at most 1 and delta at most 1e-05",
		"416 of 449 questions were answered", "## Quality **NOT PRIVATE**", "**0.739**",
		"| trees &lt;b&gt; | 0.891 (0.700) | 0.712 (0.500) | – | – |", `ward\|&lt;i&gt;`,
		"Two models were &lt;left&gt; out.",
		"## Columns of the synthetic rows **NOT PRIVATE**", p.Certificate.LedgerHead, "confident-gnmax(answered=31",
		"    teachers: 200 # <img src=x>", "\n        # indented\n", "\n    ```\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "    ") && strings.ContainsAny(line, "<") {
			t.Errorf("the line could be read as HTML: %s", line)
		}
	}
}

func TestMarkdownWithoutRealRows(t *testing.T) {
	c, rounds := example(t)
	synthetic := clinic(t, 50, 1, 0)
	columns, err := picture.Columns(synthetic.Schema(), synthetic, nil)
	testkit.Must(t, err)
	text := markdownOf(t, Page{Certificate: c, Rounds: rounds, Columns: columns})
	if strings.Contains(text, "NOT PRIVATE") || !strings.Contains(text,
		"You may share this file with the synthetic rows") {
		t.Error("a text without real rows is marked")
	}
	c.Votes = certificate.VotesCoin
	if text := markdownOf(t, Page{Certificate: c}); !strings.Contains(text, "baseline, not a release") {
		t.Error("a coin-flip run is not called one")
	}
	if err := WriteMarkdown(&bytes.Buffer{}, Page{}); err == nil {
		t.Error("no certificate was accepted")
	}
}

func TestJSONSaysWhatItIs(t *testing.T) {
	p := fullPage(t)
	var out bytes.Buffer
	testkit.Must(t, WriteJSON(&out, p))
	f, err := ReadJSON(out.Bytes())
	testkit.Must(t, err)
	if f.Privacy != evaluate.NotPrivate || f.Evaluation.Privacy != evaluate.NotPrivate {
		t.Errorf("privacy %q, of the evaluation %q", f.Privacy, f.Evaluation.Privacy)
	}
	if diff := cmp.Diff(p.Rounds, f.Rounds) + cmp.Diff(p.Certificate, f.Certificate) + cmp.Diff(p.Config,
		f.Config); diff != "" {
		t.Errorf("what was read is not what was written (-written +read):\n%s", diff)
	}
	if f.Evaluation.Propensity.Ratio != 6.4 {
		t.Errorf("ratio %v", f.Evaluation.Propensity.Ratio)
	}

	out.Reset()
	testkit.Must(t, WriteJSON(&out, Page{Certificate: p.Certificate, Columns: p.Columns}))
	var fields map[string]any
	testkit.Must(t, json.Unmarshal(out.Bytes(), &fields))
	if fields["privacy"] != ReleasesOnly || fields["evaluation"] != nil ||
		strings.Contains(out.String(), "NOT PRIVATE") {
		t.Errorf("without an evaluation: %s", out.String())
	}
	for _, bad := range []string{"", "[]", "{}", `{"format": 2}`} {
		if _, err := ReadJSON([]byte(bad)); err == nil {
			t.Errorf("%q was read as a report", bad)
		}
	}
}

// Each place that shows what was spent says that it is no guarantee ahead of time.
func TestSpentIsExplained(t *testing.T) {
	c, rounds := example(t)
	p := Page{Certificate: c, Rounds: rounds}
	var page bytes.Buffer
	testkit.Must(t, WriteHTML(&page, p))
	const want = "psilon spent is computed after the run, from what was released: the smallest of several proven " +
		"bounds. Before the run only the budget is guaranteed"
	for name, text := range map[string]string{"page": page.String(), "markdown": markdownOf(t, p)} {
		if !strings.Contains(text, want) {
			t.Errorf("the %s does not say what was spent", name)
		}
	}
}
