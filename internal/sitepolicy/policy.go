package sitepolicy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

// Approval says who lets a run begin.
type Approval string

const (
	// ByHand: a person at the site approves each run. It is the default.
	ByHand Approval = "by-hand"
	// Automatic: what the policy allows may begin.
	Automatic Approval = "automatic"
)

// Policy is what a site allows. A dataset that it does not name is allowed nothing.
type Policy struct {
	// Datasets lists what is allowed on each dataset. A dataset that is not listed is allowed nothing. Required.
	Datasets []Dataset `yaml:"datasets"`
}

// Dataset is what a site allows on one dataset, at each of its nodes.
type Dataset struct {
	// Name is the dataset's name, as in the node's file. Required.
	Name string `yaml:"name"`
	// Epsilon is the limit of all runs together, ever, at this node. If it is less than the dataset's budget, runs go
	// on without this site once it is reached, or end. Required.
	Epsilon float64 `yaml:"epsilon"`
	// Delta is the probability that the limit's bound may fail. Required.
	Delta float64 `yaml:"delta"`
	// Filter is the rule that adds up releases (docs/privacy-accounting.md#adding-up). `gdp` is exact for Gaussian
	// noise and counts Poisson samples (`dpgan`, `dp-mlp`) as all records; `rdp` counts samples as samples. It is fixed
	// once a round was charged. `pld` would need a plan of all future runs. Default: `gdp`.
	Filter privacy.Filter `yaml:"filter"`
	// Pipelines lists the pipelines whose questions are answered. The student states the pipeline of a run, and the
	// node checks the run's questions against it (docs/site-ledger.md#what-each-pipeline-and-stage-asks). Required.
	Pipelines []string `yaml:"pipelines"`
	// Stages lists the questions that runs may ask after training: `selections` (docs/boosting.md), `fit` and `sampled`
	// (docs/weights.md), `relabel` (docs/relabel.md), `quality` (docs/quality.md). The node refuses all of a run that
	// may ask another one. Default: none.
	Stages []string `yaml:"stages"`
	// MinRows is the least number of privacy units at the node. The node checks it before it joins, and ends with an
	// error if there are fewer. Default: 0.
	MinRows int `yaml:"min_rows"`
	// MinRowsPerTeacher is the least number of privacy units of each teacher, checked at the same time. A node with
	// `stream` knows it once its records are divided, and checks it then, before the answer leaves. Default: 0.
	MinRowsPerTeacher int `yaml:"min_rows_per_teacher"`
	// Study is the study that runs must belong to: see docs/sites-policy.md#studies.
	Study Study `yaml:"study"`
	// LeastRecordsBy lists categorical columns, such as the label. Each category that occurs at the node must have so
	// many privacy units (docs/sites-policy.md#least-records-by-category). Default: none.
	LeastRecordsBy []LeastBy `yaml:"least_records_by"`
	// Approval says who lets a run begin. With `by-hand` a person approves each run (docs/approvals.md); with
	// `automatic` the node answers what the rules allow. Default: `by-hand`.
	Approval Approval `yaml:"approval"`
	// ApprovalExpires is how long an approval holds if the person gave no end: days such as `30d`, or a duration such
	// as `36h`, up to 3650d. With a short time people look again at runs that never began. A run that is still active
	// stops until somebody approves it again. Default: without end.
	ApprovalExpires string `yaml:"approval_expires"`
	// Approvers lists the people whose signed decisions count (docs/approvers.md), at most 20. Default:
	// none, and anyone who can run the command on the node's machine decides.
	Approvers []Approver `yaml:"approvers"`
	// ApprovalsNeeded is the number of different approvers that must let a run begin. It needs `approvers`. With more
	// than one nobody decides alone, and runs wait for more people. Default: `1`.
	ApprovalsNeeded int `yaml:"approvals_needed"`
	// Masked refuses runs without masks (docs/masked.md), in which the aggregator sees this node's sums. Default:
	// false.
	Masked bool `yaml:"masked"`
	// LeastSites is the least number of sites in each sum that a masked run opens. It bounds the run's quorum, not the
	// number of its members. It needs `masked`. Default: 0.
	LeastSites int `yaml:"least_sites"`
	// LeastColluding is the least number of sites that may collude with the aggregator while a masked run still hides
	// the others. It needs `masked`. With 0 a run may withstand nobody: set the number that you fear. Default: 0.
	LeastColluding int `yaml:"least_colluding"`
	// Peers lists the sites with which masked runs are allowed. The node refuses a run with another member, or with a
	// peer under another key, even if it was approved. The site itself need not be listed. With `approval: automatic` a
	// masked run needs peers, because nobody else looks at its members. Default: none.
	Peers []Peer `yaml:"peers"`
}

// Study is the study that runs must be of.
type Study struct {
	// SHA256 is the hash of the text of the study.yaml, as `sha256sum` prints it. Default: any study, and none.
	SHA256 string `yaml:"sha256"`
	// Expires is the last day, in UTC, on which the site takes part. Default: the study's own.
	Expires string `yaml:"expires"`
}

// LeastBy is a categorical column, and how many privacy units each of its categories must have that occurs.
type LeastBy struct {
	// Column is the name of a categorical column of the schema. Required.
	Column string `yaml:"column"`
	// Least is the least number of privacy units of each category, 2 or more. Required.
	Least int `yaml:"least"`
}

const maxPolicy = 1 << 20

// Read reads and validates the policy in a file. Unknown fields are errors, and so is everything that
// [Policy.Validate] finds.
func Read(path string) (*Policy, error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	return parseFile(path, text)
}

func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w; give a readable file", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w; give a readable file", err)
	}
	return raw, nil
}

func parseFile(path string, text []byte) (*Policy, error) {
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Parse parses and validates a policy.
func Parse(raw []byte) (*Policy, error) {
	if len(raw) > maxPolicy {
		return nil, fmt.Errorf("more than %d bytes; this is not a policy", maxPolicy)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	p := new(Policy)
	if err := config.Decode(bytes.NewReader(raw), p); err != nil {
		return nil, err
	}
	for i := range p.Datasets {
		d := &p.Datasets[i]
		if d.Filter == "" {
			d.Filter = privacy.FilterGDP
		}
		if d.Approval == "" {
			d.Approval = ByHand
		}
		if len(d.Approvers) > 0 && d.ApprovalsNeeded == 0 {
			d.ApprovalsNeeded = 1
		}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate reports every invalid field.
func (p *Policy) Validate() error {
	if len(p.Datasets) == 0 {
		return errors.New("datasets: none; list at least one, with what is allowed on it")
	}
	var errs []error
	seen := map[string]bool{}
	for i, d := range p.Datasets {
		at := fmt.Sprintf("datasets[%d]", i)
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is listed twice; keep only one", at, d.Name))
		}
		seen[d.Name] = true
		errs = append(errs, d.validate(at)...)
	}
	return errors.Join(errs...)
}

func (d *Dataset) validate(at string) (errs []error) {
	need := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s.%s: %w", at, field, fmt.Errorf(format, args...)))
		}
	}
	if err := config.CheckName(d.Name); err != nil {
		need(false, "name", "%w", err)
	}
	if _, err := privacy.NewBudget(d.Epsilon, 0.5); err != nil {
		need(false, "epsilon", "%v is not a limit; use a finite number above 0", d.Epsilon)
	}
	if _, err := privacy.NewBudget(1, d.Delta); err != nil {
		need(false, "delta", "%v is not valid; use a number above 0 and below 1, much less than one over the number "+
			"of persons", d.Delta)
	}
	need(d.Filter == privacy.FilterGDP || d.Filter == privacy.FilterRDP, "filter",
		"%q cannot add up successive runs; use gdp or rdp", d.Filter)
	need(len(d.Pipelines) > 0, "pipelines", "none; list the allowed ones: %s", strings.Join(Pipelines(), ", "))
	for _, name := range d.Pipelines {
		need(slices.Contains(Pipelines(), name), "pipelines", "%q is not available; use %s",
			name, strings.Join(Pipelines(), ", "))
	}
	for _, name := range d.Stages {
		need(slices.Contains(Stages(), name), "stages", "%q is not available; use "+
			"%s", name, strings.Join(Stages(), ", "))
	}
	need(!repeats(d.Pipelines), "pipelines", "one is listed twice; keep only one")
	need(!repeats(d.Stages), "stages", "one is listed twice; keep only one")
	need(d.MinRows >= 0, "min_rows", "%d is below 0; use the minimum number of privacy units at a node", d.MinRows)
	need(d.MinRowsPerTeacher >= 0, "min_rows_per_teacher",
		"%d is below 0; use the minimum number of privacy units of a teacher", d.MinRowsPerTeacher)
	d.validateStudy(need)
	columns := map[string]bool{}
	for i, by := range d.LeastRecordsBy {
		at := fmt.Sprintf("least_records_by[%d]", i)
		need(by.Column != "", at+".column", "none; give a categorical column of the schema")
		need(!columns[by.Column], at+".column", "%q is listed twice; keep only one", by.Column)
		need(by.Least >= 2, at+".least", "%d has no effect; use the minimum number of privacy units of a category, 2 "+
			"or more", by.Least)
		columns[by.Column] = true
	}
	d.validateApproval(need)
	d.validateMasked(need)
	return errs
}

// validateStudy checks the required study.
func (d *Dataset) validateStudy(need func(ok bool, field, format string, args ...any)) {
	if d.Study == (Study{}) {
		return
	}
	need(study.CheckHash("it", d.Study.SHA256) == nil, "study.sha256", "%q is not a SHA-256; write 64 lower-case hex "+
		"digits, as printed by `sha256sum study.yaml`", d.Study.SHA256)
	if d.Study.Expires != "" {
		_, err := time.Parse(time.DateOnly, d.Study.Expires)
		need(err == nil, "study.expires", "%q is not a day; write it like 2027-06-30", d.Study.Expires)
	}
}

func repeats(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	return len(slices.Compact(sorted)) < len(names)
}

// Dataset returns the section of a dataset, or nil.
func (p *Policy) Dataset(name string) *Dataset {
	for i := range p.Datasets {
		if p.Datasets[i].Name == name {
			return &p.Datasets[i]
		}
	}
	return nil
}

// Limit is the dataset's limit as a budget.
func (d *Dataset) Limit() privacy.Budget {
	return privacy.Budget{Epsilon: d.Epsilon, Delta: d.Delta, Filter: d.Filter}
}
