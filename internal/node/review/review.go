// Package review is what a site's people read and decide about runs, with a command or on a page. It works on the
// node's files and knows nothing about the records.
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

// unknown exceeds the privacy units that any policy requires: preflight checks their number, because it reads the
// records.
const unknown = 1 << 62

// Open returns the enforcer of a node's policy, and the node's configuration, from the configuration's path.
func Open(path string, readOnly bool) (*sitepolicy.Enforcer, node.Config, error) {
	config, err := node.LoadConfig(path)
	if err != nil {
		return nil, config, err
	}
	if config.Policy == "" {
		return nil, config, fmt.Errorf("%s has no policy: the node answers everything that the aggregator's budget "+
			"allows, and records no runs; set policy to a file", path)
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

// Decide writes a decision about a run to the site's ledger and the node's audit log. Spec is as in
// [sitepolicy.Enforcer.Decide]. The person is the system's user, or the signer.
func Decide(path, run, spec string, by sitepolicy.Decision) (*sitepolicy.Run, error) {
	enforcer, settings, err := Open(path, false)
	if err != nil {
		return nil, err
	}
	by.By = Whoami()
	decided, err := enforcer.Decide(run, spec, by)
	if errors.Is(err, sitepolicy.ErrNoRun) {
		return nil, fmt.Errorf("%w (looked in %s)", err, settings.State)
	}
	if err != nil {
		return nil, err
	}
	last := decided.Said[len(decided.Said)-1]
	if err := node.Decided(settings, *decided, by.Approve, last.By); err != nil {
		return nil, fmt.Errorf("the decision is in the site's ledger, but not in the audit log: %w", err)
	}
	return decided, nil
}

// Brief is what a person reads before a decision about a run.
func Brief(path, run, spec string) (*sitepolicy.Brief, error) {
	enforcer, _, err := Open(path, true)
	if err != nil {
		return nil, err
	}
	return enforcer.Brief(run, spec)
}

// Signer signs decisions with a certificate of role approver and its key; nil without both.
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

// End is when an approval ends, from a day or moment, or from a term; zero without them.
func End(until, term string) (time.Time, error) {
	switch {
	case until != "" && term != "":
		return time.Time{}, errors.New("--until, --for: give only one")
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

// Whoami is the name of the system's user.
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
