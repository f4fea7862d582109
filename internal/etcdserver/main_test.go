package etcdserver

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(damagedEnv); dir != "" {
		if _, err := Start(context.Background(), Config{Dir: dir}); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runEtcd runs an etcd on dir until the test ends.
func runEtcd(t testing.TB, dir string) *Server {
	t.Helper()
	e, err := Start(context.Background(), Config{Dir: dir})
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
