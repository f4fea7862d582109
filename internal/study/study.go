// Package study holds the document of a study: what institutions agree on before any of them answers a question. It
// says who asks, why, by whose permit and until when, on which dataset, with which sites, pipelines and budget. The
// SHA-256 of its text names it: runs carry it, sites can require it, and people compare it by telephone.
package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Study is a study.yaml.
type Study struct {
	// Name is the study's name: small letters, digits, dots and hyphens. Required.
	Name string `yaml:"name"`
	// Title is what the study is called, at most 200 characters on one line. People read it before they take part.
	// Required.
	Title string `yaml:"title"`
	// Purpose is what the study is for, on one line like `title`. Required.
	Purpose string `yaml:"purpose"`
	// Permit is the number of the permit or of the ethics committee's vote, on one line like `title`. Required.
	Permit string `yaml:"permit"`
	// Contact is whom to ask, on one line like `title`. Required.
	Contact string `yaml:"contact"`
	// Expires is the last day of the study, in UTC, such as `2027-06-30`. Certificates of nodes end 30 days later.
	// Required.
	Expires string `yaml:"expires"`

	// Dataset is the dataset's name at the aggregator. Required.
	Dataset string `yaml:"dataset"`
	// Schema is the path of the public schema (docs/schema.md), next to the study. Required.
	Schema string `yaml:"schema"`
	// Unit is the privacy unit: `record`, or the schema's unit column.
	Unit string `yaml:"unit"`
	// Overlap is the number of sites at which one privacy unit may be. With 1 the sites' units are disjoint.
	Overlap int `yaml:"overlap"`
	// Budget is what all runs of the study may spend together, ever. It is also each site's first limit. Its filter is
	// `gdp` or `rdp`, because a site can count by these too.
	Budget privacy.Budget `yaml:"budget"`
	// Pipelines lists the pipelines that runs may use. The students' first run uses the first. Required.
	Pipelines []string `yaml:"pipelines"`
	// Stages lists what runs may ask after training, as in a site's policy (docs/config-policy.md). Default: none.
	Stages []string `yaml:"stages"`
	// Masked makes all runs of the study masked: the aggregator sees totals with their noise alone (docs/masked.md).
	// Sites then refuse other runs, and runs with other members. Default: false.
	Masked bool `yaml:"masked"`

	// Aggregator is where the aggregator is reached.
	Aggregator Aggregator `yaml:"aggregator"`
	// Sites lists the names of the institutions, at most 256, of at most 60 characters each. Required.
	Sites []string `yaml:"sites"`
	// Teachers is the number of teachers of each site, 1 to 65536.
	Teachers int `yaml:"teachers"`
	// Students lists the names that may submit runs. `worker` is the name of the operator's own. Required.
	Students []string `yaml:"students"`
}

// Aggregator is where the aggregator of a study listens.
type Aggregator struct {
	// Hosts lists the names or addresses by which the aggregator is dialled, without ports. Several are tried one after
	// the other. Required.
	Hosts []string `yaml:"hosts"`
	// Port is the aggregator's TCP port, the only one that is open.
	Port int `yaml:"port"`
}

// MaxBytes bounds a study.yaml: the aggregator stores one with each waiting run.
const MaxBytes = 32 << 10

// maxName bounds the names of sites and students, which are parts of other names.
const maxName = 60

// maxTeachers bounds the teachers of a site, as for one node.
const maxTeachers = 1 << 16

// MaxSites bounds the sites of a study.
const MaxSites = 256

// Worker is the student name of the operator's worker, which trains the study's runs.
const Worker = "worker"

// Read returns the study in a file and the file's text.
func Read(path string) (*Study, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the study: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the study: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, text, nil
}

// Default has the defaults of a study. It is not valid by itself.
func Default() *Study {
	return &Study{Unit: "record", Overlap: 1, Teachers: 100, Aggregator: Aggregator{Port: 7443},
		Budget: privacy.Budget{Filter: privacy.FilterGDP}}
}

// Parse parses and validates a study.yaml. Unknown fields are errors, and so is everything that [Study.Validate]
// finds.
func Parse(text []byte) (*Study, error) {
	if err := config.CheckYAML(text, MaxBytes); err != nil { // kits bring it from outside
		return nil, err
	}
	s := Default()
	if err := config.Decode(bytes.NewReader(text), s); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// Hash identifies a study: the SHA-256 of its text, in hex.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Validate reports every invalid field.
func (s *Study) Validate() error {
	var p config.Problems
	s.validatePeople(&p)
	s.validateData(&p)
	s.validateParties(&p)
	return errors.Join(p...)
}

func (s *Study) validatePeople(p *config.Problems) {
	p.Need(config.CheckName(s.Name) == nil, "name: %q is not valid; use small letters, digits, dots and "+
		"hyphens", s.Name)
	for _, f := range []struct{ field, line string }{
		{"title", s.Title}, {"purpose", s.Purpose}, {"permit", s.Permit}, {"contact", s.Contact},
	} {
		err := checkLine(f.line)
		p.Need(err == nil, "%s: %v", f.field, err)
	}
	_, err := s.End()
	p.Need(err == nil, "expires: %v", err)
}

func (s *Study) validateData(p *config.Problems) {
	p.Need(config.CheckName(s.Dataset) == nil, "dataset: %q is not valid; use small letters, digits, dots and hyphens",
		s.Dataset)
	p.Need(s.Schema != "", "schema: none; give the file of the public schema")
	err := checkLine(s.Unit)
	p.Need(err == nil, "unit: %v", err)
	p.Need(s.Overlap >= 1 && s.Overlap <= max(1, len(s.Sites)),
		"overlap: %d; use 1 to the number of sites: the maximum number of sites at which one privacy unit may be",
		s.Overlap)
	_, err = privacy.NewBudget(s.Budget.Epsilon, s.Budget.Delta)
	p.Need(err == nil, "budget: %v", err)
	p.Need(s.Budget.Filter == "" || s.Budget.Filter == privacy.FilterGDP || s.Budget.Filter == privacy.FilterRDP,
		"budget.filter: %q; use gdp or rdp, which sites can also use", s.Budget.Filter)
	p.Need(len(s.Pipelines) > 0, "pipelines: none; list the allowed pipelines")
	// They become lines of sites' policies.
	for _, name := range slices.Concat(s.Pipelines, s.Stages) {
		p.Need(config.CheckName(name) == nil, "pipelines, stages: %q is unknown", name)
	}
}

func (s *Study) validateParties(p *config.Problems) {
	p.Need(len(s.Aggregator.Hosts) > 0, "aggregator.hosts: none; list the host names of the aggregator")
	_, _, err := certs.SplitHosts(certs.RoleAggregator, s.Aggregator.Hosts)
	p.Need(len(s.Aggregator.Hosts) == 0 || err == nil, "aggregator.hosts: %v", err)
	p.Need(s.Aggregator.Port > 0 && s.Aggregator.Port < 1<<16, "aggregator.port: %d is not a TCP "+
		"port", s.Aggregator.Port)
	p.Need(s.Teachers >= 1 && s.Teachers <= maxTeachers, "teachers: %d; use 1 to %d", s.Teachers, maxTeachers)
	for i, host := range s.Aggregator.Hosts {
		p.Need(!slices.Contains(s.Aggregator.Hosts[:i], host), "aggregator.hosts[%d]: %q is listed twice; keep only "+
			"one",
			i, host)
	}
	for _, group := range []struct {
		field string
		names []string
	}{{"sites", s.Sites}, {"students", s.Students}} {
		p.Need(len(group.names) > 0, "%s: none; list at least one", group.field)
		for i, name := range group.names {
			p.Need(config.CheckName(name) == nil && len(name) <= maxName,
				"%s[%d]: %q is not valid; use 1 to %d small letters, digits, dots and hyphens", group.field, i, name,
				maxName)
			p.Need(!slices.Contains(group.names[:i], name), "%s[%d]: %q is listed twice; keep only one",
				group.field, i, name)
		}
	}
	p.Need(len(s.Sites) <= MaxSites, "sites: %d; the maximum is %d", len(s.Sites), MaxSites)
	p.Need(!slices.Contains(s.Students, Worker), "students: %q is reserved for the study's worker; use another name",
		Worker)
	p.Need(!s.Masked || len(s.Sites) >= 2, "masked: a sum of one site hides nothing; list at least two sites")
}

// End is the moment when the study is over: the end of its last day, in UTC.
func (s *Study) End() (time.Time, error) { return endOf(strings.TrimSpace(s.Expires)) }

// endOf is the end of a day in UTC.
func endOf(day string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a day; write it like 2027-06-30", day)
	}
	return at.AddDate(0, 0, 1), nil
}
