package masking

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
)

// tagBytes is the size of a tag: HMAC-SHA256 in full.
const tagBytes = sha256.Size

// tagKey is the key for tags from one member to another. Each direction has its own key, so that no tag can be
// sent back as the other member's.
func tagKey(secret [seedBytes]byte, from, to string) ([seedBytes]byte, error) {
	return derive(secret[:], encode("tag").text(from).text(to))
}

// tagOf is the tag of what a member agrees to, for one other member.
func tagOf(key [seedBytes]byte, agreed Digest) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write(agreed[:])
	return h.Sum(nil)
}

// agreed is the statement that survivors agree to. It is charged when it is opened.
func agreed(run string, terms Digest, survivors []string) encoding {
	e := encode("survivors").text(run).bytes(terms[:]).number(uint64(len(survivors)))
	for _, site := range survivors {
		e = e.text(site)
	}
	return e
}

// CheckTags checks the form of a survivor's tags for all others. Only those others can verify them.
func CheckTags(survivors []string, tags [][]byte) error {
	if len(tags) != len(survivors)-1 {
		return fmt.Errorf("%d tags for %d others in the sum", len(tags), len(survivors)-1)
	}
	for _, tag := range tags {
		if len(tag) != tagBytes {
			return fmt.Errorf("a tag of %d bytes, want %d", len(tag), tagBytes)
		}
	}
	return nil
}

// TagsFor returns the tags for one survivor, given its index; made holds the tags that each survivor made for the
// others.
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

// DoubtError says that some tags are not for the list that this member agreed to. Either this member or the
// sites named lie, or they were told different lists.
type DoubtError struct{ Sites []string }

func (d *DoubtError) Error() string {
	return fmt.Sprintf("the tags of %s are not for the members that this node agreed to; start another attempt "+
		"without these members", strings.Join(d.Sites, ", "))
}
