package aggregator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// For a masked run etcd stores the release and nothing that a member sent: no answer, vector, seed or tag, neither of
// the attempt that opened nor of the failed one before.
func TestEtcdHasNothingOfMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	r.members["west"].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atSeeds {
			r.members["west"].life.end()
			return nil
		}
		return m
	}
	r.join(four...)
	release := r.student.mustAsk(t, r.round(0))
	r.opened(release, "east", "north", "south")

	client, err := clientv3.New(clientv3.Config{Endpoints: c.server.embedded.Endpoints(), Logger: zap.NewNop()})
	testkit.Must(t, err)
	defer client.Close()
	all, err := client.Get(testkit.Within(t), "", clientv3.WithFromKey())
	testkit.Must(t, err)
	var stored [][]byte // values, and what they contain in base64 or hex
	for _, kv := range all.Kvs {
		stored = append(stored, kv.Value)
		for _, text := range regexp.MustCompile(`[A-Za-z0-9+/=]{16,}`).FindAllString(string(kv.Value), -1) {
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				stored = append(stored, raw)
			}
			if raw, err := hex.DecodeString(text); err == nil {
				stored = append(stored, raw)
			}
		}
	}
	holds := func(secret []byte) bool {
		return slices.ContainsFunc(stored, func(raw []byte) bool { return bytes.Contains(raw, secret) })
	}
	// Three numbers of a release are found, so three numbers of an answer would be, too.
	if !holds(zigzag(release.GetSum().GetValues()[:3])) {
		t.Fatal("the release is not in etcd, or is written otherwise than this test looks for")
	}
	looked := 0
	for _, m := range r.members {
		secrets := [][]byte{zigzag(m.vector[:3]), varints(m.vector[:3]), fixed(m.vector[:3])}
		m.life.mu.Lock()
		for _, sent := range m.life.sent {
			if v := sent.GetSum().GetValues(); v != nil {
				secrets = append(secrets, zigzag(v[:3]), varints(v[:3]), fixed(v[:3]))
			}
			secrets = append(secrets, sent.GetRevealed().GetOwn())
			secrets = append(secrets, sent.GetAgreed().GetTags()...)
			secrets = append(secrets, sent.GetRevealed().GetLost()...)
		}
		m.life.mu.Unlock()
		for _, secret := range secrets {
			if len(secret) == 0 {
				continue
			}
			if looked++; holds(secret) {
				t.Errorf("etcd has %x of %s", secret, m.site)
			}
		}
	}
	if looked < 40 {
		t.Errorf("only %d secrets were looked for", looked)
	}
}

// The encodings that could hide numbers.
func zigzag(values []int64) (raw []byte) {
	for _, v := range values {
		raw = protowire.AppendVarint(raw, protowire.EncodeZigZag(v))
	}
	return raw
}

func varints(values []int64) (raw []byte) {
	for _, v := range values {
		raw = protowire.AppendVarint(raw, uint64(v))
	}
	return raw
}

func fixed(values []int64) (raw []byte) {
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return raw
}
