package study

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Block is what a run says about its study. It is in the run's spec, in ledgers, certificates and reports, and people
// read it before they let the run begin.
type Block struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Purpose string `json:"purpose"`
	Permit  string `json:"permit"`
	Contact string `json:"contact"`
	Expires string `json:"expires"` // the last day, in UTC
	SHA256  string `json:"sha256"`  // of the document's text, in hex
}

// Why a run is refused for its study.
var (
	// ErrOther: the run belongs to no study, or to another one than is required.
	ErrOther = errors.New("not the study")
	// ErrEnded: the study's last day is over.
	ErrEnded = errors.New("the study has ended")
)

// Reason and Domain, in the details of a refusal, tell a student that the run's study is the reason.
const (
	Reason = "STUDY"
	Domain = "conclave"
)

// Block is what the study's runs say about it; text is the content of its file.
func (s *Study) Block(text []byte) (*Block, error) {
	end, err := s.End()
	if err != nil {
		return nil, err
	}
	return &Block{Name: s.Name, Title: s.Title, Purpose: s.Purpose, Permit: s.Permit, Contact: s.Contact,
		Expires: end.AddDate(0, 0, -1).Format(time.DateOnly), SHA256: Hash(text)}, nil
}

// FromWire is the block of a spec, or nil. It checks nothing.
func FromWire(pb *conclavev1.Study) *Block {
	if pb == nil {
		return nil
	}
	return &Block{Name: pb.GetName(), Title: pb.GetTitle(), Purpose: pb.GetPurpose(), Permit: pb.GetPermit(),
		Contact: pb.GetContact(), Expires: pb.GetExpires(), SHA256: pb.GetSha256()}
}

// Wire is the block as sent in a spec, nil for none.
func (b *Block) Wire() *conclavev1.Study {
	if b == nil {
		return nil
	}
	return &conclavev1.Study{Name: b.Name, Title: b.Title, Purpose: b.Purpose, Permit: b.Permit, Contact: b.Contact,
		Expires: b.Expires, Sha256: b.SHA256}
}

// Validate refuses texts that cannot be shown on one line, and an invalid hash. A nil block is valid.
func (b *Block) Validate() error {
	if b == nil {
		return nil
	}
	if err := config.CheckName(b.Name); err != nil {
		return fmt.Errorf("study: name: %w", err)
	}
	for _, f := range []struct{ field, line string }{
		{"title", b.Title}, {"purpose", b.Purpose}, {"permit", b.Permit}, {"contact", b.Contact},
	} {
		if err := checkLine(f.line); err != nil {
			return fmt.Errorf("study: %s: %w", f.field, err)
		}
	}
	if _, err := time.Parse(time.DateOnly, b.Expires); err != nil {
		return fmt.Errorf("study: expires: %q is not a day; write it like 2027-06-30", b.Expires)
	}
	return CheckHash("study: sha256", b.SHA256)
}

// checkLine refuses an empty text, and what [runspec.CheckLine] refuses.
func checkLine(line string) error {
	if line == "" {
		return errors.New("none; people at the sites read it before they take part")
	}
	if err := runspec.CheckLine(line); err != nil {
		return fmt.Errorf("it has %w", err)
	}
	return nil
}

// CheckHash refuses anything but a SHA-256 in the form of [Hash]; field names it in the error.
func CheckHash(field, sum string) error {
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != sum {
		return fmt.Errorf("%s: %q is not a SHA-256; write 64 lower-case hex digits, as printed by `sha256sum "+
			"study.yaml`",
			field, sum)
	}
	return nil
}

// Ended reports whether the study is over at a moment. An unreadable day counts as over.
func (b *Block) Ended(now time.Time) bool {
	end, err := endOf(b.Expires)
	return err != nil || !now.Before(end)
}

// Is reports whether two blocks are equal; both may be nil.
func (b *Block) Is(other *Block) bool {
	if b == nil || other == nil {
		return b == other
	}
	return *b == *other
}

// Admits refuses a run that does not belong to exactly this study, or comes after its end; run is the block of the
// run's spec. A nil b admits any study that has not ended, and none. Errors match [ErrOther] or [ErrEnded].
func (b *Block) Admits(run *Block, now time.Time) error {
	switch {
	case b == nil && run == nil:
		return nil
	case b != nil && run == nil:
		return fmt.Errorf("%w: the run has no study, but %s is required; set study in run.yaml to its study.yaml",
			ErrOther, b)
	case b != nil && run.SHA256 != b.SHA256:
		return fmt.Errorf("%w: the run belongs to %s, but %s is required; set study in run.yaml to that "+
			"study.yaml", ErrOther,
			run, b)
	case b != nil && *run != *b:
		return fmt.Errorf("%w: the run's description of the study differs from its document; create the run again "+
			"from the study.yaml with SHA-256 %s", ErrOther, b.SHA256)
	case run.Ended(now):
		return fmt.Errorf("%w: %s was its last day (UTC); no more questions are allowed in "+
			"%s", ErrEnded, run.Expires, run)
	}
	return nil
}

// String is the study's name and the start of its hash; empty for none.
func (b *Block) String() string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("study %s (%.12s)", b.Name, b.SHA256)
}

// Texts is the block with all its texts, "none" for no block.
func (b *Block) Texts() string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *b)
}

// Line is everything that a person compares, on one line.
func (b *Block) Line() string {
	return fmt.Sprintf("%s; permit %s; SHA-256 %s", b.Title, b.Permit, b.SHA256)
}

// Named is what names the study to people; empty for none.
func (b *Block) Named() (title, permit, sha256 string) {
	if b == nil {
		return "", "", ""
	}
	return b.Title, b.Permit, b.SHA256
}
