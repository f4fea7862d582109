package report

import (
	"strings"

	"github.com/conclave-dp/conclave/internal/pipelines"
)

// stages describes what was asked after the training, and returns the rounds of the training.
func stages(rounds []Round) (says string, training []Round) {
	releases, entries := map[string]int{}, map[string]int64{}
	for _, r := range rounds {
		if r.Stage == "" {
			training = append(training, r)
			continue
		}
		releases[r.Stage]++
		entries[r.Stage] = max(entries[r.Stage], r.Entries)
	}
	var list []string
	for _, q := range pipelines.StageQuestions() {
		if n := releases[q.Stage]; n > 0 {
			list = append(list, q.Says(n, entries[q.Stage]))
			delete(releases, q.Stage) // a stage may have several kinds of questions
		}
	}
	return strings.Join(list, " "), training
}

// joined joins the nonempty sentences with spaces.
func joined(sentences ...string) string {
	var some []string
	for _, s := range sentences {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, " ")
}
