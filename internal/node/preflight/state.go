package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// checkState checks the folder; its content is checked with the data.
func (c *checker) checkState() {
	dir := c.config.State
	if dir == "" {
		c.skip("state folder", "the configuration names none")
		return
	}
	at, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if parent := existing(dir); !writable(parent) {
			c.add("state folder", Problem, "create it, and make it writable",
				"%s does not exist, and cannot be created in %s", dir, parent)
			return
		}
		c.ok("state folder", "%s will be created at the first start: this node has never joined from here", dir)
	case err != nil:
		c.add("state folder", Problem, "make it readable", "%v", err)
	case !at.IsDir():
		c.add("state folder", Problem, "name a folder", "%s is a file", dir)
	default:
		good := writable(dir)
		if !good {
			c.add("state folder", Problem, "make it writable", "%s is not writable", dir)
		}
		if c.openToOthers("state folder", dir, at, "other users may read the partition key and the teachers") {
			good = false
		}
		for _, name := range []string{"partition.key", "manifest.json"} {
			path := filepath.Join(dir, name)
			if file, err := os.Stat(path); err == nil &&
				c.openToOthers("state folder", path, file, "only this process may read it") {
				good = false
			}
		}
		if good {
			c.ok("state folder", "%s, mode %04o", dir, at.Mode().Perm())
		}
	}
}

// openToOthers reports a file or folder that others may read as a problem, and returns whether it is one.
func (c *checker) openToOthers(name, path string, at fs.FileInfo, why string) bool {
	mode := at.Mode().Perm()
	if runtime.GOOS == "windows" || mode&0o077 == 0 {
		return false
	}
	fix := "chmod 600 "
	if at.IsDir() {
		fix = "chmod 700 "
	}
	c.add(name, Problem, fix+text.ShellWord(path), "%s has mode %04o: %s", path, mode, why)
	return true
}

// existing is the nearest existing folder above.
func existing(path string) string {
	for {
		if at, err := os.Stat(path); err == nil && at.IsDir() {
			return path
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}

// writable creates a file in a folder and removes it.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".preflight-*")
	if err != nil {
		return false
	}
	err = f.Close()
	return errors.Join(err, os.Remove(f.Name())) == nil
}

func (c *checker) checkPolicy() {
	if c.config.Policy == "" {
		c.add("policy", Warning, "set policy to a file to limit what the site spends",
			"none: the node answers everything that the aggregator's budget allows")
		return
	}
	policy, err := sitepolicy.Read(c.config.Policy)
	if err != nil {
		c.fail("policy", err)
		return
	}
	d := policy.Dataset(c.config.Dataset)
	if d == nil {
		c.add("policy", Problem, "add the dataset, with the allowed pipelines and epsilon",
			"%s has no dataset %s: nothing would be answered", c.config.Policy, c.config.Dataset)
		return
	}
	if c.schema == nil {
		c.skip("policy", "it is valid; further checks need the schema")
		return
	}
	o := c.config.PolicyOptions(c.schema.SHA256)
	o.ReadOnly = true
	counted := false
	if c.site != nil {
		facts, _, err := c.site.Facts()
		counted = err == nil
		o.Facts = facts
	}
	if !counted {
		o.Facts = sitepolicy.Facts{Units: d.MinRows, LeastUnits: d.MinRowsPerTeacher}
		c.skip("minimum rows", "the records could not be counted")
	}
	few := d.TooFew(o.Facts)
	for _, r := range few {
		c.fail("minimum rows", fmt.Errorf("%s: %s", r.Rule, r.Private))
	}
	if n := len(d.LeastRecordsBy); n > 0 && counted && len(few) == 0 {
		c.ok("minimum rows", "each category of %s that occurs here has enough privacy units for least_records_by",
			text.Several(n, "column"))
	}
	o.Facts = sitepolicy.Facts{Units: d.MinRows, LeastUnits: d.MinRowsPerTeacher} // they are named
	status, err := sitepolicy.New(o).Status()
	if err != nil {
		c.fail("site ledger", err)
		return
	}
	if status.Problem != "" {
		c.fail("policy", errors.New(status.Problem))
	} else {
		c.ok("policy", "pipelines %s, stages %s, approval %s", strings.Join(d.Pipelines, ", "),
			cmp.Or(strings.Join(d.Stages, ", "), "none"), d.Approval)
	}
	if most := d.MostMembers(c.config.Site); most > 0 && d.LeastSites > most {
		c.add("policy", Problem, "list the other sites as peers, or lower least_sites",
			"least_sites is %d, but the peers and this site are %d: no run is permitted", d.LeastSites, most)
	}
	switch {
	case status.EpsilonLeft <= 0:
		c.add("site ledger", Warning, "raise the policy's epsilon, if the site agrees",
			"epsilon %.4g of %g is spent, by filter %s, and nothing is left",
			status.EpsilonCounted, d.Epsilon, d.Filter)
	default:
		c.ok("site ledger", "%s; epsilon %.4g of %g is spent at delta %g, by filter %s, with room for a run "+
			"of epsilon %.4g",
			text.Several(status.Entries, "entry"), status.EpsilonCounted, d.Epsilon, d.Delta,
			d.Filter, status.EpsilonLeft)
	}
	for _, run := range status.Runs {
		if run.State == sitepolicy.StateWaiting {
			c.add("approvals", Warning,
				"teacher approve --config "+text.ShellWord(c.o.Config)+" "+run.Run+", or teacher deny",
				"run %s waits for an approval", run.Run)
		}
	}
}
