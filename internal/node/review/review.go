// Package review is what the people of a site read and decide about runs, by a command or on a page. It works on the
// node's files and knows nothing of the records.
package review

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/partition"
)

// unknown is more privacy units than any policy asks for: how many there are is preflight's
// to say, which reads them.
const unknown = 1 << 62

// Open returns the enforcer of a node's policy, and the node's configuration, by the path of that.
func Open(path string, readOnly bool) (*sitepolicy.Enforcer, node.Config, error) {
	config, err := node.LoadConfig(path)
	if err != nil {
		return nil, config, err
	}
	if config.Policy == "" {
		return nil, config, fmt.Errorf("%s names no policy: whatever the aggregator's budget allows is answered, "+
			"and nothing is written down; set policy to a file", path)
	}
	schema, err := partition.LoadSchema(config.Schema)
	if err != nil {
		return nil, config, err
	}
	o := config.PolicyOptions(schema.SHA256)
	o.ReadOnly = readOnly
	o.Facts = sitepolicy.Facts{Units: unknown, LeastUnits: unknown}
	return sitepolicy.New(o), config, nil
}

// Decide writes a decision about a run down, in the site's ledger and the node's audit log. Spec is as of
// [sitepolicy.Enforcer.Decide]. Who decides is whom the system knows, or who signs.
func Decide(path, run, spec string, by sitepolicy.Decision) (*sitepolicy.Run, error) {
	enforcer, settings, err := Open(path, false)
	if err != nil {
		return nil, err
	}
	by.By = Whoami()
	decided, err := enforcer.Decide(run, spec, by)
	if errors.Is(err, sitepolicy.ErrNoRun) {
		return nil, fmt.Errorf("%w; the node of %s writes them down when they ask", err, settings.State)
	}
	if err != nil {
		return nil, err
	}
	last := decided.Said[len(decided.Said)-1]
	if err := node.Decided(settings, *decided, by.Approve, last.By); err != nil {
		return nil, fmt.Errorf("the decision stands in the site's ledger, and not in the audit log: %w", err)
	}
	return decided, nil
}

// Brief is what a person reads who decides about a run.
func Brief(path, run, spec string) (*sitepolicy.Brief, error) {
	enforcer, _, err := Open(path, true)
	if err != nil {
		return nil, err
	}
	return enforcer.Brief(run, spec)
}

// Signer signs decisions by a certificate of the role approver and its key; nil without both.
func Signer(certificate, key string) (func(attest.Statement) (attest.Signature, error), error) {
	if (certificate == "") != (key == "") {
		return nil, errors.New("--as, --key: give both, or neither")
	}
	if certificate == "" {
		return nil, nil
	}
	files := certs.Files{Cert: certificate, Key: key}
	return func(s attest.Statement) (attest.Signature, error) { return attest.SignBy(files, s) }, nil
}

// End is when an approval ends, by a day or moment, or by a term; zero without them.
func End(until, term string) (time.Time, error) {
	switch {
	case until != "" && term != "":
		return time.Time{}, errors.New("--until, --for: give one of them")
	case until != "":
		at, err := sitepolicy.ParseUntil(until)
		if err != nil {
			return at, fmt.Errorf("--until: %w", err)
		}
		return at, nil
	case term != "":
		d, err := sitepolicy.ParseTerm(term)
		if err != nil {
			return time.Time{}, fmt.Errorf("--for: %w", err)
		}
		return time.Now().Add(d), nil
	}
	return time.Time{}, nil
}

// Whoami names who decides, as the system calls them.
func Whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
