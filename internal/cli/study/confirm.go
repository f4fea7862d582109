package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/study/enroll"
)

// confirmed waits for requests, and returns those with correct fingerprints once all sites have asked, or for an
// additional roster.
func (a *admission) confirmed(ctx context.Context, o *enroll.Operator) ([]enroll.Asking, *enroll.Standing, error) {
	right := map[string]enroll.Asking{}
	shown := map[string]bool{}
	waited := ""
	for {
		asking, stands, err := o.Look(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, q := range asking {
			if q.Refused != nil {
				if !shown[q.Site] {
					fmt.Fprintf(os.Stderr, "site %q cannot be admitted: %v\n", q.Site, q.Refused)
					shown[q.Site] = true
				}
				continue
			}
			if held, ok := right[q.Site]; ok && held.Fingerprint == q.Fingerprint {
				continue
			}
			if err := a.confirm(ctx, q); err != nil {
				return nil, nil, err
			}
			right[q.Site] = q
		}
		var missing []string
		for _, site := range a.study.Sites {
			_, ok := right[site]
			if !ok && (stands == nil || stands.Site(site) == nil) {
				missing = append(missing, site)
			}
		}
		if len(missing) == 0 || a.partial {
			return inOrder(right), stands, a.enough(right, stands)
		}
		if text := strings.Join(missing, ", "); text != waited {
			fmt.Fprintf(os.Stderr, "waiting for %s\n", text)
			waited = text
		}
		o.Wait(ctx)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// enough refuses a roster without sites.
func (a *admission) enough(right map[string]enroll.Asking, stands *enroll.Standing) error {
	if len(right) == 0 && stands == nil {
		return errors.New("no site has asked for admission; run the command again later, or without --partial")
	}
	return nil
}

func inOrder(sites map[string]enroll.Asking) []enroll.Asking {
	var all []enroll.Asking
	for _, s := range sites {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y enroll.Asking) int { return strings.Compare(x.Site, y.Site) })
	return all
}

// confirm requires a person, or a flag, to confirm that a site reads out the fingerprint of its request.
func (a *admission) confirm(ctx context.Context, q enroll.Asking) error {
	fmt.Fprintf(os.Stderr, "site %s has asked since %s UTC, with the key\n  %s\n", q.Site,
		q.Received.Format(time.DateTime), certs.SpellFingerprint(q.Fingerprint))
	if q.Replaced > 0 {
		fmt.Fprintf(os.Stderr, "  it replaced another key, %s: ask the site how often it started over\n",
			text.Several(q.Replaced, "time"))
	}
	if told, ok := a.told[q.Site]; ok {
		if err := certs.CheckFingerprint(told, q.Fingerprint, certs.LeastFingerprint); err != nil {
			return fmt.Errorf("site %s is not admitted: %w", q.Site, err)
		}
		return nil
	}
	if !cli.Confirm(ctx, fmt.Sprintf("does %s read out the same fingerprint?", q.Site)) {
		return fmt.Errorf("site %s is not admitted: run this command again and answer yes, or give --confirm "+
			"%s=FINGERPRINT, after %s has read out this fingerprint; if it reads out another one, do not admit it: "+
			"docs/studies.md says what to do", q.Site, q.Site, q.Site)
	}
	return nil
}
