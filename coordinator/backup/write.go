package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/coordinator"
)

const (
	format = "conclave-backup/1"
	// page bounds how many keys are read at once: values have 1.5 MiB at most.
	page = 64
	// patience bounds each request to etcd.
	patience = 30 * time.Second
)

type header struct {
	Format string `json:"format"`
	// Fence is at least that of every leader so far.
	Fence int64 `json:"fence"`
}

type record struct {
	Key     string `json:"key"`
	Created int64  `json:"created"`
	Value   []byte `json:"value"`
}

type end struct {
	Keys   int    `json:"keys"`
	SHA256 string `json:"sha256"`
}

// Summary is what a file has.
type Summary struct {
	// Keys is how many, and Fence the highest fence that an entry of the ledger can have.
	Keys  int
	Fence int64
	// SHA256 is of all lines but the last one, in hex.
	SHA256 string
}

// Write copies all keys of a store, as they stand at one revision, but for who leads.
func Write(ctx context.Context, store *coordinator.Store, w io.Writer) (Summary, error) {
	kv, prefix := store.Keys()
	lines := newLineWriter(w)
	var sum Summary
	var revision int64
	for from := prefix; from != ""; {
		r, err := read(ctx, kv, from, prefix, revision)
		if err != nil {
			return Summary{}, err
		}
		if revision == 0 {
			revision = r.Header.GetRevision()
			base, err := fenceBase(ctx, kv, prefix, revision)
			if err != nil {
				return Summary{}, err
			}
			sum.Fence = base + revision
			if err := lines.add(header{format, sum.Fence}); err != nil {
				return Summary{}, err
			}
		}
		from = ""
		for _, found := range r.Kvs {
			key := strings.TrimPrefix(string(found.Key), prefix)
			if r.More {
				from = string(found.Key) + "\x00"
			}
			if key == coordinator.LeaderKey || key == coordinator.FenceBaseKey {
				continue
			}
			if err := lines.add(record{key, found.CreateRevision, found.Value}); err != nil {
				return Summary{}, err
			}
			sum.Keys++
		}
	}
	sum.SHA256 = hex.EncodeToString(lines.digest.Sum(nil))
	return sum, errors.Join(lines.add(end{sum.Keys, sum.SHA256}), lines.out.Flush())
}

func read(ctx context.Context, kv clientv3.KV, from, prefix string, revision int64) (*clientv3.GetResponse, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := kv.Get(bounded, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(page),
		clientv3.WithRev(revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil, fmt.Errorf("back up %s: etcd removed the revision %d while it was read; back up again", prefix,
			revision)
	case err != nil:
		return nil, fmt.Errorf("back up %s: %w", prefix, err)
	}
	return r, nil
}

// fenceBase is the number of an etcd that was restored before, 0 of others.
func fenceBase(ctx context.Context, kv clientv3.KV, prefix string, revision int64) (base int64, err error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := kv.Get(bounded, prefix+coordinator.FenceBaseKey, clientv3.WithRev(revision))
	if err != nil || len(r.Kvs) == 0 {
		return 0, err
	}
	if err := json.Unmarshal(r.Kvs[0].Value, &base); err != nil {
		return 0, fmt.Errorf("%s%s is no number: %w", prefix, coordinator.FenceBaseKey, err)
	}
	return base, nil
}

// lineWriter writes lines and takes their digest.
type lineWriter struct {
	out    *bufio.Writer
	digest hash.Hash
}

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{bufio.NewWriter(w), sha256.New()} }

func (l *lineWriter) add(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	line = append(line, '\n')
	l.digest.Write(line)
	_, err = l.out.Write(line)
	return err
}
