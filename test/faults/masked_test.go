package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// masked is a masked run among three sites, with a quorum of two.
var masked = kind{name: "masked", dataset: hidden, epsilon: 10,
	pipeline: "pipeline: gpate\nwarm_start: {embed: 0.3}\n" + fit +
		"gpate: {rounds: 8, records: 16, teacher: {steps: 2, training: 16}, " + small + "}}\n"}

// maskedQuorum is how many sites are in each sum of the masked run.
const maskedQuorum = 2

// startMembers starts a node of the hidden dataset at each site except the last. Their sites have policies, and so
// their own ledgers.
func (c *cluster) startMembers(ctx context.Context) {
	draw := rand.New(rand.NewPCG(3, 4))
	c.members = sites[:len(sites)-1]
	policy := c.write("hidden.policy.yaml", fmt.Sprintf("datasets: [{name: hidden, epsilon: 2000, delta: 1e-4, "+
		"pipelines: [gpate], approval: automatic, peers: [%s]}]\n", c.peers()))
	for _, site := range c.members {
		c.startNode(ctx, draw, site, "m", hidden, "policy: "+policy+"\n")
	}
}

// peers lists the members and the fingerprints of their keys, as in policies and runs.
func (c *cluster) peers() string {
	var list []string
	for _, site := range c.members {
		key, err := pemfile.LoadKey(certs.IssuedFiles(c.path("certs"), certs.RoleNode, site).Key)
		if err != nil {
			c.told.blame("%v", err)
			return ""
		}
		list = append(list, fmt.Sprintf("{site: %s, key: %s}", site, testkit.Value(certs.Fingerprint(key.Public()))))
	}
	return strings.Join(list, ", ")
}

// aggregation is the part of a masked run's file that names its members.
func (c *cluster) aggregation() string {
	return fmt.Sprintf("aggregation: {masked: true, colluding: 0, quorum: %d, members: [%s]}\n", maskedQuorum,
		c.peers())
}

// checkCharges compares the members' openings with the ledgers of their sites. Each opening is charged once before it
// leaves, no round more often than sites plan for, and at least a quorum of sites paid for every release. Answers
// alone cost nothing.
func (c *cluster) checkCharges(a clustertest.Found) error {
	paid := map[clustertest.ReleaseKey]int{} // sites
	for _, site := range c.members {
		charges, openings, here := map[string]bool{}, map[string]bool{}, map[clustertest.ReleaseKey]int{}
		err := eachLine(c.path("state-"+site+"m", "site-ledger-"+hidden+".jsonl"), func(line string) {
			var e sitepolicy.Entry
			if json.Unmarshal([]byte(line), &e) != nil || e.Round == nil {
				return
			}
			key := clustertest.ReleaseKey{Run: e.Run, Round: *e.Round}
			if here[key]++; here[key] > 1+masking.Retries {
				c.told.blame("%s was charged %d times for %v", site, here[key], key)
			}
			if openings[e.Question] {
				c.told.blame("%s was charged twice for one opening of %v", site, key)
			}
			charges[e.Hash], openings[e.Question] = true, true
		})
		if err != nil {
			return err
		}
		c.told.count("openings that sites of masked runs were charged for", len(charges))
		for key := range here {
			paid[key]++
		}
		opened := map[string]bool{}
		err = eachLine(c.path("audit-"+site+"m.jsonl"), func(line string) {
			var e auditlog.Entry
			if json.Unmarshal([]byte(line), &e) != nil {
				return // a line truncated by a kill
			}
			switch {
			case e.Event == auditlog.Answered:
				if c.told.count("answers under masks", 1); e.LedgerHash != "" {
					c.told.blame("%s was charged for its answer to round %d of %s", site, *e.Round, e.Run)
				}
				return
			case e.Event != auditlog.Opened:
				return
			case !charges[e.LedgerHash]:
				c.told.blame("%s opened round %d of %s, which its ledger has no charge for", site, *e.Round, e.Run)
			case opened[e.LedgerHash]:
				c.told.blame("%s opened round %d of %s twice for one charge", site, *e.Round, e.Run)
			}
			opened[e.LedgerHash] = true
		})
		if err != nil {
			return err
		}
	}
	for _, e := range a.Ledgers[hidden] {
		if e.Round == nil {
			continue
		}
		key := clustertest.ReleaseKey{Run: e.Run, Round: *e.Round}
		if c.told.count("masked releases", 1); paid[key] < maskedQuorum {
			c.told.blame("%v was released, and %d sites were charged for it", key, paid[key])
		}
	}
	return nil
}
