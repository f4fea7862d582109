package enroll

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/roster"
)

// nodeFile is a site's teacher.yaml, with the absolute path of the command's data.
func nodeFile(s *study.Study, site, data string) []byte {
	files := certs.IssuedFiles("", certs.RoleNode, site)
	return fmt.Appendf(nil, `# The node of %[1]s in study %[2]s, as teacher join wrote it.
# docs/config-teacher.md says what the fields are.
aggregator: %[3]q
dataset: %[4]q
site: %[1]q
schema: schema.yaml
data: %[5]q
unit: %[6]q
overlap: %[11]d
teachers: %[7]d
state: state
policy: policy.yaml
audit_log: audit.jsonl
tls: {ca: %[8]s, cert: %[9]s, key: %[10]s}
`, site, s.Name, s.Addresses(), s.Dataset, data, s.Unit, s.Teachers, files.CA, files.Cert, files.Key,
		s.Overlap)
}

// policy is a site's first policy: it allows no more than the study, and each run by hand.
func policy(s *study.Study, text []byte, site string, r *roster.Roster) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `# What %[1]s allows in study %[2]s, as teacher join wrote it. It is the site's.
# docs/config-policy.md says what the fields are. The node reads the file again when it changes.
datasets:
  - name: %[3]q
    # Of all runs together, ever, at this node.
    epsilon: %[4]v
    delta: %[5]v
    filter: %[6]s
    pipelines: [%[7]s]
    stages: [%[8]s]
    # The study's document, by its SHA-256: runs of another one, or after its last day, are refused.
    study: {sha256: %[9]q, expires: %[10]s}
    approval: by-hand
    # Every user of the node's account can approve. List approvers to require signatures of named people.
`, site, s.Name, s.Dataset, s.Budget.Epsilon, s.Budget.Delta, s.Budget.Filter, strings.Join(s.Pipelines, ", "),
		strings.Join(s.Stages, ", "), study.Hash(text), strings.TrimSpace(s.Expires))
	if s.Masked {
		b.WriteString("    masked: true\n" +
			"    # A run must withstand at least this number of sites that tell the aggregator all they know.\n" +
			"    least_colluding: 1\n")
		fmt.Fprintf(&b, "    # As people compared them, in the roster of generation %d.\n    peers:\n", r.Generation)
		b.WriteString(Peers(site, r))
	}
	return []byte(b.String())
}

// Peers lists the other sites of a roster as in a policy.
func Peers(site string, r *roster.Roster) string {
	var b strings.Builder
	for _, other := range r.Sites {
		if other.Name != site {
			fmt.Fprintf(&b, "      - {site: %q, key: %q}\n", other.Name, other.Key)
		}
	}
	return b.String()
}
