package e2e

import (
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// audit starts an auditor of etcd; finish ends it and checks the total number of releases.
func (c *cluster) audit(endpoint string) (a *clustertest.Auditor, finish func(releases int)) {
	c.t.Helper()
	a = clustertest.Audit(c.t, []string{endpoint}, map[string]int{dataset: allTeachers}, c.t.Errorf)
	return a, func(releases int) {
		c.t.Helper()
		found, err := a.End(testkit.Within(c.t))
		testkit.Must(c.t, err)
		if n := len(found.Releases); n != releases {
			c.t.Errorf("%d releases were charged, want %d", n, releases)
		}
	}
}

// embeddedEndpoint is the address of the aggregator's etcd.
func (c *cluster) embeddedEndpoint() string {
	return "unix://" + filepath.Join(c.dir, "etcd", "etcd", "etcd.sock")
}
