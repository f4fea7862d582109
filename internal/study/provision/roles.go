package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/roster"
)

// operator makes the folders of those who run the study: aggregator, worker and operator.
func (m *maker) operator() error {
	s := m.study
	if err := m.place("aggregator", s.Schema, m.schema); err != nil {
		return err
	}
	if err := m.place("aggregator", "study.yaml", m.text); err != nil {
		return err
	}
	hosts := s.Aggregator.Hosts
	err := m.role("aggregator", certs.RoleAggregator, "aggregator", hosts, "aggregator.yaml", m.aggregator())
	if err != nil {
		return err
	}
	if err := m.role("worker", certs.RoleStudent, study.Worker, nil, "worker.yaml", m.worker()); err != nil {
		return err
	}
	if err := m.revoked(); err != nil {
		return err
	}
	return m.role("operator", certs.RoleOperator, "operator", nil, "operator.yaml", m.connection(
		"The operator's connection, for conclave study admit and conclave run", certs.RoleOperator, "operator"))
}

// revoked gives the aggregator the authority's revocation list if it has none. The operator copies newer ones.
func (m *maker) revoked() error {
	at := path.Join(m.dir, "aggregator", "revoked.crl")
	if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list, err := pemfile.Read(certs.RevokedFile(Authority(m.dir)))
	if err != nil {
		return err
	}
	return kit.Place(at, list, 0o644)
}

// students makes a folder for each student, to be handed out.
func (m *maker) students() error {
	for _, name := range m.study.Students {
		folder := path.Join("students", name)
		for file, text := range map[string][]byte{m.study.Schema: m.schema, "study.yaml": m.text} {
			if err := m.place(folder, file, text); err != nil {
				return err
			}
		}
		text := m.connection("A student's connection, for conclave run", certs.RoleStudent, name)
		if err := m.role(folder, certs.RoleStudent, name, nil, "student.yaml", text); err != nil {
			return err
		}
		if m.study.Masked {
			continue // a masked run names its members, which only the roster has
		}
		if err := m.place(folder, RunName, RunFile(m.study, name, nil)); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) aggregator() []byte {
	s := m.study
	files := certs.IssuedFiles("", certs.RoleAggregator, "aggregator")
	return fmt.Appendf(nil, `# The aggregator of study %[1]s. docs/config-aggregator.md says what the fields are.
listen: ":%[2]d"
datasets:
  - name: %[3]q
    schema: %[13]q
    unit: %[4]q
    overlap: %[14]d
    # Only runs of this study are accepted, until it ends.
    study: study.yaml
    budget: {epsilon: %[5]v, delta: %[6]v, filter: %[7]s}
    students: [%[8]s]
    workers: [%[9]s]
# revoked is a copy of authority/revoked.crl; copy it again after conclave site revoke.
tls: {ca: %[10]s, cert: %[11]s, key: %[12]s, revoked: revoked.crl}
# Its folder is the only copy of the ledger: back it up.
etcd: {embedded: true, dir: etcd}
audit_log: audit.jsonl
`, s.Name, s.Aggregator.Port, s.Dataset, s.Unit, s.Budget.Epsilon, s.Budget.Delta, s.Budget.Filter,
		quoted(s.Students), study.Worker, files.CA, files.Cert, files.Key, s.Schema, s.Overlap)
}

func (m *maker) worker() []byte {
	files := certs.IssuedFiles("", certs.RoleStudent, study.Worker)
	return fmt.Appendf(nil, `# The worker that trains the runs of study %s.
# docs/config-student.md says what the fields are.
aggregator: %q
dataset: %q
queue: true
worker: worker-1
out: out
# How long students can fetch the results of a run.
keep_results: 720h
tls: {ca: %s, cert: %s, key: %s}
`, m.study.Name, m.study.Addresses(), m.study.Dataset, files.CA, files.Cert, files.Key)
}

func (m *maker) connection(what string, role certs.Role, name string) []byte {
	files := certs.IssuedFiles("", role, name)
	return fmt.Appendf(nil, `# %s. docs/config-student.md says what the fields are.
aggregator: %q
dataset: %q
tls: {ca: %s, cert: %s, key: %s}
`, what, m.study.Addresses(), m.study.Dataset, files.CA, files.Cert, files.Key)
}

// RunName is the file of a student's first run.
const RunName = "run.yaml"

// RunFile is a run.yaml that can be submitted unchanged. In a masked study it names the sites of the roster; others
// need none.
func RunFile(s *study.Study, student string, r *roster.Roster) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `# A first run of study %[1]s, ready to submit. docs/run-yaml.md has all fields.
# A name is used once.
name: %[2]s-1
study: study.yaml
purpose: %[3]q
schema: %[9]q
# A third of the budget of all runs of the study. In a masked run, a site's policy counts each round as opened
# four times, which costs about twice the epsilon.
privacy: {epsilon: %.2[4]g, delta: %[5]v, unit: %[6]q, overlap: %[10]d}
pipeline: %[7]s
# The total of all sites.
teachers: %[8]d
release: {rows: 1000}
`, s.Name, student, s.Purpose, s.Budget.Epsilon/3, s.Budget.Delta, s.Unit, s.Pipelines[0], s.Teachers*len(s.Sites),
		s.Schema, s.Overlap)
	if s.Masked && r != nil {
		b.WriteString("aggregation:\n  masked: true\n  members:\n")
		for _, site := range r.Sites {
			fmt.Fprintf(&b, "    - {site: %q, key: %q}\n", site.Name, site.Key)
		}
	}
	return []byte(b.String())
}

func quoted(names []string) string {
	all := slices.Clone(names)
	for i, name := range all {
		all[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(all, ", ")
}
