package node

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// startAggregator runs a real aggregator with an embedded etcd and returns its
// address and the folder of the certificates.
func startAggregator(t *testing.T, schemaSHA256 string) (address, folder string) {
	t.Helper()
	// A short path: the embedded etcd listens on a Unix socket below it.
	dir, err := os.MkdirTemp("", "tea")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	folder = filepath.Join(dir, "certs")
	testkit.Must(t, authority.Create(folder))
	testkit.Must(t, authority.Issue(folder, certs.RoleAggregator, "a", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(folder, certs.RoleStudent, "student", nil, time.Hour))
	for _, site := range []string{"east", "north", "south"} {
		testkit.Must(t, authority.Issue(folder, certs.RoleNode, site, nil, time.Hour))
	}
	c := aggregator.DefaultConfig()
	c.Name, c.Listen, c.TLS = "a", "127.0.0.1:0", certs.IssuedFiles(folder, certs.RoleAggregator, "a")
	c.Etcd.Embedded, c.Etcd.Dir = true, filepath.Join(dir, "etcd")
	c.Datasets = []aggregator.DatasetConfig{{
		Name: "d", SchemaSHA256: schemaSHA256, Unit: "record", Budget: privacy.Budget{Epsilon: 1e6, Delta: 1e-5},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	server, err := aggregator.New(ctx, c, aggregator.Options{AllowCoin: true})
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, errors.Join(testkit.Receive(t, served), server.Close()))
	})
	return server.Addr().String(), folder
}

// connect connects a student to a real aggregator.
func connect(t *testing.T, address, folder string) *student.Client {
	t.Helper()
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.Run = address, "d", "run.yaml"
	config.TLS = certs.IssuedFiles(folder, certs.RoleStudent, "student")
	client, err := student.Dial(config, zap.NewNop())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, client.Close()) })
	return client
}

// openRun opens a run whose plan is one entry.
func openRun(
	t *testing.T, client *student.Client, name, schemaSHA256 string, teachers uint32, planned *conclavev1.Planned,
) {
	t.Helper()
	_, err := client.OpenRun(testkit.Within(t), &conclavev1.RunSpec{
		Name: name, Dataset: "d", Pipeline: "gpate", SchemaSha256: schemaSHA256, Epsilon: 2.4e5, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: teachers, Quorum: 1, DeadlineSeconds: 30,
		CoinVotes: name == "coin", Plan: []*conclavev1.Planned{planned},
	})
	testkit.Must(t, err)
}

// A real aggregator counts exactly the votes that the teachers cast, for every rule: with almost no noise its release
// is the histogram. Laplace noise with lambda 40 changes one of these 312 counts with a chance below 1e-14.
func TestTheAggregatorCountsTheVotesThatWereCast(t *testing.T) {
	const northTeachers, southTeachers = 5, 8
	table := questiontest.SmallTable(t, 200, 1)
	address, folder := startAggregator(t, table.Schema().SHA256)
	var nodes []*Node
	for site, teachers := range map[string]int{"north": northTeachers, "south": southTeachers} {
		c := smallConfig(t, teachers)
		c.Aggregator, c.Site, c.TLS = address, site, certs.IssuedFiles(folder, certs.RoleNode, site)
		n := start(t, c, table)
		run(t, n)
		nodes = append(nodes, n)
	}
	client := connect(t, address, folder)
	for name, vote := range map[string]conclavev1.TeacherSpec_Vote{
		"relative": conclavev1.TeacherSpec_VOTE_RELATIVE, "calibrated": conclavev1.TeacherSpec_VOTE_CALIBRATED,
		"plain": conclavev1.TeacherSpec_VOTE_PLAIN, "coin": conclavev1.TeacherSpec_VOTE_COIN,
	} {
		openRun(t, client, name, table.Schema().SHA256, northTeachers+southTeachers, &conclavev1.Planned{
			Kind: "votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "lnmax", Lambda: 40}, Variant: "histogram",
		})
		for number, queries := range []int{7, 32} { // with and without padding
			q := teacherstest.Votes(uint64(number))
			q.Teacher.Vote = vote
			rng := rand.New(rand.NewPCG(uint64(queries), 5))
			q.Queries, q.QueryClasses = teacherstest.Generated(queries, questiontest.SmallFeatures, rng)
			release, err := client.Ask(testkit.Within(t), asked(name, uint64(number), teachers.Votes, q),
				student.Asking{}, nil)
			testkit.Must(t, err)
			want := make([]int64, 2*queries)
			for _, n := range nodes {
				// The node stores what it sent, for repeated questions.
				packed, err := base64.StdEncoding.DecodeString(keptOf(t, n, name).Metadata["last_answer"])
				testkit.Must(t, err)
				for i, v := range questiontest.Unpack(t, packed, n.cfg.Teachers, queries, 2) {
					want[2*(i%queries)+int(v)]++
				}
			}
			for i, count := range release.GetVotes().Histogram {
				if count != want[i] {
					t.Errorf("%s, %d queries: %d votes for class %d of query %d were counted, %d cast",
						name, queries, count, i%2, i/2, want[i])
				}
			}
			if len(release.GetVotes().Histogram) != len(want) || release.Teachers != northTeachers+southTeachers {
				t.Errorf("%s: a release of %d counts from %d teachers",
					name, len(release.GetVotes().Histogram), release.Teachers)
			}
		}
	}
}
