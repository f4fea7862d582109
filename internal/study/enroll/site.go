package enroll

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/roster"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ErrOther: another key than the site's own stands where the site's should.
var ErrOther = errors.New("another key speaks for this site")

// Site is a site that joins, in a folder of its own.
type Site struct {
	*kit.Kit
	Dir string
	// Fingerprint is that of the key that was made here, which the operator is told by telephone.
	Fingerprint string
	request     []byte
	api         conclavev1.EnrollServiceClient
	*client
}

// Standing is a roster that was checked against a kit: the authority signed it, it is of the study, and the site is in
// it with its own key. Whether others are shown the same one people have to compare.
type Standing struct {
	*roster.Roster
	roster.Signed
}

// Begin unpacks a kit into a site's folder and makes the site's key there, mode 0600, or finds both. away is told when
// the aggregator cannot be reached.
func Begin(k *kit.Kit, dir string, away func(reason string)) (*Site, error) {
	joiner, err := k.Unpack(dir)
	if err != nil {
		return nil, err
	}
	files := certs.FilesAtSite(dir, certs.RoleNode, k.Site)
	q, err := request.New(dir, certs.RoleNode, k.Site, nil, request.FirstKey)
	if errors.Is(err, certs.ErrExists) { // made before the command was stopped
		q, err = request.New(dir, certs.RoleNode, k.Site, nil, request.SameKey)
	}
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(files.Request)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	c, err := connect(k.Study.Addresses(), "", joiner, away)
	if err != nil {
		return nil, err
	}
	return &Site{Kit: k, Dir: dir, Fingerprint: q.Fingerprint, request: raw, client: c,
		api: conclavev1.NewEnrollServiceClient(c)}, nil
}

// Ask sends the site's request. It returns the fingerprint of the request whose place it took, of another key, in
// groups; empty where there was none.
func (s *Site) Ask(ctx context.Context) (replaced string, err error) {
	err = s.again(ctx, "ask for admission", func() error {
		r, err := s.api.SendRequest(ctx, &conclavev1.SendRequestRequest{
			Dataset: s.Study.Dataset, StudySha256: study.Hash(s.StudyText), Request: s.request,
		})
		replaced = r.GetReplaced()
		return err
	})
	if replaced != "" {
		replaced = spelled(replaced)
	}
	return replaced, err
}

// Wait waits until a roster stands that has the site, and checks it. The error matches [ErrOther] where a request with
// another key took the place of this one, or was admitted.
func (s *Site) Wait(ctx context.Context) (*Standing, error) {
	for {
		var r *conclavev1.FetchRosterResponse
		err := s.again(ctx, "fetch the roster", func() (err error) {
			r, err = s.api.FetchRoster(ctx, &conclavev1.FetchRosterRequest{Dataset: s.Study.Dataset})
			return err
		})
		if err != nil {
			return nil, err
		}
		if r.GetRoster() != nil {
			if found, err := s.check(fromWire(r.GetRoster()), time.Now()); found != nil || err != nil {
				return found, err
			}
		}
		if r.GetRequestKey() != s.Fingerprint {
			return nil, fmt.Errorf("%w: its request with the key %s took the place of this one; find out who else has "+
				"the kit, tell the operator, and join again", ErrOther, spelled(r.GetRequestKey()))
		}
		dial.Wait(ctx, lookEvery)
	}
}

// check checks a roster against the kit; nil where the site is not in it yet.
func (s *Site) check(signed roster.Signed, now time.Time) (*Standing, error) {
	r, err := signed.Check(s.CA(), now)
	if err != nil {
		return nil, err
	}
	for _, same := range []struct{ what, got, want string }{
		{"study", r.Study, study.Hash(s.StudyText)}, {"schema", r.Schema, s.SchemaSHA256()},
		{"dataset", r.Dataset, s.Study.Dataset},
	} {
		if same.got != same.want {
			return nil, fmt.Errorf("%w: it is of another %s than the kit; ask the operator", roster.ErrRoster,
				same.what)
		}
	}
	for _, site := range r.Sites {
		if !slices.Contains(s.Study.Sites, site.Name) {
			return nil, fmt.Errorf("%w: it has site %s, and the study does not; ask the operator", roster.ErrRoster,
				site.Name)
		}
	}
	own := r.Site(s.Site)
	if own == nil {
		return nil, nil
	}
	if own.Key != s.Fingerprint {
		return nil, fmt.Errorf("%w: the operator admitted the key %s for %s, and the one here is %s; tell "+
			"the operator, who revokes it", ErrOther,
			certs.SpellFingerprint(own.Key), s.Site, certs.SpellFingerprint(s.Fingerprint))
	}
	if newest := s.newest(); r.Generation < newest {
		return nil, fmt.Errorf("%w: it is of generation %d, and people confirmed one of generation %d here (%s); "+
			"have the operator look at the aggregator", roster.ErrRoster, r.Generation, newest, s.rosterFile(newest))
	}
	return &Standing{r, signed}, nil
}

// newest is the generation of the newest roster that people confirmed, 0 before the first.
func (s *Site) newest() (generation uint64) {
	names, _ := filepath.Glob(filepath.Join(s.Dir, "roster-*.json")) // the pattern is one
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "roster-%d.json", &n); err == nil {
			generation = max(generation, n)
		}
	}
	return generation
}

// rosterFile is where the roster of a generation is, once people confirmed it.
func (s *Site) rosterFile(generation uint64) string {
	return filepath.Join(s.Dir, fmt.Sprintf("roster-%d.json", generation))
}

// Confirmed says whether people confirmed a roster before the command was stopped.
func (s *Site) Confirmed(r *Standing) bool {
	held, err := os.ReadFile(s.rosterFile(r.Generation))
	return err == nil && string(held) == string(r.Text)
}

// Joined says whether the site has all that its node needs.
func (s *Site) Joined() bool {
	_, err := os.Stat(s.NodeFile())
	return err == nil
}

// NodeFile is the path of the node's file, and PolicyFile of the site's policy.
func (s *Site) NodeFile() string { return filepath.Join(s.Dir, "teacher.yaml") }

// PolicyFile is beside it.
func (s *Site) PolicyFile() string { return filepath.Join(s.Dir, "policy.yaml") }

// Install keeps a roster that people confirmed, puts the certificate beside its key, and writes the policy and, last,
// the node's file, for records at data. Of a site that has joined it keeps the roster alone: the policy is the site's.
func (s *Site) Install(r *Standing, data string) error {
	if err := kit.Place(s.rosterFile(r.Generation), r.Text, 0o644); err != nil {
		return err
	}
	signature := []byte(hex.EncodeToString(r.Signature) + "\n")
	// Signatures of one text differ, as the authority's key draws anew: the first is as good.
	path := filepath.Join(s.Dir, fmt.Sprintf("roster-%d.sig", r.Generation))
	if err := kit.Place(path, signature, 0o644); err != nil && !errors.Is(err, kit.ErrDiffers) {
		return err
	}
	if s.Joined() {
		return s.sameData(data)
	}
	if _, err := request.Install(s.Dir, certs.RoleNode, s.Site, []byte(r.Site(s.Site).Certificate), nil); err != nil {
		return err
	}
	if err := kit.Place(s.PolicyFile(), policy(s.Study, s.StudyText, s.Site, r.Roster), 0o644); err != nil {
		return err
	}
	return kit.Place(s.NodeFile(), nodeFile(s.Study, s.Site, data), 0o644)
}

// dataLine is the line of a node's file that names its records, as it was written here.
var dataLine = regexp.MustCompile(`(?m)^data: (".*")$`)

// sameData refuses a file of records that the node's file, which is the site's by now, does not name.
func (s *Site) sameData(data string) error {
	text, err := os.ReadFile(s.NodeFile())
	if err != nil {
		return err
	}
	line := dataLine.FindSubmatch(text)
	if line == nil {
		return nil // the site wrote it anew
	}
	named, err := strconv.Unquote(string(line[1]))
	if err != nil || named == data {
		return nil //nolint:nilerr // the check of the node, which follows, says what is wrong with its file
	}
	return fmt.Errorf("--data: %s is another file than %s, which %s names for data; give that one, or change it there",
		data, named, s.NodeFile())
}
