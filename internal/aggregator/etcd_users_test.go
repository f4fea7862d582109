package aggregator

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/coordinator/etcdtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The log warns of an etcd that requires certificates but has no users. An etcd with users causes no warning.
func TestAnEtcdWithoutUsersIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "etcd", []string{"127.0.0.1"}, time.Hour))
	files := certs.IssuedFiles(dir, certs.RoleAggregator, "etcd")
	users := etcdtest.WithUsers(t, "/conclave/")
	for name, c := range map[string]struct {
		etcd EtcdConfig
		want int
	}{
		"open":       {etcdOf(etcdtest.Run(t, files), files), 1},
		"with users": {etcdOf(users.Endpoint, users.Files(etcdtest.Ledger)), 0},
	} {
		store, err := c.etcd.OpenStore(testkit.Within(t))
		testkit.Must(t, err)
		core, log := observer.New(zap.WarnLevel)
		warnOfNoUsers(testkit.Within(t), store, zap.New(core))
		testkit.Must(t, store.Close())
		if log.Len() != c.want {
			t.Errorf("%s: the log has %v", name, log.All())
		}
	}
}

func etcdOf(endpoint string, files certs.Files) EtcdConfig {
	return EtcdConfig{Endpoints: []string{endpoint}, CA: files.CA, Cert: files.Cert, Key: files.Key}
}
