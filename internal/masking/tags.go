package masking

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
)

// tagBytes is the size of a tag: HMAC-SHA256 in full.
const tagBytes = sha256.Size

// tagKey is the key of the tags by which one of two members tells the other to whom it agrees. The other way has a key
// of its own, so that no tag can be sent back as the other's.
func tagKey(secret [seedBytes]byte, from, to string) ([seedBytes]byte, error) {
	return derive(secret[:], encode("tag").text(from).text(to))
}

// tagOf is the tag of what a member agrees to, for one other.
func tagOf(key [seedBytes]byte, agreed Digest) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write(agreed[:])
	return h.Sum(nil)
}

// agreed is the statement that survivors agree to, and that is charged when it is opened.
func agreed(run string, terms Digest, survivors []string) encoding {
	e := encode("survivors").text(run).bytes(terms[:]).number(uint64(len(survivors)))
	for _, site := range survivors {
		e = e.text(site)
	}
	return e
}

// CheckTags says whether the tags of a survivor have the form of tags for all others. Whether they are right only those
// others can tell.
func CheckTags(survivors []string, tags [][]byte) error {
	if len(tags) != len(survivors)-1 {
		return fmt.Errorf("%d tags for %d others in the sum", len(tags), len(survivors)-1)
	}
	for _, tag := range tags {
		if len(tag) != tagBytes {
			return fmt.Errorf("a tag of %d bytes; %d are due", len(tag), tagBytes)
		}
	}
	return nil
}

// TagsFor are the tags for one of the survivors, by its place among them: made are those that each made for the others.
func TagsFor(at int, made [][][]byte) (tags [][]byte) {
	for from, tagsOf := range made {
		switch {
		case from < at:
			tags = append(tags, tagsOf[at-1])
		case from > at:
			tags = append(tags, tagsOf[at])
		}
	}
	return tags
}

// DoubtError says that tags are not those of what this member agreed to. Either it or the sites that it names lie, or
// they were told different things.
type DoubtError struct{ Sites []string }

func (d *DoubtError) Error() string {
	return fmt.Sprintf("the tags of %s are not for those in the sum that this node agreed to; begin another attempt, "+
		"without those that lie", strings.Join(d.Sites, ", "))
}
