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
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// ErrOther: there is another key in place of the site's own.
var ErrOther = errors.New("another key was used for this site")

// Site is a site that joins, in its own folder.
type Site struct {
	*kit.Kit
	Dir string
	// Fingerprint is that of the key made here. The site tells it to the operator by telephone.
	Fingerprint string
	request     []byte
	api         rpc.EnrollServiceClient
	*client
}

// Standing is a roster checked against a kit: the authority signed it for this study, and it has the site with its
// own key. Only people can check that all sites see the same one.
type Standing struct {
	*roster.Roster
	roster.Signed
}

// Begin unpacks a kit into a site's folder and makes the site's key there, mode 0600, or finds both. away is called
// when the aggregator cannot be reached.
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
		api: rpc.NewEnrollServiceClient(c)}, nil
}

// Ask sends the site's request. It returns the fingerprint, in groups, of a replaced request with another key, or
// empty.
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

// Wait waits until a roster has the site, and checks it. The error matches [ErrOther] if a request with another key
// replaced this one, or was admitted.
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
			return nil, fmt.Errorf("%w: a request with the key %s replaced this one; find out who else has the kit, "+
				"tell the operator, and join again", ErrOther, spelled(r.GetRequestKey()))
		}
		dial.Wait(ctx, lookEvery)
	}
}

// check checks a roster against the kit; nil if the site is not in it yet.
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
			return nil, fmt.Errorf("%w: it has another %s than the kit; ask the operator", roster.ErrRoster,
				same.what)
		}
	}
	for _, site := range r.Sites {
		if !slices.Contains(s.Study.Sites, site.Name) {
			return nil, fmt.Errorf("%w: it has site %s, but the study does not; ask the operator", roster.ErrRoster,
				site.Name)
		}
	}
	own := r.Site(s.Site)
	if own == nil {
		return nil, nil
	}
	if own.Key != s.Fingerprint {
		return nil, fmt.Errorf("%w: the operator admitted the key %s for %s, but the key here is %s; tell the "+
			"operator to revoke it", ErrOther,
			certs.SpellFingerprint(own.Key), s.Site, certs.SpellFingerprint(s.Fingerprint))
	}
	if newest := s.newest(); r.Generation < newest {
		return nil, fmt.Errorf("%w: it has generation %d, but generation %d was confirmed here (%s); ask the "+
			"operator to check the aggregator", roster.ErrRoster, r.Generation, newest, s.rosterFile(newest))
	}
	return &Standing{r, signed}, nil
}

// newest is the generation of the newest confirmed roster, 0 before the first.
func (s *Site) newest() (generation uint64) {
	names, _ := filepath.Glob(filepath.Join(s.Dir, "roster-*.json")) // the pattern is valid
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "roster-%d.json", &n); err == nil {
			generation = max(generation, n)
		}
	}
	return generation
}

// rosterFile is the path of a confirmed roster of a generation.
func (s *Site) rosterFile(generation uint64) string {
	return filepath.Join(s.Dir, fmt.Sprintf("roster-%d.json", generation))
}

// Confirmed reports whether people confirmed a roster before the command was stopped.
func (s *Site) Confirmed(r *Standing) bool {
	held, err := os.ReadFile(s.rosterFile(r.Generation))
	return err == nil && string(held) == string(r.Text)
}

// Joined reports whether the site has everything that its node needs.
func (s *Site) Joined() bool {
	_, err := os.Stat(s.NodeFile())
	return err == nil
}

// NodeFile is the path of the node's file, and PolicyFile that of the site's policy.
func (s *Site) NodeFile() string { return filepath.Join(s.Dir, "teacher.yaml") }

// PolicyFile is next to it.
func (s *Site) PolicyFile() string { return filepath.Join(s.Dir, "policy.yaml") }

// Install stores a confirmed roster, puts the certificate next to its key, and writes the policy and, last, the
// node's file for records at data. For a joined site it only stores the roster, because the policy belongs to the
// site.
func (s *Site) Install(r *Standing, data string) error {
	if err := kit.Place(s.rosterFile(r.Generation), r.Text, 0o644); err != nil {
		return err
	}
	signature := []byte(hex.EncodeToString(r.Signature) + "\n")
	// Signatures of one text differ, because the key signs with fresh randomness: the first is as good.
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

// dataLine is the line of a generated node file that names its records.
var dataLine = regexp.MustCompile(`(?m)^data: (".*")$`)

// sameData refuses records that differ from those in the node's file, which by now belongs to the site.
func (s *Site) sameData(data string) error {
	text, err := os.ReadFile(s.NodeFile())
	if err != nil {
		return err
	}
	line := dataLine.FindSubmatch(text)
	if line == nil {
		return nil // the site rewrote it
	}
	named, err := strconv.Unquote(string(line[1]))
	if err != nil || named == data {
		return nil //nolint:nilerr // the check of the node, which follows, says what is wrong with its file
	}
	return fmt.Errorf("--data: %s is another file than %s, the data file in %s; give that file, or change it there",
		data, named, s.NodeFile())
}
