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
	// patience bounds each request to etcd except the stream of all keys.
	patience = 30 * time.Second
)

type header struct {
	Format string `json:"format"`
	// Fence is at least the fence of every leader so far.
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

// Summary describes a file.
type Summary struct {
	// Keys is the number of keys, and Fence the highest fence that a ledger entry can have.
	Keys  int
	Fence int64
	// SHA256 is the hash of all lines except the last, in hex.
	SHA256 string
}

// Write copies all keys of a store at one revision, except the leader's. It is an error if there are none, so that
// nobody takes an empty file for a backup.
func Write(ctx context.Context, store *coordinator.Store, w io.Writer) (Summary, error) {
	kv, prefix := store.Keys()
	base, revision, err := begin(ctx, kv, prefix)
	if err != nil {
		return Summary{}, fmt.Errorf("back up %s: %w", prefix, err)
	}
	lines, sum := newLineWriter(w), Summary{Fence: base + revision}
	if err := lines.add(header{format, sum.Fence}); err != nil {
		return Summary{}, err
	}
	reading, cancel := context.WithCancel(ctx)
	stream, err := kv.GetStream(reading, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		cancel()
		return Summary{}, fmt.Errorf("back up %s: %w", prefix, err)
	}
	defer func() {
		cancel()
		for range stream { // its sender waits for a reader
		}
	}()
	var seen, count int64
	for r := range stream {
		switch err := r.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return Summary{}, fmt.Errorf("back up %s: etcd compacted revision %d during the backup; start the backup "+
				"again",
				prefix, revision)
		case err != nil:
			return Summary{}, fmt.Errorf("back up %s: %w", prefix, err)
		}
		seen, count = seen+int64(len(r.Kvs)), r.Count // the last message has it
		for _, found := range r.Kvs {
			key := strings.TrimPrefix(string(found.Key), prefix)
			if key == coordinator.LeaderKey || key == coordinator.FenceBaseKey {
				continue
			}
			if err := lines.add(record{key, found.CreateRevision, found.Value}); err != nil {
				return Summary{}, err
			}
			sum.Keys++
		}
	}
	if seen != count {
		return Summary{}, fmt.Errorf("back up %s: etcd sent %d of %d keys; start the backup again", prefix, seen, count)
	}
	if sum.Keys == 0 {
		return Summary{}, fmt.Errorf("back up %s: etcd has no ledger there; give the etcd and the etcd.prefix of the "+
			"aggregators", prefix)
	}
	sum.SHA256 = hex.EncodeToString(lines.digest.Sum(nil))
	return sum, errors.Join(lines.add(end{sum.Keys, sum.SHA256}), lines.out.Flush())
}

// begin returns the revision to copy, and the fence base of an etcd that was restored before.
func begin(ctx context.Context, kv clientv3.KV, prefix string) (base, revision int64, err error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := kv.Get(bounded, prefix+coordinator.FenceBaseKey)
	if err != nil {
		return 0, 0, err
	}
	if len(r.Kvs) > 0 {
		if err := json.Unmarshal(r.Kvs[0].Value, &base); err != nil {
			return 0, 0, fmt.Errorf("%s is not a number: %w", coordinator.FenceBaseKey, err)
		}
	}
	return base, r.Header.GetRevision(), nil
}

// lineWriter writes lines and hashes them.
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
