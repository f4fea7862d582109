package coordinator

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// MaxSites is the number of sites that may ask to be admitted to a dataset.
const MaxSites = 256

// SiteRequest is a site's request to be admitted. The store fills in Received and Replaced.
type SiteRequest struct {
	Dataset string `json:"dataset"`
	Site    string `json:"site"`
	// Study is the SHA-256 of the study that the site joins, in hex.
	Study string `json:"study"`
	// Key is the fingerprint of the request's key.
	Key string `json:"key"`
	PEM []byte `json:"request"`
	// Received is the time of arrival. Replaced counts requests that replaced one with another key.
	Received string `json:"received"`
	Replaced uint32 `json:"replaced,omitempty"`
}

// Roster lists the admitted sites, as the operator signed it. The caller has verified it.
type Roster struct {
	Dataset    string            `json:"dataset"`
	Generation uint64            `json:"generation"`
	Keys       map[string]string `json:"keys"` // fingerprints by site
	Text       []byte            `json:"roster"`
	Signature  []byte            `json:"signature"`
}

func (s *Store) requestsPrefix(dataset string) string {
	return s.config.Prefix + "enroll/" + dataset + "/requests/"
}

func (s *Store) rosterKey(dataset string) string {
	return s.config.Prefix + "enroll/" + dataset + "/roster"
}

// StoreRequest stores a site's request in place of the previous one. It returns the previous key if that was a
// different one. The error matches ErrEnroll if the site is admitted with another key, or if too many sites asked.
func (s *Store) StoreRequest(ctx context.Context, lead *Leadership, q SiteRequest) (replaced string, err error) {
	const op = "store a site's request"
	for what, name := range map[string]string{"dataset": q.Dataset, "site": q.Site} {
		if err := checkName(what, name); err != nil {
			return "", err
		}
	}
	key := s.requestsPrefix(q.Dataset) + q.Site
	err = update(func() (bool, error) {
		replaced = ""
		kvs, _, err := s.read(ctx, op, key, s.rosterKey(q.Dataset))
		if err != nil {
			return false, err
		}
		conditions := []clientv3.Cmp{asRead(key, kvs[0]), asRead(s.rosterKey(q.Dataset), kvs[1])}
		if kvs[1] != nil {
			roster, err := decode[Roster](kvs[1])
			if err != nil {
				return false, err
			}
			if held, ok := roster.Keys[q.Site]; ok && held != q.Key {
				return false, fmt.Errorf("%w: site %q was admitted with another key, %s; use the folder with that "+
					"key, or ask the operator for a certificate (conclave site approve)", ErrEnroll, q.Site, held)
			}
		}
		q.Received, q.Replaced = ledger.FormatTime(s.now()), 0
		if kvs[0] == nil {
			if others, err := s.list(ctx, op, s.requestsPrefix(q.Dataset)); err != nil || len(others) >= MaxSites {
				return false, orTooMany(err, q.Dataset)
			}
		} else {
			old, err := decode[SiteRequest](kvs[0])
			if err != nil {
				return false, err
			}
			if q.Replaced = old.Replaced; old.Key != q.Key {
				q.Replaced, replaced = old.Replaced+1, old.Key
			}
		}
		value, err := encode(q)
		if err != nil {
			return false, err
		}
		return s.commit(ctx, op, lead, conditions, clientv3.OpPut(key, value))
	})
	return replaced, err
}

func orTooMany(err error, dataset string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %d sites have asked for admission to dataset %q, which is the maximum", ErrEnroll, MaxSites,
		dataset)
}

// asRead is the condition that a key is unchanged since it was read; nil means absent.
func asRead(key string, kv *mvccpb.KeyValue) clientv3.Cmp {
	if kv == nil {
		return absent(key)
	}
	return unchanged(kv)
}

// Requests returns the requests of a dataset's sites, by site.
func (s *Store) Requests(ctx context.Context, dataset string) ([]SiteRequest, error) {
	if err := checkName("dataset", dataset); err != nil {
		return nil, err
	}
	kvs, err := s.list(ctx, "list the sites' requests", s.requestsPrefix(dataset))
	if err != nil {
		return nil, err
	}
	all := make([]SiteRequest, len(kvs))
	for i, kv := range kvs {
		if all[i], err = decode[SiteRequest](kv); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Enrolled returns the roster of a dataset and the request of one of its sites; each is nil if there is none.
func (s *Store) Enrolled(ctx context.Context, dataset, site string) (*Roster, *SiteRequest, error) {
	for what, name := range map[string]string{"dataset": dataset, "site": site} {
		if err := checkName(what, name); err != nil {
			return nil, nil, err
		}
	}
	kvs, _, err := s.read(ctx, "read the roster", s.rosterKey(dataset), s.requestsPrefix(dataset)+site)
	if err != nil {
		return nil, nil, err
	}
	roster, err := decodeIf[Roster](kvs[0])
	if err != nil {
		return nil, nil, err
	}
	request, err := decodeIf[SiteRequest](kvs[1])
	return roster, request, err
}

// Roster is the roster of a dataset, nil if none was published.
func (s *Store) Roster(ctx context.Context, dataset string) (*Roster, error) {
	if err := checkName("dataset", dataset); err != nil {
		return nil, err
	}
	kvs, _, err := s.read(ctx, "read the roster", s.rosterKey(dataset))
	if err != nil {
		return nil, err
	}
	return decodeIf[Roster](kvs[0])
}

func decodeIf[T any](kv *mvccpb.KeyValue) (*T, error) {
	if kv == nil {
		return nil, nil
	}
	v, err := decode[T](kv)
	return &v, err
}

// PublishRoster replaces the roster of the previous generation. Publishing the same roster again changes nothing. The
// error matches ErrEnroll if it is not the next generation, or lacks an admitted site.
func (s *Store) PublishRoster(ctx context.Context, lead *Leadership, r Roster) error {
	const op = "publish the roster"
	if err := checkName("dataset", r.Dataset); err != nil {
		return err
	}
	key := s.rosterKey(r.Dataset)
	return update(func() (bool, error) {
		kvs, _, err := s.read(ctx, op, key)
		if err != nil {
			return false, err
		}
		var stands Roster
		if kvs[0] != nil {
			if stands, err = decode[Roster](kvs[0]); err != nil {
				return false, err
			}
		}
		if stands.Generation > 0 && string(stands.Text) == string(r.Text) {
			return true, nil
		}
		if r.Generation != stands.Generation+1 {
			return false, fmt.Errorf("%w: the current roster has generation %d, and this one %d; list the requests "+
				"again", ErrEnroll, stands.Generation, r.Generation)
		}
		for site, held := range stands.Keys {
			if r.Keys[site] != held {
				return false, fmt.Errorf("%w: the new roster drops site %q or changes its key; to remove a site, "+
					"revoke its certificate (conclave site revoke)", ErrEnroll, site)
			}
		}
		value, err := encode(r)
		if err != nil {
			return false, err
		}
		return s.commit(ctx, op, lead, []clientv3.Cmp{asRead(key, kvs[0])}, clientv3.OpPut(key, value))
	})
}
