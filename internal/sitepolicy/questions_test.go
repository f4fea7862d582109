package sitepolicy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The questions of pipelines and stages that sites allow equal those in the documentation.
func TestTheDocumentSaysWhatIsAsked(t *testing.T) {
	text, err := os.ReadFile("../../docs/site-ledger.md")
	testkit.Must(t, err)
	said := map[string][]string{}
	_, section, _ := strings.Cut(string(text), "## What each pipeline and stage asks")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		said[row[1]] = slices.Sorted(strings.SplitSeq(row[2], ", "))
	}
	asked := map[string][]string{}
	for _, p := range pipelines.All {
		asked[p.Name] = slices.Sorted(slices.Values(pipelines.Asks(p)))
	}
	for _, q := range pipelines.StageQuestions() {
		asked[q.Stage] = append(asked[q.Stage], q.Kind)
	}
	for _, kinds := range asked {
		slices.Sort(kinds)
	}
	testkit.Same(t, "questions", asked, said)
}
