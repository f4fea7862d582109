package aggregator

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Every path into a round reports damaged or missing data in etcd as data loss, so that no student retries forever.
func TestStoredDamageIsSaid(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student, spec, _ := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
	d := spec.Dataset
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2))
	student.open(t, d, func(s *conclavev1.RunSpec) { s.Name = "another-" + d }) // reads all again
	etcd, err := clientv3.New(clientv3.Config{Endpoints: c.server.embedded.Endpoints(), Logger: zap.NewNop()})
	testkit.Must(t, err)
	defer etcd.Close()
	for key, ask := range map[string]uint64{
		"/conclave/releases/" + spec.Name + "/0000000000000000": 0, // the requested round
		"/conclave/runs/" + spec.Name:                           1, // the run's budget
	} {
		stored, err := etcd.Get(testkit.Within(t), key)
		testkit.Must(t, err)
		if len(stored.Kvs) != 1 {
			t.Fatalf("there is no key %s", key)
		}
		_, err = etcd.Put(testkit.Within(t), key, "{")
		testkit.Must(t, err)
		student.refused(t, roundtest.VoteRound(spec.Name, ask, 2), codes.DataLoss, key, "backup")
		_, err = etcd.Put(testkit.Within(t), key, string(stored.Kvs[0].Value))
		testkit.Must(t, err)
	}
	_, err = etcd.Delete(testkit.Within(t), "/conclave/datasets/"+d)
	testkit.Must(t, err)
	student.refused(t, roundtest.VoteRound(spec.Name, 1, 2), codes.DataLoss, d)
	err = student.tryOpen(t, d, func(s *conclavev1.RunSpec) { s.Name = "other-" + d })
	roundtest.WantStatus(t, err, codes.NotFound, d)
}
